//! The interface compiler: `.aidl` and `.hal` files become Rust proxies and stubs on `handoff_ipc`,
//! Python's on the package `handoff`, or C++ in the shape of Android's NDK backend.

pub mod ast;
mod builder;
pub mod check;
mod clashes;
mod classes;
mod compat;
mod convert;
mod cpp;
mod describe;
pub mod diagnostic;
mod format;
mod freeze;
mod java;
pub mod lex;
mod load;
pub mod model;
mod parse;
mod prelude;
mod print;
mod python;
mod rust;
pub mod source;

pub use builder::{BuildError, Builder};
pub use classes::{ClassOptions, SourceFile};
pub use compat::{Change, compare};
pub use convert::{Converted, from_hidl};
pub use cpp::generate_cpp;
pub use describe::{Described, DescribedField, DescribedMethod, DescribedValue, describe};
pub use format::format;
pub use freeze::{FreezeError, Frozen, freeze, verify};
pub use java::generate_java;
pub use load::{Compilation, Options, compile};
pub use parse::parse;
pub use print::{Printed, Style, print, type_text};
pub use python::{PythonOptions, generate_python};
pub use rust::{RustOptions, generate};

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
