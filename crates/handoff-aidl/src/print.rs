//! A definition as AIDL: what freezes an interface, and what HIDL is converted to.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::ast::{Direction, Docs};
use crate::format::format;
use crate::model::{
    Def, DefId, DefKind, Enum, Field, Interface, Method, Model, Primitive, Type, TypeKind, Value,
};
use crate::source::{Language, Sources};

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its place below a folder for packages, such as `a/b/IFoo.aidl`.
    pub path: PathBuf,
    pub text: String,
}

/// How definitions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// With their documentation and with imports, for people.
    Readable,
    /// Without comments and with full names, so that only what matters to others changes the text.
    Api,
}

/// Writes definitions as AIDL, one file for each that is not nested.
pub fn print<'m>(model: &'m Model, defs: impl IntoIterator<Item = &'m Def>, style: Style) -> Vec<Printed> {
    let mut files = Vec::new();
    for def in defs {
        if def.parent.is_some() && def.language == Language::Aidl || matches!(def.kind, DefKind::Typedef(_)) {
            continue;
        }
        let mut printer = Printer { model, style, imports: BTreeSet::new(), extra: Vec::new(), own: def.id };
        let body = printer.definition(def);
        files.push(printer.file(&printer.place(def), def, &body));
        for (name, fields) in std::mem::take(&mut printer.extra) {
            let mut printer =
                Printer { model, style, imports: BTreeSet::new(), extra: Vec::new(), own: def.id };
            let body = printer.results(&name, &fields);
            let mut place = printer.place(def);
            place.set_file_name(format!("{name}.aidl"));
            files.push(printer.file(&place, def, &body));
        }
    }
    files
}

struct Printer<'m> {
    model: &'m Model,
    style: Style,
    imports: BTreeSet<String>,
    /// Parcelables for methods that return several values.
    extra: Vec<(String, Vec<Field>)>,
    own: DefId,
}

