//! Enums, and constants of classes.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::Generator;
use super::names::{pad, text};
use super::types::{integer, number};
use crate::model::{Def, DefKind, Enum, Primitive, TypeKind, Value};

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

    /// Functions that name the values of enums, of a definition and those in it.
    pub(super) fn enum_texts(&self, def: &Def, code: &mut String) {
        if let DefKind::Enum(of) = &def.kind {
            let name = self.local(def);
            // Writing to a string cannot fail.
            let _ = writeln!(
                code,
                "[[nodiscard]] inline std::string toString({name} value) {{\n  switch (value) {{"
            );
            let mut seen = HashSet::new();
            for one in &of.enumerators {
                // Two names may mean the same number; the first is its name.
                if seen.insert(one.value) {
                    let _ = writeln!(code, "    case {name}::{0}:\n      return \"{0}\";", one.name);
                }
            }
            let _ = writeln!(
                code,
                "    default:\n      return std::to_string(static_cast<{}>(value));\n  }}\n}}",
                number(of.backing)
            );
        }
        self.model.nested(def.id).for_each(|inner| self.enum_texts(inner, code));
    }

    /// The values of enums, for `ndk::enum_range`.
    pub(super) fn enum_values(&self, def: &Def, code: &mut String) {
        if let DefKind::Enum(of) = &def.kind {
            let name = self.full(def);
            let listed: String =
                of.enumerators.iter().map(|one| format!("  {name}::{},\n", one.name)).collect();
            let _ = write!(
                code,
                "namespace ndk {{\nnamespace internal {{\ntemplate <>\nconstexpr inline std::array<{name}, {}> \
                 enum_values<{name}> = {{{{\n{listed}}}}};\n}}  // namespace internal\n}}  // namespace ndk\n",
                of.enumerators.len(),
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
