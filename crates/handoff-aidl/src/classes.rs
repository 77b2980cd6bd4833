//! What the generators of classes, in C++ and in Java, are told, and what they give.

use std::path::PathBuf;

use crate::load::Compilation;
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

/// The definitions at the top of the files that were named, as Android's compiler writes them: not those that they import. Of
/// files that this compiler brings along nobody else can write the code.
pub(crate) fn written(compilation: &Compilation) -> impl Iterator<Item = &Def> {
    compilation.model.iter().filter(|def| {
        let path = compilation.sources.file(def.file).path();
        let is_named = compilation.inputs.contains(&def.file) || crate::prelude::is_ours(path);
        def.parent.is_none() && is_named
    })
}

/// Where the type parameters of a parcelable are types of its fields: they are names alone to most languages.
pub(crate) fn held_parameters(def: &Def) -> Vec<Span> {
    let mut found = Vec::new();
    crate::check::each_type(def, &mut |ty, at| {
        if matches!(ty.kind, TypeKind::Parameter(_)) {
            found.push(at);
        }
    });
    found
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
