//! Experiments, their statistics and their reports, as a whole.

mod analyse;
mod common;
mod doctor;
mod errors;
mod experiment_report;
mod history_errors;
mod reference;
mod suite_report;
