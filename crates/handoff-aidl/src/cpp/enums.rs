//! Enums, and constants of classes.

use std::fmt::Write as _;

use super::Generator;
use super::names::{pad, text};
use super::types::{integer, number};
use crate::model::{Def, DefKind, Enum, Primitive, TypeKind, Value};

/// Names of numbers.
struct Values {
    /// The enum's name inside of its definition.
    within: &'static str,
    backing: Primitive,
    list: Vec<(String, i128)>,
}

impl Generator<'_> {
    pub(super) fn enumeration(&self, def: &Def, of: &Enum, depth: usize, code: &mut String) {
        let pad = pad(depth);
        // Writing to a string cannot fail.
        let _ = writeln!(code, "{pad}enum class {} : {} {{", def.name.last(), number(of.backing));
        for one in &of.enumerators {
            let _ = writeln!(code, "{pad}  {} = {},", one.name, integer(of.backing, one.value));
        }
        let _ = writeln!(code, "{pad}}};");
    }

    /// The enum that a definition is, or that says which field of a union is set.
    fn values_of(&self, def: &Def) -> Option<Values> {
        match &def.kind {
            DefKind::Enum(of) => {
                let values = of.enumerators.iter().map(|one| (one.name.clone(), one.value));
                Some(Values { within: "", backing: of.backing, list: values.collect() })
            }
            DefKind::Union(fields) => {
                let tags = fields.iter().zip(0..).map(|(field, tag)| (field.name.clone(), tag));
                Some(Values { within: "::Tag", backing: Primitive::I32, list: tags.collect() })
            }
            _ => None,
        }
    }

    /// Functions that name the values of enums, of a definition and those in it.
    pub(super) fn enum_texts(&self, def: &Def, code: &mut String) {
        if let Some(Values { within, backing, list }) = self.values_of(def) {
            let name = format!("{}{within}", self.local(def));
            // Writing to a string cannot fail.
            let _ = writeln!(
                code,
                "[[nodiscard]] inline std::string toString({name} value) {{\n  switch (value) {{"
            );
            let mut seen = Vec::new();
            for (one, value) in list {
                // Two names may mean the same number; the first is its name.
                if !seen.contains(&value) {
                    seen.push(value);
                    let _ = writeln!(code, "    case {name}::{one}:\n      return \"{one}\";");
                }
            }
            let _ = writeln!(
                code,
                "    default:\n      return std::to_string(static_cast<{}>(value));\n  }}\n}}",
                number(backing)
            );
        }
        self.model.nested(def.id).for_each(|inner| self.enum_texts(inner, code));
    }

    /// The values of enums, for `ndk::enum_range`.
    pub(super) fn enum_values(&self, def: &Def, code: &mut String) {
        if let Some(Values { within, list, .. }) = self.values_of(def) {
            let name = format!("{}{within}", self.full(def));
            let listed: String = list.iter().map(|(one, _)| format!("  {name}::{one},\n")).collect();
            let _ = write!(
                code,
                "namespace ndk {{\nnamespace internal {{\ntemplate <>\nconstexpr inline std::array<{name}, {}> \
                 enum_values<{name}> = {{{{\n{listed}}}}};\n}}  // namespace internal\n}}  // namespace ndk\n",
                list.len(),
            );
        }
        self.model.nested(def.id).for_each(|inner| self.enum_values(inner, code));
    }

    pub(super) fn constants(&self, def: &Def, depth: usize, code: &mut String) {
        let pad = pad(depth);
        for one in &def.constants {
            let _ = match (&one.ty.kind, &one.value) {
                (
                    TypeKind::Primitive(of @ (Primitive::I8 | Primitive::I32 | Primitive::I64)),
                    Value::Integer(value),
                ) => {
                    writeln!(
                        code,
                        "{pad}enum : {} {{ {} = {} }};",
                        number(*of),
                        one.name,
                        integer(*of, *value)
                    )
                }
                (_, Value::Text(value)) => {
                    writeln!(code, "{pad}static constexpr const char* {} = {};", one.name, text(value))
                }
                (TypeKind::Array(item), Value::List(items)) if matches!(item.kind, TypeKind::String) => {
                    let items: Vec<String> = items.iter().map(|one| self.value(item, one)).collect();
                    writeln!(
                        code,
                        "{pad}static constexpr std::array<const char*, {}> {} = {{{{{}}}}};",
                        items.len(),
                        one.name,
                        items.join(", ")
                    )
                }
                (TypeKind::Array(item), Value::List(items)) => {
                    let values: Vec<String> = items.iter().map(|one| self.value(item, one)).collect();
                    writeln!(
                        code,
                        "{pad}static constexpr std::array<{}, {}> {} = {{{{{}}}}};",
                        self.ty(item),
                        values.len(),
                        one.name,
                        values.join(", ")
                    )
                }
                (_, value) => writeln!(
                    code,
                    "{pad}static constexpr {} {} = {};",
                    self.ty(&one.ty),
                    one.name,
                    self.value(&one.ty, value)
                ),
            };
        }
    }
}
