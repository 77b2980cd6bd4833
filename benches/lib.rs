//! The figures that the book quotes: each bench is a file beside this one, and what it measured is
//! kept in `results/`. `cargo xtask bench` runs them and writes the table in the book again.
