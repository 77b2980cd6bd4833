//! What a name means where it stands.

use std::collections::HashMap;

use super::Checker;
use crate::ast::{ItemKind, Path};
use crate::diagnostic::{Diagnostic, similar};
use crate::model::DefId;
use crate::source::{Language, Span};

/// Types that need no definition.
pub(crate) const AIDL_TYPES: [&str; 16] = [
    "void",
    "boolean",
    "byte",
    "char",
    "int",
    "long",
    "float",
    "double",
    "String",
    "CharSequence",
    "IBinder",
    "FileDescriptor",
    "ParcelFileDescriptor",
    "List",
    "Map",
    "ParcelableHolder",
];

/// The same of HIDL.
pub(crate) const HIDL_TYPES: [&str; 22] = [
    "bool",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "float",
    "double",
    "string",
    "handle",
    "memory",
    "pointer",
    "death_recipient",
    "interface",
    "vec",
    "bitfield",
    "fmq_sync",
    "fmq_unsync",
    "ref",
];

impl Checker<'_> {
    /// The definition that a name means inside of another one.
    pub(super) fn resolve(&self, scope: DefId, path: &Path) -> Option<DefId> {
        let names: Vec<&str> = path.names.iter().map(|name| name.text.as_str()).collect();
        match self.language(scope) {
            Language::Aidl => self.resolve_aidl(scope, &names),
            Language::Hidl => self.resolve_hidl(scope, path, &names),
        }
    }

    fn find(&self, prefix: &str, joint: &str, names: &[&str]) -> Option<DefId> {
        let rest = names.join(".");
        let full = if prefix.is_empty() { rest } else { format!("{prefix}{joint}{rest}") };
        self.names.get(&full).copied()
    }

    /// In the types around it, from the inside out.
    fn in_scopes(&self, scope: DefId, names: &[&str]) -> Option<DefId> {
        let mut around = Some(scope);
        while let Some(id) = around {
            let entry = self.entry(id);
            if let Some(found) = self.find(&entry.name.to_string(), ".", names) {
                return Some(found);
            }
            if names.len() == 1 && entry.item.name.text == names[0] {
                return Some(id);
            }
            if let Some(found) = self.in_bases(id, names) {
                return Some(found);
            }
            around = entry.parent;
        }
        None
    }

    /// Among the types that an interface inherits.
    fn in_bases(&self, id: DefId, names: &[&str]) -> Option<DefId> {
        let mut seen = vec![id];
        loop {
            let last = *seen.last()?;
            let ItemKind::Interface { extends: Some(path), .. } = &self.entry(last).item.kind else {
                return None;
            };
            let base = self.resolve_base(last, path)?;
            if seen.contains(&base) {
                return None;
            }
            if let Some(found) = self.find(&self.entry(base).name.to_string(), ".", names) {
                return Some(found);
            }
            seen.push(base);
        }
    }

    /// What an interface extends, which is never looked for inside of the interface.
    fn resolve_base(&self, scope: DefId, path: &Path) -> Option<DefId> {
        let names: Vec<&str> = path.names.iter().map(|name| name.text.as_str()).collect();
        self.in_packages(scope, path, &names)
    }

    fn resolve_aidl(&self, scope: DefId, names: &[&str]) -> Option<DefId> {
        if let Some(found) = self.in_scopes(scope, names) {
            return Some(found);
        }
        let first = names.first()?;
        for import in &self.document(scope).imports {
            let full: Vec<&str> = import.path.names.iter().map(|name| name.text.as_str()).collect();
            if full.last() == Some(first) {
                let all: Vec<&str> = full.iter().chain(&names[1..]).copied().collect();
                if let Some(found) = self.find("", "", &all) {
                    return Some(found);
                }
            }
        }
        let package = self.entry(scope).name.package_text();
        self.find(&package, ".", names).or_else(|| self.find("", "", names))
    }

    fn resolve_hidl(&self, scope: DefId, path: &Path, names: &[&str]) -> Option<DefId> {
        let in_scopes = if path.version.is_none() { self.in_scopes(scope, names) } else { None };
        in_scopes.or_else(|| self.in_packages(scope, path, names))
    }

    fn in_packages(&self, scope: DefId, path: &Path, names: &[&str]) -> Option<DefId> {
        let own = &self.entry(scope).name;
        let package_of = |path: &Path| -> String {
            let names: Vec<&str> = path.package.iter().map(|name| name.text.as_str()).collect();
            let names = if names.is_empty() { own.package.join(".") } else { names.join(".") };
            path.version.or(own.version).map_or(names.clone(), |version| format!("{names}@{version}"))
        };
        if path.version.is_some() {
            return self.find(&package_of(path), "::", names);
        }
        if let Some(found) = self.find(&own.package_text(), "::", names) {
            return Some(found);
        }
        for import in &self.document(scope).imports {
            let import = &import.path;
            let first = import.names.first().map(|name| name.text.as_str());
            let covers = first.is_none() || first == Some("types") || first == names.first().copied();
            if covers && import.version.is_some() {
                if let Some(found) = self.find(&package_of(import), "::", names) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Reports imports that lead nowhere, or say the same twice.
    pub(super) fn check_imports(&mut self) {
        let documents = self.documents;
        for parsed in documents {
            let mut seen: HashMap<String, Span> = HashMap::new();
            for import in &parsed.document.imports {
                let text = import.path.text();
                if let Some(earlier) = seen.get(&text) {
                    let diagnostic =
                        Diagnostic::warning(import.path.span, format!("`{text}` is imported twice"))
                            .related(*earlier, "first imported here");
                    self.error(diagnostic);
                }
                seen.entry(text.clone()).or_insert(import.path.span);
                if parsed.document.language == Language::Aidl {
                    self.check_aidl_import(&text, import.path.span);
                }
            }
        }
    }

    fn check_aidl_import(&mut self, text: &str, span: Span) {
        if self.names.contains_key(text) {
            return;
        }
        // Java's own types may be imported by habit.
        if ["android.os.IBinder", "android.os.ParcelFileDescriptor", "java.util.List", "java.util.Map"]
            .contains(&text)
        {
            return;
        }
        let file = text.replace('.', "/");
        let meant = similar(text, self.names.keys().map(String::as_str)).map(str::to_owned);
        let mut diagnostic = Diagnostic::error(span, format!("`{text}` was not found"))
            .label("no file defines it")
            .help(format!("expected in `{file}.aidl` below one of the include folders (-I)"));
        if let Some(meant) = meant {
            diagnostic = diagnostic.help("did you mean").fix(span, meant);
        }
        self.error(diagnostic);
    }

    /// Reports a type that is not known.
    pub(super) fn unknown_type(&mut self, scope: DefId, path: &Path) {
        let text = path.text();
        let language = self.language(scope);
        let (own, other): (&[&str], &[&str]) = match language {
            Language::Aidl => (&AIDL_TYPES, &HIDL_TYPES),
            Language::Hidl => (&HIDL_TYPES, &AIDL_TYPES),
        };
        let diagnostic = Diagnostic::error(path.span, format!("there is no type `{text}`")).label("unknown");
        let others = self.entries.iter().map(|entry| entry.item.name.text.as_str());
        let meant = foreign(&text, language).or_else(|| similar(&text, own.iter().copied().chain(others)));
        let imported = self.entries.iter().find(|entry| entry.item.name.text == text);
        let diagnostic = match (imported, meant) {
            (Some(entry), _) => diagnostic.help(format!("import it: `import {};`", entry.name)),
            (None, Some(meant)) => {
                let meant = meant.to_owned();
                diagnostic.help("did you mean").fix(path.span, meant)
            }
            (None, None) if other.contains(&text.as_str()) => {
                diagnostic.help("this is a type of the other language")
            }
            (None, None) if language == Language::Aidl => {
                let file = text.replace('.', "/");
                diagnostic.help(format!(
                    "import it, or define it in `{file}.aidl` of this package, below an include folder (-I)"
                ))
            }
            (None, None) => diagnostic.help("define it in `types.hal`, or import the package that does"),
        };
        self.error(diagnostic);
    }
}

/// What a type of another language is called in this one.
fn foreign(name: &str, language: Language) -> Option<&'static str> {
    let meant = match (language, name) {
        (Language::Aidl, "bool") => "boolean",
        (Language::Aidl, "string" | "str") => "String",
        (Language::Aidl, "int8_t" | "uint8_t" | "i8" | "u8") => "byte",
        (Language::Aidl, "int32_t" | "uint32_t" | "i32" | "u32" | "Integer" | "int16_t") => "int",
        (Language::Aidl, "int64_t" | "uint64_t" | "i64" | "u64" | "Long" | "size_t") => "long",
        (Language::Aidl, "uint16_t") => "char",
        (Language::Aidl, "short") => "int",
        (Language::Hidl, "boolean") => "bool",
        (Language::Hidl, "String") => "string",
        (Language::Hidl, "byte") => "int8_t",
        (Language::Hidl, "int") => "int32_t",
        (Language::Hidl, "long") => "int64_t",
        (Language::Hidl, "char") => "uint16_t",
        (Language::Hidl, "List") => "vec",
        (Language::Hidl, "IBinder") => "interface",
        (Language::Hidl, "ParcelFileDescriptor") => "handle",
        _ => return None,
    };
    Some(meant)
}
