//! From a model to a module of Python: classes on the package's `handoff.aidl`, which knows the wire.

mod data;
mod interface;
mod names;
mod types;

use std::collections::{HashMap, HashSet};

use crate::ast::Docs;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::Compilation;
use crate::model::{BUNDLE, Def, DefId, DefKind, HOLDER, Model, TypeKind, stem};
use names::{constant, type_name};

/// What the generated code is told.
#[derive(Debug, Clone, Default)]
pub struct PythonOptions {
    /// What `getInterfaceVersion` answers.
    pub version: Option<u32>,
    /// What `getInterfaceHash` answers.
    pub hash: Option<String>,
    /// Proxies for tasks of asyncio beside the blocking ones.
    pub asynchronous: bool,
}

/// Makes a module of Python of everything that was compiled. Types that are nested in others have names such as
/// `Outer_Inner`; packages leave no trace.
///
/// # Errors
/// What cannot be said in Python: two names that become one, HIDL's `memory`, a parcelable that nothing is known of.
pub fn generate_python(compilation: &Compilation, options: &PythonOptions) -> Result<String, Diagnostics> {
    let mut generator = Generator {
        model: &compilation.model,
        options,
        names: HashMap::new(),
        diagnostics: Diagnostics::new(),
    };
    let all: Vec<&Def> = compilation.model.iter().filter(|def| generator.is_written(def)).collect();
    generator.name_all(&all);
    let mut code = String::new();
    let of = |wanted: fn(&DefKind) -> bool| all.iter().copied().filter(move |def| wanted(&def.kind));
    for def in of(|kind| matches!(kind, DefKind::Enum(_))) {
        generator.enumeration(def, &mut code);
    }
    for def in of(|kind| matches!(kind, DefKind::Parcelable(_) | DefKind::Union(_) | DefKind::Opaque { .. }))
    {
        generator.data(def, &mut code);
    }
    let mut done = HashSet::new();
    for def in of(|kind| matches!(kind, DefKind::Interface(_))) {
        generator.interface_and_bases(def, &mut done, &mut code);
    }
    if generator.diagnostics.has_errors() {
        return Err(generator.diagnostics);
    }
    let header = crate::load::header("#", compilation);
    Ok(format!(
        "{header}from __future__ import annotations\n\n\
         import abc as _abc\nimport builtins as _builtins\nimport collections.abc as _collections\n\
         import dataclasses as _dataclasses\nimport typing as _typing\n\n\
         import handoff as _handoff\nfrom handoff import aidl as _aidl\n{code}"
    ))
}

struct Generator<'a> {
    model: &'a Model,
    options: &'a PythonOptions,
    /// The names of the classes.
    names: HashMap<DefId, String>,
    diagnostics: Diagnostics,
}

impl Generator<'_> {
    fn error(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Whether a definition becomes code of its own.
    fn is_written(&self, def: &Def) -> bool {
        // A queue's descriptor has parameters that none of its fields uses.
        !(matches!(def.kind, DefKind::Typedef(_)) || def.is_holder() || def.is_bundle())
            && (def.name.to_string() != crate::check::QUEUE || self.uses_queues())
    }

    fn uses_queues(&self) -> bool {
        let mut found = false;
        for def in self.model.iter() {
            crate::check::each_type(def, &mut |ty, _| found |= matches!(ty.kind, TypeKind::Queue { .. }));
        }
        found
    }

    fn name_all(&mut self, all: &[&Def]) {
        // The package has these classes.
        for name in [HOLDER, BUNDLE] {
            let known = self.model.find(name).map(|def| (def.id, format!("_aidl.{}", def.name.last())));
            self.names.extend(known);
        }
        let mut taken: HashMap<String, crate::source::Span> = HashMap::new();
        for def in all {
            let outer: Vec<String> = def.name.names.iter().map(|name| type_name(name)).collect();
            let name = outer.join("_");
            let mut classes = vec![name.clone()];
            if matches!(def.kind, DefKind::Interface(_)) {
                classes = vec![name.clone(), self.with(def, "Proxy"), self.with(def, "Stub")];
                if self.options.asynchronous {
                    classes.push(self.with(def, "AsyncProxy"));
                }
            }
            for class in classes {
                if let Some(other) = taken.insert(class.clone(), def.span) {
                    let diagnostic =
                        Diagnostic::error(def.span, format!("two things become `{class}` in Python"))
                            .related(other, "the other one")
                            .help("rename one of them, or compile the packages into modules of their own");
                    self.error(diagnostic);
                }
            }
            self.names.insert(def.id, name);
        }
    }

    fn name(&self, id: DefId) -> String {
        self.names.get(&id).cloned().unwrap_or_default()
    }

    /// The name of an interface's proxy or stub.
    fn with(&self, def: &Def, what: &str) -> String {
        let mut parts: Vec<String> = def.name.names.iter().map(|name| type_name(name)).collect();
        if let Some(last) = parts.last_mut() {
            *last = stem(last).to_owned();
        }
        format!("{}{what}", parts.join("_"))
    }

    /// Constants as values of a class.
    fn constants(&mut self, def: &Def, code: &mut String) {
        crate::clashes::find(
            &mut self.diagnostics,
            "Python",
            def.constants.iter().map(|one| (one.name.as_str(), def.span)),
            constant,
        );
        for one in &def.constants {
            names::comment(&one.docs, code);
            let value = self.value(&one.ty, &one.value, true);
            code.push_str(&format!("    {} = {value}\n", constant(&one.name)));
        }
    }

    /// The documentation of a class or a method, as the first thing in it.
    fn docstring(docs: &Docs, otherwise: &str, depth: usize, code: &mut String) {
        let pad = "    ".repeat(depth);
        let mut lines: Vec<String> = docs.lines.iter().map(|line| names::in_docstring(line)).collect();
        if lines.iter().all(|line| line.trim().is_empty()) {
            lines = vec![names::in_docstring(otherwise)];
        }
        if let Some(reason) = &docs.deprecated {
            lines.push(String::new());
            lines.push(format!("Deprecated. {}", names::in_docstring(reason)).trim_end().to_owned());
        }
        let text = lines.join("\n");
        let text = text.trim().replace('\n', &format!("\n{pad}"));
        let text: Vec<&str> = text.lines().map(str::trim_end).collect();
        let end = if text.len() > 1 { format!("\n{pad}") } else { String::new() };
        code.push_str(&format!("{pad}\"\"\"{}{end}\"\"\"\n", text.join("\n")));
    }
}
