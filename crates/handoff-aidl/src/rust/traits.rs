//! What can be derived for a type, and what its documentation says.

use std::fmt::Write as _;

use super::Generator;
use crate::ast::Docs;
use crate::model::{DefId, DefKind, Field, Type, TypeKind};

/// What a type that holds others can be derived from theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Derived {
    pub(super) clone: bool,
    pub(super) partial_eq: bool,
}

impl Generator<'_> {
    pub(super) fn derived(&self, fields: &[Field]) -> Derived {
        let mut seen = Vec::new();
        let (clone, partial_eq) = fields
            .iter()
            .map(|field| self.abilities(&field.ty, &mut seen))
            .fold((true, true), |all, one| (all.0 && one.0, all.1 && one.1));
        Derived { clone, partial_eq }
    }

    /// Whether values can be cloned and compared.
    fn abilities(&self, ty: &Type, seen: &mut Vec<DefId>) -> (bool, bool) {
        match &ty.kind {
            TypeKind::FileDescriptor
            | TypeKind::BareFileDescriptor
            | TypeKind::Memory
            | TypeKind::Queue { .. } => (false, false),
            TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _) => {
                self.abilities(item, seen)
            }
            TypeKind::Named(id, arguments) => {
                let def = self.model.def(*id);
                if self.options.types.contains_key(&def.name.to_string()) {
                    return (false, false);
                }
                if seen.contains(id) {
                    return (true, true);
                }
                seen.push(*id);
                let fields = match &def.kind {
                    DefKind::Parcelable(parcelable) => parcelable.fields.as_slice(),
                    DefKind::Union(fields) => fields.as_slice(),
                    // It may hold descriptors, which cannot be compared.
                    DefKind::Opaque { .. } => return (def.is_holder() || def.is_bundle(), def.is_bundle()),
                    _ => &[],
                };
                fields
                    .iter()
                    .map(|field| &field.ty)
                    .chain(arguments)
                    .map(|ty| self.abilities(ty, seen))
                    .fold((true, true), |all, one| (all.0 && one.0, all.1 && one.1))
            }
            _ => (true, true),
        }
    }

    /// Whether `Default` can be derived for a field without a default of its own.
    pub(super) fn derives_default(&self, field: &Field) -> bool {
        fn short(ty: &Type) -> bool {
            match &ty.kind {
                TypeKind::Fixed(item, size) => *size <= 32 && short(item),
                _ => true,
            }
        }
        // Of a holder, only its owner knows the stability.
        let is_plain = field.default.is_none() && !self.model.is_holder(&field.ty);
        is_plain && (field.ty.nullable || short(&field.ty))
    }

    /// An expression for what a type is without being set.
    pub(super) fn default_of(&self, ty: &Type) -> String {
        match &ty.kind {
            TypeKind::Fixed(item, _) if !ty.nullable && self.model.has_default(ty) => {
                format!("::std::array::from_fn(|_| {})", self.default_of(item))
            }
            _ => format!("{}::default()", self.std("Default")),
        }
    }
}

/// Documentation: what the file says, or `otherwise`; and `#[deprecated]`.
pub(super) fn documented(docs: &Docs, otherwise: &str) -> String {
    let mut text = String::new();
    let lines: Vec<String> = if docs.lines.is_empty() {
        vec![otherwise.to_owned()]
    } else {
        docs.lines.iter().map(|line| translated(line)).collect()
    };
    for line in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "///{}{line}", if line.is_empty() { "" } else { " " });
    }
    if let Some(why) = &docs.deprecated {
        let _ = writeln!(
            text,
            "///\n/// Deprecated{}",
            if why.is_empty() { ".".into() } else { format!(": {}", translated(why)) }
        );
    }
    text
}

/// A line of Javadoc as other languages have it.
pub(crate) fn translated(line: &str) -> String {
    let trimmed = line.trim_start();
    if let Some(rest) = trimmed.strip_prefix("@param ") {
        let (name, what) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
        return format!("- `{}`: {}", heck::ToSnakeCase::to_snake_case(name), what.trim_start());
    }
    for tag in ["@return ", "@returns "] {
        if let Some(rest) = trimmed.strip_prefix(tag) {
            return format!("- Returns {}", rest.trim_start());
        }
    }
    if let Some(rest) = trimmed.strip_prefix("@throws ") {
        return format!("- Fails with {}", rest.trim_start());
    }
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    // `{@link Foo#bar}` becomes code.
    while let Some(start) = rest.find("{@") {
        let Some(end) = rest[start..].find('}') else { break };
        text.push_str(&rest[..start]);
        let inner = &rest[start + 2..start + end];
        let what = inner.split_once(char::is_whitespace).map_or(inner, |(_, what)| what.trim());
        let _ = write!(text, "`{what}`");
        rest = &rest[start + end + 1..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javadoc_becomes_rustdoc() {
        assert_eq!(translated("@param fooBar  the bar"), "- `foo_bar`: the bar");
        assert_eq!(translated("See {@link IFoo#bar} and {@code x}."), "See `IFoo#bar` and `x`.");
        assert_eq!(translated("broken {@link"), "broken {@link");
        let docs = Docs { lines: vec!["A.".into()], deprecated: Some("use b".into()) };
        assert_eq!(documented(&docs, ""), "/// A.\n///\n/// Deprecated: use b\n");
    }
}
