//! Names of AIDL as names of Rust.

use heck::{ToShoutySnakeCase as _, ToSnakeCase as _, ToUpperCamelCase as _};

use super::Generator;
use crate::diagnostic::Diagnostic;
use crate::model::{Def, DefId, DefKind};
use crate::source::Span;

/// Words that cannot be names; those of [`BARE`] not even as raw ones.
const KEYWORDS: [&str; 50] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    "union", "default",
];
const BARE: [&str; 5] = ["self", "Self", "super", "crate", "_"];

/// A name that is no keyword.
pub(super) fn escaped(name: &str) -> String {
    if BARE.contains(&name) {
        format!("{name}_")
    } else if KEYWORDS[..48].contains(&name) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}

/// `getFooBar` as `get_foo_bar`.
pub(super) fn snake(name: &str) -> String {
    let snake = name.to_snake_case();
    escaped(if snake.is_empty() { "_" } else { &snake })
}

/// `fooBar` as `FooBar`.
pub(super) fn camel(name: &str) -> String {
    let camel = name.to_upper_camel_case();
    match camel.chars().next() {
        Some(first) if first.is_alphabetic() => escaped(&camel),
        _ => format!("N{camel}"),
    }
}

/// A constant's name: as it is where it has no small letters.
pub(super) fn shouty(name: &str) -> String {
    let shouted = if name.chars().any(|c| c.is_ascii_lowercase()) {
        name.to_shouty_snake_case()
    } else {
        name.to_owned()
    };
    match shouted.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("N{shouted}"),
        None => "N".to_owned(),
        _ => escaped(&shouted),
    }
}

/// The name of a type: as it is, but for the way that Rust capitalises.
pub(super) fn type_name(name: &str) -> String {
    let fine = name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains('_');
    if fine { escaped(name) } else { camel(name) }
}

/// What the names around an interface begin with: `Foo` of `IFoo`.
pub(super) fn stem(interface: &str) -> String {
    type_name(crate::model::stem(interface))
}

impl Generator<'_> {
    /// Finds a module for each definition, and reports names that would meet there.
    pub(super) fn place_all(&mut self) {
        let mut taken: std::collections::HashMap<(Vec<String>, String), Span> = Default::default();
        for def in self.model.iter() {
            let modules = self.modules(def);
            if self.is_written(def) {
                for name in names_of(def, self.options.asynchronous) {
                    if let Some(other) = taken.insert((modules.clone(), name.clone()), def.span) {
                        let diagnostic =
                            Diagnostic::error(def.span, format!("two things become `{name}` in Rust"))
                                .related(other, "the other one")
                                .help("rename one of them");
                        self.error(diagnostic);
                    }
                }
            }
            self.modules.insert(def.id, modules);
        }
    }

    fn modules(&self, def: &Def) -> Vec<String> {
        let mut modules: Vec<String> = def.name.package.iter().map(|name| snake(name)).collect();
        modules.extend(def.name.version.map(|version| format!("v{}_{}", version.major, version.minor)));
        let outer = &def.name.names[..def.name.names.len().saturating_sub(1)];
        modules.extend(outer.iter().map(|name| snake(name)));
        modules
    }

    /// The path of a definition's type, seen from another one.
    pub(super) fn path_to(&self, from: DefId, to: DefId) -> String {
        let target = self.model.def(to);
        if let Some(path) = self.options.types.get(&target.name.to_string()) {
            return path.clone();
        }
        if let DefKind::Opaque { rust_type: Some(path), .. } = &target.kind {
            return path.clone();
        }
        let name = match &target.kind {
            DefKind::Interface(_) => format!("{}Proxy", stem(target.name.last())),
            _ => type_name(target.name.last()),
        };
        self.qualified(from, to, &name)
    }

    /// A name of the module of `to`, seen from `from`.
    pub(super) fn qualified(&self, from: DefId, to: DefId, name: &str) -> String {
        let (here, there) = (&self.modules[&from], &self.modules[&to]);
        if here == there {
            return name.to_owned();
        }
        let up = "super::".repeat(here.len());
        format!("{up}{}::{name}", there.join("::"))
    }

    /// A type of the standard library that a file may have hidden.
    pub(super) fn std(&self, name: &str) -> String {
        if !self.shadowed.contains(name) {
            return name.to_owned();
        }
        let module = match name {
            "Option" => "option",
            "Vec" => "vec",
            "String" => "string",
            "Box" => "boxed",
            "Default" => "default",
            _ => return name.to_owned(),
        };
        format!("::std::{module}::{name}")
    }

    /// Reports names of one list that become the same in Rust.
    pub(super) fn distinct<'n>(
        &mut self,
        names: impl Iterator<Item = (&'n str, Span)>,
        convert: impl Fn(&str) -> String,
    ) {
        crate::clashes::find(&mut self.diagnostics, "Rust", names, convert);
    }
}

/// The names that a definition takes in its module.
fn names_of(def: &Def, asynchronous: bool) -> Vec<String> {
    let name = def.name.last();
    if !matches!(def.kind, DefKind::Interface(_)) {
        return vec![type_name(name)];
    }
    let (of, stem) = (type_name(name), stem(name));
    let mut names = vec![of.clone(), format!("{stem}Proxy"), format!("{stem}Stub")];
    if asynchronous {
        names.extend([format!("{of}Async"), format!("{stem}AsyncProxy"), format!("{stem}AsyncStub")]);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rust() {
        assert_eq!(snake("getFooBar"), "get_foo_bar");
        assert_eq!(snake("type"), "r#type");
        assert_eq!(snake("self"), "self_");
        assert_eq!(shouty("RED"), "RED");
        assert_eq!(shouty("darkRed"), "DARK_RED");
        assert_eq!(stem("IBenchmark"), "Benchmark");
        assert_eq!(stem("Ice"), "Ice");
        assert_eq!(type_name("my_type"), "MyType");
        assert_eq!(snake("union"), "union");
    }
}
