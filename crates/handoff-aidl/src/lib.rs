//! The interface compiler: `.aidl` and `.hal` files become Rust proxies and stubs on `handoff_ipc`.
#![warn(missing_docs)]

pub mod ast;
mod builder;
pub mod check;
pub mod diagnostic;
pub mod lex;
mod load;
pub mod model;
mod parse;
mod prelude;
mod rust;
pub mod source;

pub use builder::{BuildError, Builder};
pub use load::{Compilation, Options, compile};
pub use parse::parse;
pub use rust::{RustOptions, generate};
