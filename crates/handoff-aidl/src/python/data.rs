//! Enums, parcelables and unions.

use std::fmt::Write as _;

use super::Generator;
use super::names::{self, constant, member, variant};
use super::types::number;
use crate::diagnostic::Diagnostic;
use crate::model::{Def, DefKind, Enum, Field, Type, TypeKind, Value};

impl Generator<'_> {
    pub(super) fn enumeration(&mut self, def: &Def, code: &mut String) {
        let DefKind::Enum(of) = &def.kind else { return };
        let Enum { backing, enumerators } = of;
        crate::clashes::find(
            &mut self.diagnostics,
            "Python",
            enumerators.iter().map(|one| (one.name.as_str(), def.span)),
            constant,
        );
        let name = self.name(def.id);
        // Writing to a string cannot fail.
        let _ = write!(code, "\n\nclass {name}(_aidl.Enum):\n");
        Self::docstring(&def.docs, &format!("`{}`.", def.name), 1, code);
        code.push('\n');
        for one in enumerators {
            names::comment(&one.docs, code);
            let _ = writeln!(code, "    {} = {}", constant(&one.name), one.value);
        }
        let numbers = number(*backing);
        let _ = write!(code, "\n\n_{name}: _aidl.Codec[{name}] = _aidl.enumeration({name}, {numbers})\n");
    }

    pub(super) fn data(&mut self, def: &Def, code: &mut String) {
        self.expressible(def);
        match &def.kind {
            DefKind::Parcelable(parcelable) => self.parcelable(def, &parcelable.fields, code),
            DefKind::Union(fields) => self.union(def, fields, code),
            _ => {
                let diagnostic =
                    Diagnostic::error(def.span, "nothing is known of what is inside of this parcelable")
                        .help("give it fields, or take what uses it out of the files for Python");
                self.error(diagnostic);
            }
        }
    }

    fn parcelable(&mut self, def: &Def, fields: &[Field], code: &mut String) {
        self.distinct_fields(fields, member);
        let name = self.name(def.id);
        let _ = write!(code, "\n\n@_dataclasses.dataclass\nclass {name}:\n");
        Self::docstring(&def.docs, &format!("`{}`.", def.name), 1, code);
        if !def.constants.is_empty() {
            code.push('\n');
            self.constants(def, code);
        }
        let shadowed: Vec<String> = fields.iter().map(|field| member(&field.name)).collect();
        if !fields.is_empty() {
            code.push('\n');
        }
        let mut codecs = Vec::new();
        for (field, name) in fields.iter().zip(&shadowed) {
            names::comment(&field.docs, code);
            let is_holder = self.model.is_holder(&field.ty);
            // A holder promises what its owner does.
            let stable = if self.model.is_stable(def) { "True" } else { "False" };
            let initial = match is_holder {
                true => format!("_aidl.ParcelableHolder({stable})"),
                false => self.initial(field),
            };
            let initial = match simple(&initial) {
                true => initial,
                false => format!("_dataclasses.field(default_factory=lambda: {initial})"),
            };
            let mut annotation = self.annotation(&field.ty, &shadowed);
            let mut codec = if is_holder { format!("_aidl.holder({stable})") } else { self.codec(&field.ty) };
            if !self.model.has_default(&field.ty) {
                annotation = format!("_typing.Optional[{annotation}]");
                let what = names::text(&format!("{}.{}", def.name.last(), field.name));
                codec = format!("_aidl.required({what}, {codec})");
            }
            let _ = writeln!(code, "    {name}: {annotation} = {initial}");
            codecs.push((name.clone(), codec));
        }
        self.fields_codec(def, "structure", &codecs, code);
    }

    fn union(&mut self, def: &Def, fields: &[Field], code: &mut String) {
        self.distinct_fields(fields, variant);
        let name = self.name(def.id);
        let _ = write!(code, "\n\n@_dataclasses.dataclass\nclass {name}:\n");
        let otherwise = format!("`{}`.", def.name);
        Self::docstring(&def.docs, &otherwise, 1, code);
        if !def.constants.is_empty() {
            code.push('\n');
            self.constants(def, code);
        }
        let variants: Vec<String> = fields.iter().map(|field| variant(&field.name)).collect();
        let Some((first, first_name)) = fields.first().zip(variants.first()) else { return };
        let tags: Vec<String> = variants.iter().map(|name| format!("\"{name}\"")).collect();
        let initial = self.initial(first);
        let _ = writeln!(code, "\n    # Which field it has, and that field's value.");
        let _ = writeln!(code, "    tag: _typing.Literal[{}] = \"{first_name}\"", tags.join(", "));
        let _ =
            writeln!(code, "    value: _typing.Any = _dataclasses.field(default_factory=lambda: {initial})");
        let mut codecs = Vec::new();
        for (field, member) in fields.iter().zip(&variants) {
            let annotation = self.annotation(&field.ty, &variants);
            let _ = write!(
                code,
                "\n    @_builtins.classmethod\n    def {member}(cls, value: {annotation}) -> {name}:\n"
            );
            Self::docstring(&field.docs, &format!("With `{}`.", field.name), 2, code);
            let _ = writeln!(code, "        return cls(\"{member}\", value)");
            let codec = self.codec(&field.ty);
            // The first one is there before it was set.
            let codec = if self.model.has_default(&field.ty) {
                codec
            } else {
                let what = names::text(&format!("{}.{}", def.name.last(), field.name));
                format!("_aidl.required({what}, {codec})")
            };
            codecs.push((member.clone(), codec));
        }
        self.fields_codec(def, "union", &codecs, code);
    }

    fn fields_codec(&self, def: &Def, kind: &str, codecs: &[(String, String)], code: &mut String) {
        let name = self.name(def.id);
        let _ =
            write!(code, "\n\n_{name}: _aidl.Codec[{name}] = _aidl.{kind}(\n    {name},\n    lambda: [\n");
        for (field, codec) in codecs {
            let _ = writeln!(code, "        (\"{field}\", {codec}),");
        }
        let stable = if self.model.is_stable(def) { "    True,\n" } else { "" };
        let _ = writeln!(code, "    ],\n    {},\n{stable})", names::text(&def.descriptor()));
    }

    fn initial(&self, field: &Field) -> String {
        match &field.default {
            // A byte of a list may be written as a character.
            Some(value @ Value::List(_)) if matches!(field.ty.kind, TypeKind::Named(..)) => {
                self.value(&Type::plain(TypeKind::Void), value, false)
            }
            // mypy infers `list[str]` for it, and takes no such list for a `list[Optional[str]]`.
            Some(value @ Value::List(_)) if field.ty.nullable => {
                let value = self.value(&field.ty, value, false);
                format!("_typing.cast(_typing.Any, {value})")
            }
            Some(value) => self.value(&field.ty, value, false),
            None => self.default(&field.ty),
        }
    }

    fn distinct_fields(&mut self, fields: &[Field], convert: fn(&str) -> String) {
        let names = fields.iter().map(|field| (field.name.as_str(), field.span));
        crate::clashes::find(&mut self.diagnostics, "Python", names, convert);
    }
}

/// Whether an expression can be evaluated once for all objects of a class: a literal that does not change.
fn simple(expression: &str) -> bool {
    let number = expression.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e'));
    number || ["None", "True", "False"].contains(&expression) || expression.starts_with(['"', 'b'])
}
