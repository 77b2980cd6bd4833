//! Values of an interface's types: checked as they are typed, and written.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, anyhow, bail};
use handoff_aidl::ast::Direction;
use handoff_aidl::model::{Def, DefId, DefKind, Enum, Field, Model, Primitive, Type, TypeKind, Value};
use handoff_aidl::type_text;
use handoff_ipc::parcel::{CharSequence, ParcelableHolder, Stability, Writer};
use handoff_ipc::{Binder, Result as IpcResult};
use serde_json::{Map, Value as Json, json};

use super::words::{bytes, integer};

/// Deeper than any parcelable may be on the wire.
const DEEPEST: usize = 64;

/// A value as the wire has it: what is left to do is to write it.
#[derive(Debug)]
pub(super) enum Data {
    /// Everything of 32 bits: `boolean`, `byte`, `char`, `int`, `float`, and the null of a parcelable.
    Word(i32),
    Long(i64),
    Text(String),
    Styled(String),
    /// The null of a text or an array.
    NullLength,
    /// The length of an array that the service fills.
    Length(usize),
    Object(Option<Binder>),
    File(OwnedFd),
    BareFile(OwnedFd),
    Bytes(Vec<u8>),
    Items(Vec<Data>),
    Fields(Vec<Data>),
    /// A field of a union.
    Tagged(i32, Box<Data>),
    /// A `ParcelableHolder`, with what is in it.
    Holder(ParcelableHolder),
}

impl Data {
    pub(super) fn write(&self, to: &mut Writer<'_>) -> IpcResult<()> {
        match self {
            Data::Word(word) => to.write_i32(*word),
            Data::Long(long) => to.write_i64(*long),
            Data::Text(text) => to.write_string16(text),
            Data::Styled(text) => to.write(&CharSequence(text.clone())),
            Data::NullLength => to.write_null_length(),
            Data::Length(length) => to.write_length(Some(*length)),
            Data::Object(object) => to.write_binder(object.as_ref()),
            Data::File(file) => to.write(file),
            Data::BareFile(file) => to.write_fd(file),
            Data::Bytes(bytes) => to.write_bytes(bytes),
            Data::Items(items) => {
                to.write_length(Some(items.len()))?;
                items.iter().try_for_each(|item| item.write(to))
            }
            Data::Fields(_) | Data::Tagged(..) => {
                to.write_i32(1)?;
                self.write_held(to)
            }
            Data::Holder(holder) => holder.write(to),
        }
    }

    /// As it stands in a holder: without the mark that it is not null.
    fn write_held(&self, to: &mut Writer<'_>) -> IpcResult<()> {
        match self {
            Data::Fields(fields) => to.write_sized(|to| fields.iter().try_for_each(|field| field.write(to))),
            Data::Tagged(tag, field) => {
                to.write_i32(*tag)?;
                field.write(to)
            }
            other => other.write(to),
        }
    }
}

/// The types of an interface, and where the services are found that its methods take.
pub(super) struct Types<'a> {
    pub(super) model: &'a Model,
    /// The definition from which names are seen.
    pub(super) scope: DefId,
    pub(super) find: &'a dyn Fn(&str) -> anyhow::Result<Binder>,
}

