//! What the events mean: who ran, who waited, who woke whom.

pub mod flips;
pub mod graph;
pub mod percentiles;
pub mod requests;
pub mod simulate;
pub mod timeline;
pub mod tree;
