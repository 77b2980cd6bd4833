//! The program `handoff` and the runtime in guests.

mod arm64_guest;
mod binder_guest;
mod driver_guest;
mod guest;
mod xray_guest;