impl Printer<'_> {
    fn place(&self, def: &Def) -> PathBuf {
        let mut path: PathBuf = def.name.package.iter().collect();
        path.push(format!("{}.aidl", self.local_name(def)));
        path
    }

    /// The name of a definition in its package. What HIDL nests becomes a type beside it.
    fn local_name(&self, def: &Def) -> String {
        match def.language {
            Language::Aidl => def.name.names.join("."),
            Language::Hidl => def.name.names.concat(),
        }
    }

    fn file(&self, path: &std::path::Path, def: &Def, body: &str) -> Printed {
        let mut text = String::new();
        let package = def.name.package.join(".");
        if !package.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "package {package};\n");
        }
        for import in &self.imports {
            let _ = writeln!(text, "import {import};");
        }
        if !self.imports.is_empty() {
            text.push('\n');
        }
        text.push_str(body);
        Printed { path: path.to_owned(), text: laid_out(text) }
    }

    fn docs(&self, docs: &Docs) -> String {
        let mut lines = docs.lines.clone();
        lines.extend(docs.deprecated.as_ref().map(|why| format!("@deprecated {why}").trim_end().to_owned()));
        match (self.style, lines.as_slice()) {
            (Style::Api, _) | (_, []) => String::new(),
            (_, [line]) => format!("/** {line} */\n"),
            (_, lines) => {
                let body: String =
                    lines.iter().map(|line| format!(" * {line}").trim_end().to_owned() + "\n").collect();
                format!("/**\n{body} */\n")
            }
        }
    }

    fn definition(&mut self, def: &Def) -> String {
        let mut text = String::new();
        if let (DefKind::Interface(Interface { base: Some(base), .. }), Style::Readable) =
            (&def.kind, self.style)
        {
            let base = &self.model.def(*base).name;
            let _ = writeln!(text, "// The first methods are those of {base}, which AIDL cannot extend.");
        }
        text.push_str(&self.docs(&def.docs));
        if def.language == Language::Aidl {
            for annotation in &def.annotations {
                // A comparison that sees the type of an enum needs no more than its number's type.
                if annotation.name == "Backing" {
                    continue;
                }
                let arguments: Vec<String> =
                    annotation.arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let arguments =
                    if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) };
                let _ = writeln!(text, "@{}{arguments}", annotation.name);
            }
        }
        let name = match def.language {
            Language::Aidl => def.name.last().to_owned(),
            Language::Hidl => self.local_name(def),
        };
        match &def.kind {
            DefKind::Interface(interface) => self.interface(def, &name, interface, &mut text),
            DefKind::Parcelable(parcelable) => {
                let parameters = match parcelable.parameters.as_slice() {
                    [] => String::new(),
                    names => format!("<{}>", names.join(", ")),
                };
                let _ = writeln!(text, "parcelable {name}{parameters} {{");
                self.fields(def, &parcelable.fields, &mut text);
                text.push_str("}\n");
            }
            DefKind::Union(fields) => {
                let _ = writeln!(text, "union {name} {{");
                self.fields(def, fields, &mut text);
                text.push_str("}\n");
            }
            DefKind::Enum(of) => self.enumeration(&name, of, &mut text),
            DefKind::Opaque { rust_type, .. } => {
                let rust = rust_type.as_ref().map_or(String::new(), |path| format!(" rust_type \"{path}\""));
                let _ = writeln!(text, "parcelable {name}{rust};");
            }
            DefKind::Typedef(_) => {}
        }
        text
    }

    fn inner(&mut self, def: &Def, text: &mut String) {
        for constant in &def.constants {
            let docs = self.docs(&constant.docs);
            let ty = self.ty(&constant.ty);
            let value = self.value(&constant.ty, &constant.value);
            let _ = writeln!(text, "{docs}const {ty} {} = {value};", constant.name);
        }
        if def.language == Language::Aidl {
            let written = |inner: &&Def| !self.model.is_tag(inner);
            let nested: Vec<&Def> = self.model.nested(def.id).filter(written).collect();
            for inner in nested {
                let inner = self.definition(inner);
                text.push_str(&inner);
            }
        }
    }

    fn interface(&mut self, def: &Def, name: &str, interface: &Interface, text: &mut String) {
        let _ = writeln!(text, "interface {name} {{");
        self.inner(def, text);
        for (_, method) in self.model.methods(interface) {
            self.method(name, method, text);
        }
        text.push_str("}\n");
    }

    fn method(&mut self, interface: &str, method: &Method, text: &mut String) {
        let docs = self.docs(&method.docs);
        let oneway = if method.oneway { "oneway " } else { "" };
        let returns = match method.results.as_slice() {
            [] => "void".to_owned(),
            [one] => self.ty(&one.ty),
            several => {
                let name = format!(
                    "{}{}Result",
                    crate::model::stem(interface),
                    heck::ToUpperCamelCase::to_upper_camel_case(method.name.as_str())
                );
                self.extra.push((name.clone(), several.to_vec()));
                name
            }
        };
        let parameters: Vec<String> = method
            .parameters
            .iter()
            .map(|parameter| {
                let ty = self.ty(&parameter.ty);
                let direction = match parameter.direction {
                    Direction::In if !self.needs_direction(&parameter.ty) => String::new(),
                    direction => format!("{} ", direction.word()),
                };
                format!("{direction}{ty} {}", parameter.name)
            })
            .collect();
        let id = if method.explicit_id { format!(" = {}", method.id) } else { String::new() };
        let _ = writeln!(text, "{docs}{oneway}{returns} {}({}){id};", method.name, parameters.join(", "));
    }

    fn needs_direction(&self, ty: &Type) -> bool {
        match &ty.kind {
            TypeKind::Array(_) | TypeKind::List(_) | TypeKind::Fixed(..) | TypeKind::FileDescriptor => true,
            TypeKind::Queue { .. } | TypeKind::Memory => true,
            TypeKind::Named(id, _) => {
                !matches!(self.model.def(*id).kind, DefKind::Interface(_) | DefKind::Enum(_))
            }
            _ => false,
        }
    }

    fn results(&mut self, name: &str, fields: &[Field]) -> String {
        let mut text = String::new();
        if self.style == Style::Readable {
            text.push_str("/** What a method returns that returned several values in HIDL. */\n");
        }
        let _ = writeln!(text, "parcelable {name} {{");
        for field in fields {
            let ty = self.ty(&field.ty);
            let _ = writeln!(text, "{ty} {};", field.name);
        }
        text.push_str("}\n");
        text
    }

    fn fields(&mut self, def: &Def, fields: &[Field], text: &mut String) {
        self.inner(def, text);
        for field in fields {
            let docs = self.docs(&field.docs);
            let ty = self.ty(&field.ty);
            let default = match &field.default {
                Some(value) => format!(" = {}", self.value(&field.ty, value)),
                None => String::new(),
            };
            let _ = writeln!(text, "{docs}{ty} {}{default};", field.name);
        }
    }

    fn enumeration(&mut self, name: &str, of: &Enum, text: &mut String) {
        let _ = writeln!(text, "@Backing(type=\"{}\")\nenum {name} {{", backing(of.backing));
        for one in &of.enumerators {
            let docs = self.docs(&one.docs);
            let _ = writeln!(text, "{docs}{} = {},", one.name, signed(of.backing, one.value));
        }
        text.push_str("}\n");
    }

    /// A type, whose definition is imported where it is of another package.
    fn ty(&mut self, ty: &Type) -> String {
        let mut text = String::new();
        if ty.nullable {
            text.push_str(if ty.heap { "@nullable(heap=true) " } else { "@nullable " });
        }
        if ty.utf8 {
            text.push_str("@utf8InCpp ");
        }
        text + &self.kind(&ty.kind)
    }

    fn kind(&mut self, kind: &TypeKind) -> String {
        match kind {
            TypeKind::Void => "void".into(),
            TypeKind::Primitive(primitive) => primitive.aidl().into(),
            TypeKind::String => "String".into(),
            TypeKind::CharSequence => "CharSequence".into(),
            TypeKind::Binder => "IBinder".into(),
            TypeKind::FileDescriptor => "ParcelFileDescriptor".into(),
            TypeKind::BareFileDescriptor => "FileDescriptor".into(),
            TypeKind::Memory => self.import("android.hardware.common.Ashmem"),
            TypeKind::Queue { synchronized, item } => {
                let flavour =
                    if *synchronized { crate::check::SYNCHRONIZED } else { crate::check::UNSYNCHRONIZED };
                let (queue, flavour) = (self.import(crate::check::QUEUE), self.import(flavour));
                format!("{queue}<{}, {flavour}>", self.ty(item))
            }
            TypeKind::Named(id, arguments) => {
                let name = self.name(*id);
                let arguments: Vec<String> = arguments.iter().map(|one| self.ty(one)).collect();
                if arguments.is_empty() { name } else { format!("{name}<{}>", arguments.join(", ")) }
            }
            TypeKind::Bitfield(id) => match &self.model.def(*id).kind {
                // A set of flags is a number: no value of the enum.
                DefKind::Enum(of) => of.backing.aidl().into(),
                _ => "int".into(),
            },
            // AIDL has no arrays of arrays without a size; bytes of bytes are rare enough to be refused there.
            TypeKind::Array(item) => format!("{}[]", self.kind(&item.kind)),
            TypeKind::List(item) => format!("List<{}>", self.ty(item)),
            TypeKind::Fixed(item, size) => {
                let mut sizes = format!("[{size}]");
                let mut inner = item;
                while let TypeKind::Fixed(next, size) = &inner.kind {
                    let _ = write!(sizes, "[{size}]");
                    inner = next;
                }
                format!("{}{sizes}", self.kind(&inner.kind))
            }
            TypeKind::Parameter(name) => name.clone(),
            TypeKind::Unknown => String::new(),
        }
    }

    fn import(&mut self, full: &str) -> String {
        if self.style == Style::Api {
            return full.to_owned();
        }
        self.imports.insert(full.to_owned());
        full.rsplit('.').next().unwrap_or(full).to_owned()
    }

    fn name(&mut self, id: DefId) -> String {
        let def = self.model.def(id);
        let own = self.model.def(self.own);
        let local = self.local_name(def);
        let full = format!("{}.{local}", def.name.package.join("."));
        match self.style {
            Style::Api => full,
            Style::Readable if def.name.package == own.name.package => local,
            Style::Readable => {
                let top = local.split('.').next().unwrap_or(&local).to_owned();
                self.import(&format!("{}.{top}", def.name.package.join(".")));
                local
            }
        }
    }

    fn value(&mut self, ty: &Type, value: &Value) -> String {
        match (value, &ty.kind) {
            (Value::Enumerator(id, name, _), TypeKind::Named(..)) => format!("{}.{name}", self.name(*id)),
            (Value::Integer(value), TypeKind::Primitive(Primitive::I64))
                if i32::try_from(*value).is_err() =>
            {
                format!("{value}L")
            }
            (Value::Float(value), TypeKind::Primitive(Primitive::F32)) => format!("{:?}f", *value as f32),
            (Value::List(items), TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _)) => {
                let items: Vec<String> = items.iter().map(|one| self.value(item, one)).collect();
                format!("{{{}}}", items.join(", "))
            }
            (value, _) => value.to_string(),
        }
    }
}

/// The type that an enum's values have in AIDL, which has no unsigned ones.
fn backing(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::I8 | Primitive::U8 => "byte",
        Primitive::I64 | Primitive::U64 => "long",
        _ => "int",
    }
}

/// The same bits as a signed number.
fn signed(primitive: Primitive, value: i128) -> String {
    match primitive {
        Primitive::U8 => (value as u8 as i8).to_string(),
        Primitive::U32 => (value as u32 as i32).to_string(),
        Primitive::U64 => format!("{}L", value as u64 as i64),
        Primitive::I64 => format!("{value}L"),
        _ => value.to_string(),
    }
}

/// The text as the formatter lays it out.
fn laid_out(text: String) -> String {
    let mut sources = Sources::new();
    let file = sources.add("printed.aidl", text.clone(), Language::Aidl);
    // What is not understood is left as it was printed: whoever compiles it is told why.
    format(&sources, file).unwrap_or(text)
}

/// A type with full names, the same for the same type of two models.
pub fn type_text(model: &Model, own: DefId, ty: &Type) -> String {
    Printer { model, style: Style::Api, imports: BTreeSet::new(), extra: Vec::new(), own }.ty(ty)
}
