//! Formats that other tools read. Each is one file; nothing is measured or judged here.

pub mod csv;
pub mod google_benchmark;
pub mod parquet;
