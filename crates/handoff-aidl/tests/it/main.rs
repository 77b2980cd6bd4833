//! The compilers of AIDL and HIDL on whole files.

mod common;
mod corpus;
mod malformed;
mod versions;