impl Types<'_> {
    /// A parameter from the word that stands for it on the command line.
    pub(super) fn argument(
        &self,
        ty: &Type,
        direction: Direction,
        word: &str,
        at: &str,
    ) -> anyhow::Result<Data> {
        if direction == Direction::Out {
            let length = word.parse().ok().filter(|length| *length <= i32::MAX as usize);
            return length.map(Data::Length).with_context(|| {
                format!("{at}: `{word}` is not a number of items; the service fills the array, and needs its length")
            });
        }
        self.check(ty, &self.literal(ty, word, at)?, at, 0)
    }

    /// A word as JSON: text needs no quotes, a number may be hexadecimal.
    fn literal(&self, ty: &Type, word: &str, at: &str) -> anyhow::Result<Json> {
        if ty.nullable && word == "null" {
            return Ok(Json::Null);
        }
        let text = || Json::String(word.to_owned());
        let number = || integer::<i64>(word).map(Json::from).or_else(|| integer::<u64>(word).map(Json::from));
        Ok(match &ty.kind {
            // `null` in quotes is the text.
            TypeKind::String | TypeKind::CharSequence if ty.nullable && word.starts_with('"') => {
                serde_json::from_str(word).unwrap_or_else(|_| text())
            }
            TypeKind::String | TypeKind::CharSequence => text(),
            TypeKind::Binder | TypeKind::FileDescriptor | TypeKind::BareFileDescriptor => text(),
            TypeKind::Primitive(Primitive::Bool) => word.parse().map_or_else(|_| text(), Json::Bool),
            TypeKind::Primitive(Primitive::Char) if word.chars().count() == 1 => text(),
            TypeKind::Primitive(Primitive::F32 | Primitive::F64) => {
                let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map_or_else(text, Json::from)
            }
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => number().unwrap_or_else(text),
            TypeKind::Named(id, _) => match &self.model.def(*id).kind {
                DefKind::Enum(_) => number().unwrap_or_else(text),
                DefKind::Typedef(target) => self.literal(target, word, at)?,
                DefKind::Interface(_) => text(),
                _ => self.parse(ty, word, at)?,
            },
            TypeKind::Array(item) | TypeKind::Fixed(item, _) if is_byte(item) && !word.starts_with('[') => {
                text()
            }
            _ => self.parse(ty, word, at)?,
        })
    }

    fn parse(&self, ty: &Type, word: &str, at: &str) -> anyhow::Result<Json> {
        serde_json::from_str(word).map_err(|error| {
            let (name, wanted) = (self.name(ty), self.wanted(ty));
            anyhow!("{at}: `{word}` is not JSON ({error}): {wanted} is needed for `{name}`")
        })
    }

    /// The type as the interface's file has it.
    pub(super) fn name(&self, ty: &Type) -> String {
        type_text(self.model, self.scope, ty)
    }

    fn check(&self, ty: &Type, json: &Json, at: &str, depth: usize) -> anyhow::Result<Data> {
        if depth > DEEPEST {
            bail!("{at}: values may be nested {DEEPEST} deep");
        }
        let wrong = || anyhow!("{at}: {json} is no `{}`: {} is needed", self.name(ty), self.wanted(ty));
        if json.is_null() {
            return if ty.nullable { self.null(ty, at) } else { Err(wrong()) };
        }
        match (&ty.kind, json) {
            (TypeKind::Primitive(primitive), json) => number(*primitive, json).ok_or_else(wrong),
            (TypeKind::String, Json::String(text)) => Ok(Data::Text(text.clone())),
            (TypeKind::CharSequence, Json::String(text)) => Ok(Data::Styled(text.clone())),
            (TypeKind::Binder, Json::String(name)) => {
                Ok(Data::Object(Some((self.find)(name).with_context(|| at.to_owned())?)))
            }
            (TypeKind::FileDescriptor | TypeKind::BareFileDescriptor, Json::String(path)) => {
                let file = std::fs::File::open(path)
                    .with_context(|| format!("{at}: cannot open the file {path} to hand it over"))?;
                let is_bare = ty.kind == TypeKind::BareFileDescriptor;
                Ok(if is_bare { Data::BareFile(file.into()) } else { Data::File(file.into()) })
            }
            (TypeKind::Bitfield(id), json) => self.flags(*id, json).ok_or_else(wrong),
            (TypeKind::Array(item) | TypeKind::List(item), json) => {
                self.items(ty, item, None, json, at, depth).and_then(|data| data.ok_or_else(wrong))
            }
            (TypeKind::Fixed(item, size), json) => self
                .items(ty, item, Some(*size as usize), json, at, depth)
                .and_then(|data| data.ok_or_else(wrong)),
            (TypeKind::Named(id, arguments), json) if arguments.is_empty() => {
                let def = self.model.def(*id);
                match (&def.kind, json) {
                    (DefKind::Typedef(target), json) => self.check(target, json, at, depth + 1),
                    (DefKind::Enum(of), json) => enumerator(of, json).ok_or_else(wrong),
                    (DefKind::Interface(_), Json::String(name)) => {
                        Ok(Data::Object(Some((self.find)(name).with_context(|| at.to_owned())?)))
                    }
                    (DefKind::Parcelable(parcelable), Json::Object(given))
                        if parcelable.parameters.is_empty() =>
                    {
                        self.fields(def, &parcelable.fields, given, at, depth)
                    }
                    (DefKind::Union(fields), Json::Object(given)) => {
                        self.union(def, fields, given, at, depth)
                    }
                    (DefKind::Opaque { .. } | DefKind::Parcelable(_), _) if self.is_beyond(def) => {
                        Err(self.beyond(ty, at))
                    }
                    _ => Err(wrong()),
                }
            }
            (TypeKind::Queue { .. } | TypeKind::Memory | TypeKind::Parameter(_) | TypeKind::Void, _)
            | (TypeKind::Named(..), _) => Err(self.beyond(ty, at)),
            _ => Err(wrong()),
        }
    }

    /// Whether values of it are neither written nor shown here.
    pub(super) fn is_beyond(&self, def: &Def) -> bool {
        match &def.kind {
            DefKind::Opaque { .. } => true,
            DefKind::Parcelable(parcelable) => !parcelable.parameters.is_empty(),
            _ => false,
        }
    }

    fn beyond(&self, ty: &Type, at: &str) -> anyhow::Error {
        anyhow!("{at}: a {} cannot be written on a command line; call from a program", self.name(ty))
    }

    fn null(&self, ty: &Type, at: &str) -> anyhow::Result<Data> {
        Ok(match &ty.kind {
            TypeKind::String | TypeKind::Array(_) | TypeKind::List(_) | TypeKind::Fixed(..) => {
                Data::NullLength
            }
            TypeKind::Binder => Data::Object(None),
            TypeKind::CharSequence | TypeKind::FileDescriptor => Data::Word(0),
            TypeKind::Named(id, _) => match self.model.def(*id).kind {
                DefKind::Interface(_) => Data::Object(None),
                DefKind::Parcelable(_) | DefKind::Union(_) => Data::Word(0),
                _ => return Err(self.beyond(ty, at)),
            },
            _ => return Err(self.beyond(ty, at)),
        })
    }

    /// An array; `None` if the JSON is none, or of another length.
    fn items(
        &self,
        ty: &Type,
        item: &Type,
        size: Option<usize>,
        json: &Json,
        at: &str,
        depth: usize,
    ) -> anyhow::Result<Option<Data>> {
        let fits = |length: usize| size.is_none_or(|size| size == length);
        if is_byte(item) {
            let found = match json {
                Json::String(text) => bytes(text.strip_prefix("0x").unwrap_or(text)),
                Json::Array(items) => items.iter().map(byte).collect(),
                _ => None,
            };
            return Ok(found.filter(|bytes| fits(bytes.len())).map(Data::Bytes));
        }
        let Some(given) = json.as_array().filter(|items| fits(items.len())) else { return Ok(None) };
        let item = self.item(ty, item);
        let check = |(index, json)| self.check(&item, json, &format!("{at}[{index}]"), depth + 1);
        let items = given.iter().enumerate().map(check).collect::<anyhow::Result<Vec<_>>>()?;
        if !self.is_packed(&item) {
            return Ok(Some(Data::Items(items)));
        }
        let packed = |data: &Data| if let Data::Word(word) = data { *word as u8 } else { 0 };
        Ok(Some(Data::Bytes(items.iter().map(packed).collect())))
    }

    /// The items of an array that may be null may be null themselves, where they can be.
    pub(super) fn item(&self, array: &Type, item: &Type) -> Type {
        let is_number = match &item.kind {
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) | TypeKind::Array(_) | TypeKind::Fixed(..) => true,
            TypeKind::Named(id, _) => matches!(self.model.def(*id).kind, DefKind::Enum(_)),
            _ => false,
        };
        let mut item = item.clone();
        item.nullable |= array.nullable && !is_number;
        item
    }

    /// Whether items stand side by side as bytes: those of an enum of bytes.
    pub(super) fn is_packed(&self, item: &Type) -> bool {
        match &item.kind {
            TypeKind::Named(id, _) => {
                matches!(&self.model.def(*id).kind, DefKind::Enum(of) if is_small(of.backing))
            }
            _ => false,
        }
    }

    fn flags(&self, id: DefId, json: &Json) -> Option<Data> {
        let DefKind::Enum(of) = &self.model.def(id).kind else { return None };
        match json {
            Json::String(names) => {
                let mut bits = names.split('|').map(|name| value_of(of, name.trim()));
                let bits = bits.try_fold(0, |bits, more| Some(bits | more?))?;
                integral(of.backing, bits)
            }
            json => number(of.backing, json),
        }
    }

    fn fields(
        &self,
        def: &Def,
        fields: &[Field],
        given: &Map<String, Json>,
        at: &str,
        depth: usize,
    ) -> anyhow::Result<Data> {
        if let Some(unknown) = given.keys().find(|name| fields.iter().all(|field| field.name != **name)) {
            bail!("{at}: {} has no field `{unknown}`; its fields: {}", def.name, names(fields));
        }
        let data = fields.iter().map(|field| {
            let at = format!("{at}.{}", field.name);
            match given.get(&field.name) {
                json if self.model.is_holder(&field.ty) => self.holder(def, json, &at, depth + 1),
                Some(json) => self.check(&field.ty, json, &at, depth + 1),
                None => self.default_of(field, &at, depth + 1),
            }
        });
        Ok(Data::Fields(data.collect::<anyhow::Result<_>>()?))
    }

    /// What a `ParcelableHolder` of a parcelable holds: an object with the full name of a type and its value, or without
    /// anything.
    fn holder(&self, around: &Def, given: Option<&Json>, at: &str, depth: usize) -> anyhow::Result<Data> {
        let mut holder = ParcelableHolder::new(self.stability(around));
        let held = match given {
            None => None,
            Some(Json::Object(given)) if given.len() <= 1 => given.iter().next(),
            Some(_) => bail!("{at}: a ParcelableHolder is {{}}, or {{\"full.name.of.a.Type\": VALUE}}"),
        };
        if let Some((name, json)) = held {
            let def = self.holdable(name).with_context(|| {
                format!(
                    "{at}: the files have no parcelable or union `{name}`; give its file with --aidl, too"
                )
            })?;
            let ty = Type::plain(TypeKind::Named(def.id, Vec::new()));
            let data = self.check(&ty, json, &format!("{at}.{name}"), depth + 1)?;
            holder
                .set_named(name, self.stability(def), |to| data.write_held(to))
                .with_context(|| at.to_owned())?;
        }
        Ok(Data::Holder(holder))
    }

    /// The type that has this name in a holder.
    pub(super) fn holdable(&self, name: &str) -> Option<&Def> {
        let is_one = |def: &&Def| {
            matches!(def.kind, DefKind::Parcelable(_) | DefKind::Union(_)) && !self.is_beyond(def)
        };
        self.model.iter().filter(is_one).find(|def| def.descriptor() == name)
    }

    pub(super) fn stability(&self, def: &Def) -> Stability {
        if self.model.is_stable(def) { Stability::Vintf } else { Stability::Local }
    }

    fn union(
        &self,
        def: &Def,
        fields: &[Field],
        given: &Map<String, Json>,
        at: &str,
        depth: usize,
    ) -> anyhow::Result<Data> {
        let mut given = given.iter();
        let (Some((name, json)), None) = (given.next(), given.next()) else {
            bail!("{at}: {} is a union: exactly one of its fields is set: {}", def.name, names(fields));
        };
        let place = fields.iter().position(|field| field.name == *name);
        let Some((place, field)) = place.and_then(|place| Some((place, fields.get(place)?))) else {
            bail!("{at}: {} has no field `{name}`; its fields: {}", def.name, names(fields));
        };
        let data = self.check(&field.ty, json, &format!("{at}.{name}"), depth + 1)?;
        Ok(Data::Tagged(i32::try_from(place)?, Box::new(data)))
    }

    /// What a field holds that nobody sets.
    fn default_of(&self, field: &Field, at: &str, depth: usize) -> anyhow::Result<Data> {
        if let Some(value) = &field.default {
            return self.check(&field.ty, &as_json(value), at, depth);
        }
        if !self.model.has_default(&field.ty) {
            bail!("{at}: set it: {} has no default", self.name(&field.ty));
        }
        self.check(&field.ty, &self.example(&field.ty, 1), at, depth)
    }

    /// What is to be typed for a type, in words.
    fn wanted(&self, ty: &Type) -> String {
        let plain = match &ty.kind {
            TypeKind::Primitive(Primitive::Bool) => "true or false".to_owned(),
            TypeKind::Primitive(Primitive::Char) => "one character".to_owned(),
            TypeKind::Primitive(primitive) => match primitive.range() {
                Some((least, most)) => format!("a whole number from {least} to {most}"),
                None => "a number".to_owned(),
            },
            TypeKind::String | TypeKind::CharSequence => "text".to_owned(),
            TypeKind::Binder => "the name of a service".to_owned(),
            TypeKind::FileDescriptor | TypeKind::BareFileDescriptor => "the path of a file".to_owned(),
            TypeKind::Fixed(item, size) if is_byte(item) => format!("{size} bytes, as 0x00ff or [0, 255],"),
            TypeKind::Fixed(_, size) => format!("a JSON array of {size} items"),
            TypeKind::Array(item) if is_byte(item) => "bytes, as 0x00ff or [0, 255],".to_owned(),
            TypeKind::Array(_) | TypeKind::List(_) => "a JSON array".to_owned(),
            TypeKind::Named(id, _) | TypeKind::Bitfield(id) => match &self.model.def(*id).kind {
                DefKind::Enum(of) => {
                    let names: Vec<&str> = of.enumerators.iter().map(|one| one.name.as_str()).collect();
                    format!("{}, or a number,", names.join(", "))
                }
                DefKind::Typedef(target) => return self.wanted(target),
                DefKind::Interface(_) => "the name of a service".to_owned(),
                _ => format!("JSON like {}", self.example(ty, 0)),
            },
            _ => "a program".to_owned(),
        };
        if ty.nullable { format!("{plain}, or null") } else { plain }
    }

    /// What a type holds without being set, as JSON; of types without a default something that stands for them.
    fn example(&self, ty: &Type, depth: usize) -> Json {
        if ty.nullable && depth > 0 {
            return Json::Null;
        }
        match &ty.kind {
            TypeKind::Primitive(Primitive::Bool) => Json::Bool(false),
            TypeKind::Primitive(Primitive::F32 | Primitive::F64) => json!(0.0),
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => json!(0),
            TypeKind::String | TypeKind::CharSequence => json!(""),
            TypeKind::Binder => json!("the name of a service"),
            TypeKind::FileDescriptor | TypeKind::BareFileDescriptor => json!("the path of a file"),
            TypeKind::Array(_) | TypeKind::List(_) => json!([]),
            TypeKind::Fixed(item, size) => {
                Json::Array((0..*size).map(|_| self.example(item, depth + 1)).collect())
            }
            TypeKind::Named(id, _) => match &self.model.def(*id).kind {
                _ if depth > DEEPEST => Json::Null,
                DefKind::Enum(_) => json!(0),
                DefKind::Typedef(target) => self.example(target, depth + 1),
                DefKind::Interface(_) => json!("the name of a service"),
                DefKind::Parcelable(parcelable) => {
                    let fields = parcelable.fields.iter();
                    Json::Object(
                        fields.map(|field| (field.name.clone(), self.initial(field, depth))).collect(),
                    )
                }
                DefKind::Union(fields) => {
                    let first = fields.iter().take(1);
                    Json::Object(
                        first.map(|field| (field.name.clone(), self.initial(field, depth))).collect(),
                    )
                }
                DefKind::Opaque { .. } if self.model.is_holder(ty) => json!({}),
                DefKind::Opaque { .. } => Json::Null,
            },
            _ => Json::Null,
        }
    }

    fn initial(&self, field: &Field, depth: usize) -> Json {
        field.default.as_ref().map_or_else(|| self.example(&field.ty, depth + 1), as_json)
    }
}

