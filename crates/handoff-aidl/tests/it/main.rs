//! The compilers of AIDL and HIDL on whole files.

mod classes;
mod common;
mod corpus;
mod malformed;
mod versions;
