//! What the generators of classes, in C++ and in Java, are told, and what they give.

use std::path::PathBuf;

/// What the generated code is told.
#[derive(Debug, Clone, Default)]
pub struct ClassOptions {
    /// What `getInterfaceVersion` answers.
    pub version: Option<u32>,
    /// What `getInterfaceHash` answers.
    pub hash: Option<String>,
}

/// A file of source code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Below the folder for the output: `aidl/a/b/IFoo.h`, `a/b/IFoo.cpp`, `a/b/IFoo.java`.
    pub path: PathBuf,
    pub text: String,
}