fn is_small(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::I8 | Primitive::U8)
}

pub(super) fn is_byte(ty: &Type) -> bool {
    matches!(ty.kind, TypeKind::Primitive(primitive) if is_small(primitive))
}

/// A byte of an array, signed or not.
fn byte(json: &Json) -> Option<u8> {
    let number = json.as_i64()?;
    u8::try_from(number).ok().or_else(|| i8::try_from(number).ok().map(|byte| byte as u8))
}

/// JSON as a number of a type; `None` if it is none, or too large.
fn number(primitive: Primitive, json: &Json) -> Option<Data> {
    match (primitive, json) {
        (Primitive::Bool, Json::Bool(truth)) => Some(Data::Word(i32::from(*truth))),
        (Primitive::F32 | Primitive::F64, json) => {
            let number = match json {
                Json::String(word) if ["NaN", "inf", "-inf"].contains(&word.as_str()) => word.parse().ok()?,
                json => json.as_f64()?,
            };
            if primitive == Primitive::F64 {
                return Some(Data::Long(number.to_bits() as i64));
            }
            let narrow = number as f32;
            (narrow.is_finite() || !number.is_finite()).then_some(Data::Word(narrow.to_bits() as i32))
        }
        (Primitive::Char, Json::String(text)) => {
            let mut units = text.encode_utf16();
            let unit = units.next().filter(|_| units.next().is_none())?;
            Some(Data::Word(i32::from(unit)))
        }
        (_, Json::Number(given)) => {
            integral(primitive, given.as_i64().map(i128::from).or_else(|| given.as_u64().map(i128::from))?)
        }
        _ => None,
    }
}

