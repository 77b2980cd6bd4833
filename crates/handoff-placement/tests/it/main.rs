//! Machines, policies, and the placement of whole processes.

mod common;
mod policy_daemon;
mod policy_files;
mod topology;
mod whole_process;
