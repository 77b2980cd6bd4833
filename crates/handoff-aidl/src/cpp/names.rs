//! Names and literals of C++.

use super::Generator;
use crate::diagnostic::Diagnostic;
use crate::model::{Def, DefKind};
use crate::source::Span;

/// Words of C++20 that AIDL lets one use as names.
const KEYWORDS: [&str; 74] = [
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "catch",
    "char8_t",
    "char16_t",
    "char32_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "decltype",
    "delete",
    "dynamic_cast",
    "errno",
    "explicit",
    "export",
    "extern",
    "friend",
    "goto",
    "inline",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "template",
    "this",
    "thread_local",
    "throw",
    "try",
    "typedef",
    "typeid",
    "typename",
    "unsigned",
    "using",
    "virtual",
    "volatile",
    "wchar_t",
    "xor",
    "xor_eq",
    "NULL",
    "EOF",
    "assert",
];

/// What every interface's class has.
const OF_INTERFACES: [&str; 18] = [
    "asBinder",
    "asInterface",
    "asBinderReference",
    "createBinder",
    "defineClass",
    "descriptor",
    "dump",
    "fromBinder",
    "getDefaultImpl",
    "getInterfaceHash",
    "getInterfaceVersion",
    "hash",
    "isRemote",
    "make",
    "readFromParcel",
    "ref",
    "setDefaultImpl",
    "writeToParcel",
];
/// What every parcelable's class has.
const OF_DATA: [&str; 5] = ["descriptor", "fixed_size", "readFromParcel", "toString", "writeToParcel"];
/// What a union's class has beside.
const OF_UNIONS: [&str; 5] = ["Tag", "get", "getTag", "make", "set"];

pub(super) fn pad(depth: usize) -> String {
    "  ".repeat(depth)
}

/// What stands in front of a template: nothing if a definition has no type parameters.
pub(super) fn template(def: &Def) -> String {
    match &def.kind {
        DefKind::Parcelable(parcelable) if !parcelable.parameters.is_empty() => {
            let names: Vec<String> =
                parcelable.parameters.iter().map(|name| format!("typename {name}")).collect();
            format!("template <{}>\n", names.join(", "))
        }
        _ => String::new(),
    }
}

/// Text as a literal, in bytes that every compiler takes.
pub(super) fn text(value: &str) -> String {
    let mut literal = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => literal.extend(['\\', char::from(byte)]),
            b' '..=b'~' => literal.push(char::from(byte)),
            _ => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal + "\""
}

impl Generator<'_> {
    /// The class of a definition, from anywhere.
    pub(super) fn full(&self, def: &Def) -> String {
        if def.is_holder() {
            return "::ndk::AParcelableHolder".to_owned();
        }
        let mut parts = vec!["", "aidl"];
        parts.extend(def.name.package.iter().map(String::as_str));
        parts.extend(def.name.names.iter().map(String::as_str));
        parts.join("::")
    }

    /// The class of a definition, inside of its package's namespace.
    pub(super) fn local(&self, def: &Def) -> String {
        def.name.names.join("::")
    }

    pub(super) fn check_names(&mut self, def: &Def) {
        for part in &def.name.package {
            self.check_name(part, def.span, &[]);
        }
        self.check_name(def.name.last(), def.span, &[]);
        let constants = def.constants.iter().map(|one| (one.name.as_str(), def.span));
        let (members, taken): (Vec<(&str, Span)>, Vec<&str>) = match &def.kind {
            DefKind::Interface(interface) => {
                let methods = interface.methods.iter().map(|one| (one.name.as_str(), one.span));
                (methods.chain(constants).collect(), OF_INTERFACES.to_vec())
            }
            DefKind::Parcelable(parcelable) => {
                let fields = parcelable.fields.iter().map(|one| (one.name.as_str(), one.span));
                (fields.chain(constants).collect(), OF_DATA.to_vec())
            }
            DefKind::Union(fields) => {
                let fields = fields.iter().map(|one| (one.name.as_str(), one.span));
                (fields.chain(constants).collect(), [&OF_DATA[..], &OF_UNIONS].concat())
            }
            DefKind::Enum(of) => {
                (of.enumerators.iter().map(|one| (one.name.as_str(), def.span)).collect(), Vec::new())
            }
            _ => (Vec::new(), Vec::new()),
        };
        for (name, at) in members {
            self.check_name(name, at, &taken);
        }
    }

    fn check_name(&mut self, name: &str, at: Span, taken: &[&str]) {
        let why = if KEYWORDS.contains(&name) {
            "is a word of C++ that cannot be a name"
        } else if taken.contains(&name) {
            "is something that every such class has in C++"
        } else {
            return;
        };
        let diagnostic = Diagnostic::error(at, format!("`{name}` {why}"))
            .help("rename it: Android's compiler would write C++ that does not compile");
        self.error(diagnostic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_bytes() {
        assert_eq!(text("a\"\\\n?\u{e9}1"), "\"a\\\"\\\\\\012\\?\\303\\2511\"");
    }
}
