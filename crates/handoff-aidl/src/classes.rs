//! What the generators of classes, in C++ and in Java, are told, and what they give.

use std::path::PathBuf;

use crate::diagnostic::Diagnostic;
use crate::model::{Def, TypeKind};
use crate::source::Span;

/// What the generated code is told.
#[derive(Debug, Clone, Default)]
pub struct ClassOptions {
    /// What `getInterfaceVersion` answers.
    pub version: Option<u32>,
    /// What `getInterfaceHash` answers.
    pub hash: Option<String>,
    /// Classes of C++ that call or serve have a function that is told of every call.
    pub log: bool,
}

/// A file of source code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Below the folder for the output: `aidl/a/b/IFoo.h`, `a/b/IFoo.cpp`, `a/b/IFoo.java`.
    pub path: PathBuf,
    pub text: String,
}

/// That a language has no `ParcelableHolder`.
pub(crate) fn no_holder(at: Span, language: &str) -> Diagnostic {
    Diagnostic::error(at, format!("`ParcelableHolder` cannot be used from {language} yet"))
        .help("make the extension a field of its own, or write the side that needs it in C++")
}

/// Types of a definition that classes cannot hold, with where each stands and what to do.
pub(crate) fn wrong_types(def: &Def, language: &str) -> Vec<(Span, String, &'static str)> {
    let mut wrong: Vec<(Span, String, &str)> = Vec::new();
    crate::check::each_type(def, &mut |ty, at| {
        let (what, help) = match &ty.kind {
            TypeKind::CharSequence => ("`CharSequence`", "use a String"),
            TypeKind::BareFileDescriptor => ("`FileDescriptor`", "use a ParcelFileDescriptor"),
            TypeKind::Memory | TypeKind::Bitfield(_) => {
                ("a type of HIDL", "convert the package with `handoff aidl from-hidl`")
            }
            _ => return,
        };
        wrong.push((at, format!("{what} cannot be used from {language}"), help));
    });
    wrong
}
