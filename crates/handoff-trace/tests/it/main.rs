//! Recordings of real tasks.

mod capture;
mod compare;
mod diagnose;
mod perfetto;
