//! From a model to C++ in the shape of Android's NDK backend: the same files, classes and namespaces, on the NDK's
//! headers, so that a project can change from Android's compiler to this one and back.

mod data;
mod enums;
mod interface;
mod log;
mod names;
mod types;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::check;
use crate::classes::{self, ClassOptions, SourceFile};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::Compilation;
use crate::model::{self, Def, DefId, DefKind, Model, TypeKind};
use crate::source::Language;

/// Makes C++ of the files that were named, as Android's compiler does: not of those that they import.
///
/// # Errors
/// What cannot be said in C++: a name that is a word of C++, types that only Java or HIDL has.
pub fn generate_cpp(
    compilation: &Compilation,
    options: &ClassOptions,
) -> Result<Vec<SourceFile>, Diagnostics> {
    let model = &compilation.model;
    let mut generator = Generator { model, options, diagnostics: Diagnostics::new() };
    let header = crate::load::header("//", compilation);
    let mut files = Vec::new();
    for def in classes::written(compilation) {
        generator.check(def);
        for (path, text) in generator.files(def) {
            files.push(SourceFile { path, text: format!("{header}{text}") });
        }
    }
    if generator.diagnostics.has_errors() { Err(generator.diagnostics) } else { Ok(files) }
}

struct Generator<'a> {
    model: &'a Model,
    options: &'a ClassOptions,
    diagnostics: Diagnostics,
}

/// What one definition needs of other files.
#[derive(Default)]
struct Needs {
    /// Headers whose types must be known before the definition.
    before: BTreeSet<String>,
    /// Headers that may come behind it: of interfaces, which may need this one.
    behind: BTreeSet<String>,
    /// Classes to be named in front.
    declared: BTreeSet<DefId>,
}

