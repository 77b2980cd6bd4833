//! Parcelables and unions.

use std::fmt::Write as _;

use super::Generator;
use super::names::{camel, shouty, snake, type_name};
use super::traits::documented;
use crate::diagnostic::Diagnostic;
use crate::model::{Def, Field, Parcelable, TypeKind, Value};

impl Generator<'_> {
    pub(super) fn parcelable(&mut self, def: &Def, parcelable: &Parcelable) -> String {
        let fields = &parcelable.fields;
        self.distinct(fields.iter().map(|field| (field.name.as_str(), field.span)), snake);
        // As with Android's compiler, the parameters themselves leave no trace.
        for at in crate::classes::held_parameters(def) {
            let diagnostic = Diagnostic::error(at, "a field of a type parameter is not supported")
                .help("write a parcelable for each type that it is used with");
            self.error(diagnostic);
        }
        for field in fields {
            if matches!(&field.ty.kind, TypeKind::Fixed(..)) && !self.model.has_default(&field.ty) {
                let diagnostic =
                    Diagnostic::error(field.span, "an array of a fixed size needs items with a default")
                        .help("use an array without a size");
                self.error(diagnostic);
            }
        }
        let name = type_name(def.name.last());
        let derived = self.derived(fields);
        let derives_default = fields.iter().all(|field| self.derives_default(field));
        let mut traits = vec!["Debug"];
        traits.extend(derived.clone.then_some("Clone"));
        traits.extend(derived.partial_eq.then_some("PartialEq"));
        traits.extend(derives_default.then_some("Default"));
        let docs = documented(&def.docs, &format!("`{}`.", def.name));
        let mut code = format!("{docs}#[derive({})]\npub struct {name} {{\n", traits.join(", "));
        for field in fields {
            let docs = documented(&field.docs, &format!("`{}`", field.name));
            let ty = self.field(def.id, &field.ty);
            // Writing to a string cannot fail.
            let _ = writeln!(code, "{docs}pub {}: {ty},", snake(&field.name));
        }
        code.push_str("}\n");
        code.push_str(&self.constants(def, &name));
        if !derives_default {
            code.push_str(&self.default_impl(def, &name, fields));
        }
        code.push_str(&self.parcel_impl(def, &name, fields));
        code.push_str(&self.item_impl(def, &name, fields));
        code
    }

    /// Constants as those of a type.
    pub(super) fn constants(&mut self, def: &Def, name: &str) -> String {
        if def.constants.is_empty() {
            return String::new();
        }
        self.distinct(def.constants.iter().map(|one| (one.name.as_str(), def.span)), shouty);
        let mut code = format!("impl {name} {{\n");
        for constant in &def.constants {
            let docs = documented(&constant.docs, &format!("`{}`", constant.name));
            let (ty, value) = match (&constant.ty.kind, &constant.value) {
                (TypeKind::String, value) => {
                    ("&'static str".to_owned(), self.value(def.id, &constant.ty, value))
                }
                (TypeKind::Array(item) | TypeKind::Fixed(item, _), Value::List(values)) => {
                    let texts = item.kind == TypeKind::String;
                    let ty = if texts { "&'static str".to_owned() } else { self.item(def.id, item, false) };
                    let fixed = crate::model::Type::plain(TypeKind::Fixed(item.clone(), values.len() as u32));
                    let value = self.value(def.id, &fixed, &constant.value).replace(".to_owned()", "");
                    (format!("[{ty}; {}]", values.len()), value)
                }
                (_, value) => (self.owned(def.id, &constant.ty), self.value(def.id, &constant.ty, value)),
            };
            let _ = writeln!(code, "{docs}pub const {}: {ty} = {value};", shouty(&constant.name));
        }
        code.push_str("}\n");
        code
    }

    fn initial(&self, def: &Def, field: &Field) -> String {
        if self.model.is_holder(&field.ty) {
            return format!("{}::new({})", self.owned(def.id, &field.ty), self.stability(def));
        }
        let plain = match &field.default {
            Some(Value::Text(text)) => format!("{text:?}.to_owned()"),
            Some(value) => self.value(def.id, &field.ty, value),
            None => return self.default_of(&field.ty),
        };
        if field.ty.nullable { format!("{}::Some({plain})", self.std("Option")) } else { plain }
    }

    fn default_impl(&self, def: &Def, name: &str, fields: &[Field]) -> String {
        let mut values = String::new();
        for field in fields {
            let _ = writeln!(values, "{}: {},", snake(&field.name), self.initial(def, field));
        }
        format!(
            "impl ::std::default::Default for {name} {{ fn default() -> Self {{ Self {{ {values} }} }} }}\n"
        )
    }

    /// Its size in front, so that what a newer version adds is skipped, and what an older one does
    /// not send keeps its default.
    fn parcel_impl(&self, def: &Def, name: &str, fields: &[Field]) -> String {
        let (mut writes, mut reads) = (String::new(), String::new());
        for field in fields {
            let member = snake(&field.name);
            if self.model.is_holder(&field.ty) {
                let (holder, stability) = (self.owned(def.id, &field.ty), self.stability(def));
                let read = format!("{holder}::read(from, {stability})?");
                let _ = writeln!(writes, "self.{member}.write(to)?;");
                let _ = writeln!(reads, "if from.remaining() > 0 {{ value.{member} = {read}; }}");
            } else if self.model.has_default(&field.ty) {
                let _ = writeln!(writes, "to.write(&self.{member})?;");
                let _ = writeln!(reads, "if from.remaining() > 0 {{ value.{member} = from.read()?; }}");
            } else {
                let what = format!("{}.{}", def.name.last(), field.name);
                let _ = writeln!(writes, "to.write_required(self.{member}.as_ref(), {what:?})?;");
                let _ = writeln!(reads, "if from.remaining() > 0 {{ value.{member} = Some(from.read()?); }}");
            }
        }
        let writes = super::interface::steps(&writes);
        let (to, from, value) = match fields {
            [] => ("_", "_", "let value = Self::default();"),
            _ => ("to", "from", "let mut value = Self::default();"),
        };
        self.travels(
            def,
            name,
            &format!("to.write_sized(|{to}| {writes})"),
            &format!("from.read_sized(|{from}| {{ {value} {reads} Ok(value) }})"),
        )
    }

    fn stability(&self, def: &Def) -> &'static str {
        match self.model.is_stable(def) {
            true => "::handoff_ipc::parcel::Stability::Vintf",
            false => "::handoff_ipc::parcel::Stability::Local",
        }
    }

    /// How the type `name` goes into a parcel and comes out of it: `write` and `read` are the bodies of what stands behind
    /// the mark that it is not null.
    fn travels(&self, def: &Def, name: &str, write: &str, read: &str) -> String {
        format!(
            "impl ::handoff_ipc::parcel::Holdable for {name} {{\n\
             const DESCRIPTOR: &'static str = {descriptor:?};\n\
             const STABILITY: ::handoff_ipc::parcel::Stability = {stability};\n\
             #[inline]\n\
             fn write_held(&self, to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{\n\
             {write}\n\
             }}\n\
             #[inline]\n\
             fn read_held(from: &mut ::handoff_ipc::parcel::Reader<'_>) -> ::handoff_ipc::Result<Self> {{\n\
             {read}\n\
             }} }}\n\
             impl ::handoff_ipc::parcel::Parcelable for {name} {{\n\
             fn write_to(&self, to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{\n\
             to.write_i32(1)?;\n\
             ::handoff_ipc::parcel::Holdable::write_held(self, to)\n\
             }}\n\
             fn read_from(from: &mut ::handoff_ipc::parcel::Reader<'_>) -> ::handoff_ipc::Result<Self> {{\n\
             <Self as ::handoff_ipc::parcel::Nullable>::read_nullable(from)?.ok_or_else(|| from.null())\n\
             }} }}\n\
             impl ::handoff_ipc::parcel::Nullable for {name} {{\n\
             fn write_some(&self, to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{\n\
             to.write(self)\n\
             }}\n\
             fn read_nullable(from: &mut ::handoff_ipc::parcel::Reader<'_>) -> \
             ::handoff_ipc::Result<{option}<Self>> {{\n\
             from.read_some(::handoff_ipc::parcel::Holdable::read_held)\n\
             }} }}\n",
            option = self.std("Option"),
            descriptor = def.descriptor(),
            stability = self.stability(def),
        )
    }

    pub(super) fn union(&mut self, def: &Def, fields: &[Field]) -> String {
        self.distinct(fields.iter().map(|field| (field.name.as_str(), field.span)), camel);
        let name = type_name(def.name.last());
        let derived = self.derived(fields);
        let mut traits = vec!["Debug"];
        traits.extend(derived.clone.then_some("Clone"));
        traits.extend(derived.partial_eq.then_some("PartialEq"));
        let docs = documented(&def.docs, &format!("`{}`.", def.name));
        let mut code = format!("{docs}#[derive({})]\npub enum {name} {{\n", traits.join(", "));
        for (index, field) in fields.iter().enumerate() {
            let docs = documented(&field.docs, &format!("`{}`", field.name));
            let ty = if index == 0 { self.field(def.id, &field.ty) } else { self.owned(def.id, &field.ty) };
            let _ = writeln!(code, "{docs}{}({ty}),", camel(&field.name));
        }
        code.push_str("}\n");
        code.push_str(&self.constants(def, &name));
        let (mut writes, mut reads) = (String::new(), String::new());
        for (index, field) in fields.iter().enumerate() {
            let variant = camel(&field.name);
            let optional = index == 0 && !self.model.has_default(&field.ty);
            let (write, read) = if optional {
                let what = format!("{}.{}", def.name.last(), field.name);
                (format!("to.write_required(value.as_ref(), {what:?})"), "Some(from.read()?)")
            } else {
                ("to.write(value)".to_owned(), "from.read()?")
            };
            let _ = writeln!(writes, "Self::{variant}(value) => {{ to.write_i32({index})?; {write} }}");
            let _ = writeln!(reads, "{index} => Ok(Self::{variant}({read})),");
        }
        if let Some(first) = fields.first() {
            let initial = self.initial(def, first);
            let _ = writeln!(
                code,
                "impl ::std::default::Default for {name} {{\n\
                 fn default() -> Self {{ Self::{}({initial}) }} }}",
                camel(&first.name)
            );
        }
        code.push_str(&self.travels(
            def,
            &name,
            &format!("match self {{ {writes} }}"),
            &format!(
                "from.read_tag(|tag, from| match tag {{ {reads}\n\
                 tag => Err(from.bad(format!(\"{name} has no field {{tag}}\"))) }})"
            ),
        ));
        code
    }
}
