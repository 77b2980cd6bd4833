//! From a model to Java in the shape of Android's: `IFoo` with `Default`, `Stub` and `Proxy`, parcelables, unions and enums,
//! on the `android.os` classes of a device, or of `bindings/java`.

mod data;
mod interface;
mod types;

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::classes::{self, ClassOptions, SourceFile};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::Compilation;
use crate::model::{Def, DefKind, Model, TypeKind};
use crate::source::Language;

/// Makes Java of the files that were named, as Android's compiler does: not of those that they import. Of files that this compiler
/// brings along nobody else can write the code.
///
/// # Errors
/// What cannot be said in Java: a name that is a word of Java, `out` descriptors, types that only HIDL has.
pub fn generate_java(
    compilation: &Compilation,
    options: &ClassOptions,
) -> Result<Vec<SourceFile>, Diagnostics> {
    let model = &compilation.model;
    let mut generator = Generator { model, options, diagnostics: Diagnostics::new() };
    let header = crate::load::header("//", compilation);
    let mut files = Vec::new();
    // The class of a parcelable without fields is somewhere else, under its name.
    let is_here = |def: &&Def| !matches!(def.kind, DefKind::Opaque { .. });
    for def in classes::written(compilation).filter(is_here) {
        generator.check(def);
        let mut code = Code::default();
        code.line(format!("package {};\n", def.name.package.join(".")));
        generator.class(def, &mut code);
        let path = def.name.package.iter().collect::<PathBuf>().join(format!("{}.java", def.name.last()));
        files.push(SourceFile { path, text: format!("{header}{}", code.text) });
    }
    if generator.diagnostics.has_errors() { Err(generator.diagnostics) } else { Ok(files) }
}

struct Generator<'a> {
    model: &'a Model,
    options: &'a ClassOptions,
    diagnostics: Diagnostics,
}

/// Lines, as deep as the braces that are open.
#[derive(Default)]
struct Code {
    text: String,
    depth: usize,
}

impl Code {
    /// Writes lines: one that begins with `}` closes a level, one that ends with `{` opens one.
    fn line(&mut self, lines: impl AsRef<str>) {
        for line in lines.as_ref().lines() {
            if line.starts_with('}') {
                self.depth -= 1;
            }
            let pad = if line.is_empty() { 0 } else { self.depth * 2 };
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "{:pad$}{line}", "");
            if line.ends_with('{') {
                self.depth += 1;
            }
        }
    }
}

impl Generator<'_> {
    /// Whether a definition, or one in it, has type parameters or uses one that does.
    fn is_generic(&self, def: &Def) -> bool {
        let mut found =
            matches!(&def.kind, DefKind::Parcelable(parcelable) if !parcelable.parameters.is_empty());
        crate::check::each_type(def, &mut |ty, _| {
            found |= matches!(&ty.kind, TypeKind::Queue { .. })
                || matches!(&ty.kind, TypeKind::Named(_, arguments) if !arguments.is_empty());
        });
        found || self.model.nested(def.id).any(|inner| self.is_generic(inner))
    }

    /// The class of a definition, with those that are nested in it.
    fn class(&self, def: &Def, code: &mut Code) {
        if def.parent.is_none() && self.is_generic(def) {
            // One CREATOR makes values whatever they are used with.
            code.line("@SuppressWarnings({\"rawtypes\", \"unchecked\"})");
        }
        match &def.kind {
            DefKind::Interface(interface) => self.interface(def, interface, code),
            DefKind::Parcelable(parcelable) => self.parcelable(def, parcelable, code),
            DefKind::Union(fields) => self.union(def, fields, code),
            DefKind::Enum(of) => self.enumeration(def, of, code),
            DefKind::Opaque { .. } | DefKind::Typedef(_) => {}
        }
    }

    /// What stands in front of a class.
    fn modifiers(def: &Def) -> &'static str {
        if def.parent.is_some() { "public static " } else { "public " }
    }

    /// Constants of a class, and the classes that are nested in it.
    fn within(&self, def: &Def, code: &mut Code) {
        for one in &def.constants {
            let value = self.value(&one.ty, &one.value);
            code.line(format!("public static final {} {} = {value};", self.ty(&one.ty), one.name));
        }
        self.model.nested(def.id).for_each(|inner| self.class(inner, code));
    }

    /// Reports what cannot be said, of a definition and those in it.
    fn check(&mut self, def: &Def) {
        if def.language == Language::Hidl {
            let diagnostic = Diagnostic::error(def.span, "Java is written for AIDL only")
                .help("convert the package with `handoff aidl from-hidl`");
            self.diagnostics.push(diagnostic);
            return;
        }
        if def.parent.is_none() && def.name.package.is_empty() {
            self.diagnostics.push(Diagnostic::error(def.span, "a class of Java needs a package"));
        }
        self.check_types(def);
        self.check_names(def);
        let model = self.model;
        model.nested(def.id).for_each(|inner| self.check(inner));
    }
}
