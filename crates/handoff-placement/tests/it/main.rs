//! Machines, and the placement of whole processes.

mod common;
mod topology;
mod whole_process;