fn integral(primitive: Primitive, value: i128) -> Option<Data> {
    let (least, most) = primitive.range()?;
    let fits = (least..=most).contains(&value);
    fits.then(|| match primitive {
        Primitive::I64 | Primitive::U64 => Data::Long(value as i64),
        _ => Data::Word(value as i32),
    })
}

fn enumerator(of: &Enum, json: &Json) -> Option<Data> {
    match json {
        Json::String(name) => integral(of.backing, value_of(of, name)?),
        json => number(of.backing, json),
    }
}

/// A value of an enum by its name, in front of which the enum's may stand.
fn value_of(of: &Enum, name: &str) -> Option<i128> {
    let name = name.rsplit('.').next()?;
    of.enumerators.iter().find(|one| one.name == name).map(|one| one.value)
}

/// A value that the interface's file states.
fn as_json(value: &Value) -> Json {
    match value {
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Integer(value) | Value::Enumerator(_, _, value) => {
            i64::try_from(*value).map_or_else(|_| json!(*value as u64), Json::from)
        }
        Value::Float(number) => json!(number),
        Value::Character(unit) => json!(unit),
        Value::Text(text) => json!(text),
        Value::List(items) => Json::Array(items.iter().map(as_json).collect()),
    }
}

fn names(fields: &[Field]) -> String {
    fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
}