impl Generator<'_> {
    fn error(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn files(&self, def: &Def) -> Vec<(PathBuf, String)> {
        let name = def.name.last();
        let (folder, include) = (def.name.package.join("/"), self.include(def, ""));
        let source = |body: String, includes: String| {
            let text = format!("{includes}\n{}", in_namespace(def, &body));
            (PathBuf::from(&folder).join(format!("{name}.cpp")), text)
        };
        let header = |prefix: &str, text: String| (PathBuf::from(self.include(def, prefix)), text);
        let mut body = String::new();
        self.definitions(def, &mut body);
        match &def.kind {
            DefKind::Interface(interface) => {
                let (bn, bp) = (self.include(def, "Bn"), self.include(def, "Bp"));
                let includes = format!("#include <{bp}>\n#include <{bn}>\n#include <{include}>\n");
                vec![
                    header("", self.header(def)),
                    header("Bn", self.server_header(def, interface)),
                    header("Bp", self.client_header(def, interface)),
                    source(body, includes),
                ]
            }
            // Its class is in the header that the file names.
            DefKind::Opaque { .. } => Vec::new(),
            _ if is_generic(def) => vec![header("", self.header(def))],
            _ => vec![header("", self.header(def)), source(body, format!("#include <{include}>\n"))],
        }
    }

    /// The header that declares a definition, with the types that are nested in it.
    fn header(&self, def: &Def) -> String {
        let mut needs = Needs::default();
        self.collect(def, def.id, &mut needs);
        let mut text = String::from(
            "#pragma once\n\n#include <array>\n#include <cstdint>\n#include <memory>\n#include <optional>\n\
             #include <string>\n#include <variant>\n#include <vector>\n\n\
             #include <android/binder_enums.h>\n#include <android/binder_interface_utils.h>\n\
             #include <android/binder_parcel_utils.h>\n#include <android/binder_to_string.h>\n",
        );
        if self.options.log {
            text.push_str("#include <chrono>\n#include <functional>\n#include <utility>\n");
        }
        for id in &needs.declared {
            let other = self.model.def(*id);
            let class = format!("{}class {};\n", names::template(other), other.name.last());
            text.push_str(&in_namespace(other, &class));
        }
        for include in &needs.before {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "#include <{include}>");
        }
        text.push('\n');
        let mut body = String::new();
        self.declaration(def, 0, &mut body);
        self.enum_texts(def, &mut body);
        if is_generic(def) {
            self.definitions(def, &mut body);
        }
        text.push_str(&in_namespace(def, &body));
        self.enum_values(def, &mut text);
        for include in needs.behind.difference(&needs.before) {
            let _ = writeln!(text, "#include <{include}>");
        }
        text
    }

    fn declaration(&self, def: &Def, depth: usize, code: &mut String) {
        match &def.kind {
            DefKind::Interface(interface) => self.interface(def, interface, depth, code),
            DefKind::Parcelable(parcelable) => self.parcelable(def, parcelable, depth, code),
            DefKind::Union(fields) => self.union(def, fields, depth, code),
            DefKind::Enum(of) => self.enumeration(def, of, depth, code),
            DefKind::Opaque { .. } | DefKind::Typedef(_) => {}
        }
    }

    /// Types that are nested in another: those first that others hold.
    fn nested(&self, def: &Def, depth: usize, code: &mut String) {
        let mut left: Vec<&Def> = self.model.nested(def.id).collect();
        for other in &left {
            if !matches!(other.kind, DefKind::Enum(_)) {
                let _ = writeln!(code, "{}class {};", names::pad(depth), other.name.last());
            }
        }
        while !left.is_empty() {
            let is_free =
                |one: &&Def| !left.iter().any(|other| other.id != one.id && self.holds(one, other.id));
            // Two that hold each other are as they come: C++ says what is wrong with them.
            let next = left.iter().position(is_free).unwrap_or_default();
            let next = left.remove(next);
            self.declaration(next, depth, code);
            if let DefKind::Interface(interface) = &next.kind {
                self.nested_classes(next, interface, depth, code);
            }
        }
    }

    /// Whether a definition, or one inside of it, has values of another in it.
    fn holds(&self, def: &Def, other: DefId) -> bool {
        let mut found = false;
        check::each_type(def, &mut |ty, _| {
            if let TypeKind::Named(id, _) = &ty.kind {
                found |= self.is_within(*id, other);
            }
        });
        found || self.model.nested(def.id).any(|inner| self.holds(inner, other))
    }

    fn is_within(&self, id: DefId, outer: DefId) -> bool {
        let mut around = Some(id);
        while let Some(one) = around {
            if one == outer {
                return true;
            }
            around = self.model.def(one).parent;
        }
        false
    }

    /// What is written into the source file, for a definition and those in it.
    fn definitions(&self, def: &Def, code: &mut String) {
        match &def.kind {
            DefKind::Interface(interface) => self.interface_code(def, interface, code),
            DefKind::Parcelable(parcelable) => self.parcelable_code(def, parcelable, code),
            DefKind::Union(fields) => self.union_code(def, fields, code),
            _ => {}
        }
        self.model.nested(def.id).for_each(|inner| self.definitions(inner, code));
    }

    fn collect(&self, def: &Def, top: DefId, needs: &mut Needs) {
        check::each_type(def, &mut |ty, _| {
            let used: Vec<&Def> = match &ty.kind {
                TypeKind::Named(id, _) => vec![self.model.def(*id)],
                TypeKind::Queue { synchronized, .. } => self.queue(*synchronized).to_vec(),
                _ => return,
            };
            for used in used {
                let owner = self.top(used.id);
                if owner.id == top {
                    continue;
                }
                let include = self.include(owner, "");
                match used.kind {
                    DefKind::Interface(_) if used.id == owner.id => drop(needs.behind.insert(include)),
                    _ => drop(needs.before.insert(include)),
                }
                let is_class = !matches!(used.kind, DefKind::Enum(_) | DefKind::Opaque { .. });
                if used.id == owner.id && is_class {
                    needs.declared.insert(used.id);
                }
            }
        });
        self.model.nested(def.id).for_each(|inner| self.collect(inner, top, needs));
    }

    /// The class of a queue's descriptor, and that of its flavour.
    fn queue(&self, synchronized: bool) -> [&Def; 2] {
        let flavour = if synchronized { check::SYNCHRONIZED } else { check::UNSYNCHRONIZED };
        // A queue's type was resolved by the two.
        [check::QUEUE, flavour].map(|name| self.model.def(self.model.names[name]))
    }

    /// The definition of a file that a type stands in.
    fn top(&self, id: DefId) -> &Def {
        let mut def = self.model.def(id);
        while let Some(parent) = def.parent {
            def = self.model.def(parent);
        }
        def
    }

    /// The path of a header: of an interface's `Bn` and `Bp` too.
    fn include(&self, def: &Def, prefix: &str) -> String {
        if let DefKind::Opaque { ndk_header: Some(header), .. } = &def.kind {
            return header.clone();
        }
        let name = if prefix.is_empty() {
            def.name.last().to_owned()
        } else {
            format!("{prefix}{}", model::stem(def.name.last()))
        };
        let folders: Vec<&str> =
            std::iter::once("aidl").chain(def.name.package.iter().map(String::as_str)).collect();
        format!("{}/{name}.h", folders.join("/"))
    }

    /// Reports what cannot be said, of a definition and those in it.
    fn check(&mut self, def: &Def) {
        if def.language == Language::Hidl {
            let diagnostic = Diagnostic::error(def.span, "C++ is written for AIDL only")
                .help("convert the package with `handoff aidl from-hidl`");
            return self.error(diagnostic);
        }
        self.check_types(def);
        self.check_names(def);
        let model = self.model;
        model.nested(def.id).for_each(|inner| self.check(inner));
    }
}

/// Whether a definition has type parameters: its code is in the header then, as that of templates has to be.
fn is_generic(def: &Def) -> bool {
    !names::template(def).is_empty()
}

/// Code inside of the namespaces of a definition's package.
fn in_namespace(def: &Def, body: &str) -> String {
    let names: Vec<&str> =
        std::iter::once("aidl").chain(def.name.package.iter().map(String::as_str)).collect();
    let open: String = names.iter().map(|name| format!("namespace {name} {{\n")).collect();
    let close: String = names.iter().rev().map(|name| format!("}}  // namespace {name}\n")).collect();
    format!("{open}{body}{close}")
}
