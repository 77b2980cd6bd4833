//! Kernels: built, ported to, measured and brought to devices.

mod analyse;
mod build;
mod corpus;
mod device;
mod port;
mod port_recall;
mod prerequisite;
mod prove;
mod recall;
mod study;
mod tiny;
