//! Kernels: built, ported to, measured and brought to devices.

mod analyse;
#[path = "../../../handoff-lab/tests/it/common/mod.rs"]
mod browser;
mod build;
mod corpus;
mod device;
mod pairs;
mod patch_input;
mod port;
mod port_aside;
mod port_braces;
mod port_commit;
mod port_context;
mod port_edges;
mod port_honest;
mod port_inputs;
mod port_languages;
mod port_moves;
mod port_real;
mod port_recall;
mod port_review;
mod port_truth;
mod prerequisite;
mod prove;
mod recall;
mod study;
mod tiny;
