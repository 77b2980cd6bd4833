//! The program `handoff` as a person uses it, on this machine.

mod activation;
mod bisect;
mod campaign;
mod cli;
mod config;
mod deadlines;
#[path = "../../../../examples/tests/it/everything/mod.rs"]
mod everything;
mod kernel_device;
mod lab;
mod lab_kills;
mod placement;
mod process;
mod run;
mod services;
mod targets;
mod trace;
mod typed_calls;
mod workloads;
