//! What the generators of classes, in C++ and in Java, are told, and what they give.

use std::path::PathBuf;

use crate::model::{Def, DefKind, TypeKind};
use crate::source::Span;

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

/// Types of a definition that classes cannot hold, with where each stands and what to do.
pub(crate) fn wrong_types(def: &Def, language: &str) -> Vec<(Span, String, &'static str)> {
    let mut wrong: Vec<(Span, String, &str)> = Vec::new();
    crate::check::each_type(def, &mut |ty, at| {
        let (what, help) = match &ty.kind {
            TypeKind::CharSequence => ("`CharSequence`", "use a String"),
            TypeKind::BareFileDescriptor => ("`FileDescriptor`", "use a ParcelFileDescriptor"),
            TypeKind::Memory | TypeKind::Queue { .. } | TypeKind::Bitfield(_) => {
                ("a type of HIDL", "convert the package with `handoff aidl from-hidl`")
            }
            TypeKind::Named(_, arguments) if !arguments.is_empty() => {
                ("a parcelable with type parameters", "write one for each type that it is used with")
            }
            _ => return,
        };
        wrong.push((at, format!("{what} cannot be used from {language}"), help));
    });
    match &def.kind {
        DefKind::Parcelable(parcelable) if !parcelable.parameters.is_empty() => wrong.push((
            def.span,
            format!("parcelables with type parameters are not supported in {language}"),
            "write one for each type that it is used with",
        )),
        DefKind::Opaque { .. } => wrong.push((
            def.span,
            "nothing is known of what is inside of this parcelable".to_owned(),
            "give it fields",
        )),
        _ => {}
    }
    wrong
}
