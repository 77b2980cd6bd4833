//! The program `handoff` as a person uses it, on this machine.

mod action;
mod activation;
mod bisect;
mod book;
#[path = "../../../handoff-lab/tests/it/common/mod.rs"]
mod browser;
mod campaign;
mod cli;
mod completions;
mod config;
mod deadlines;
#[path = "../../../../examples/tests/it/everything/mod.rs"]
mod everything;
#[path = "../../../../examples/tests/it/holds.rs"]
mod holds;
mod interrupts;
mod kernel_device;
mod lab;
mod lab_kills;
mod own_service;
mod pictures;
mod placement;
mod process;
mod readable;
mod run;
mod services;
mod targets;
mod trace;
mod typed_calls;
mod workloads;
