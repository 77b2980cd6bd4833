//! Values of an interface's types out of a reply, as JSON.

use std::os::fd::OwnedFd;

use handoff_aidl::model::{Def, DefKind, Enum, Primitive, Type, TypeKind};
use handoff_ipc::Result as IpcResult;
use handoff_ipc::parcel::{BareFd, CharSequence, ParcelableHolder, Reader};
use serde_json::{Map, Value as Json, json};

use super::values::{Types, is_byte};
use super::words::hex;

impl Types<'_> {
    /// A value out of a reply, as JSON.
    pub(super) fn read(&self, ty: &Type, from: &mut Reader<'_>) -> IpcResult<Json> {
        let found = match &ty.kind {
            TypeKind::Primitive(primitive) => Some(read_number(*primitive, from)?),
            TypeKind::String => from.read_string16()?.map(Json::String),
            TypeKind::CharSequence => from.read::<Option<CharSequence>>()?.map(|text| Json::String(text.0)),
            TypeKind::Binder => from.read_binder()?.map(|_| json!("an object")),
            TypeKind::FileDescriptor => from.read::<Option<OwnedFd>>()?.map(|_| json!("a file descriptor")),
            TypeKind::BareFileDescriptor => {
                from.read::<BareFd>()?;
                Some(json!("a file descriptor"))
            }
            TypeKind::Bitfield(id) => match &self.model.def(*id).kind {
                DefKind::Enum(of) => Some(read_number(of.backing, from)?),
                _ => None,
            },
            TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _) => {
                self.read_items(ty, item, from)?
            }
            TypeKind::Named(id, _) => self.read_named(ty, self.model.def(*id), from)?,
            TypeKind::Void => Some(Json::Null),
            TypeKind::Queue { .. } | TypeKind::Memory | TypeKind::Parameter(_) | TypeKind::Unknown => {
                return Err(self.unread(ty, from));
            }
        };
        match found {
            None if !ty.nullable => Err(from.null()),
            found => Ok(found.unwrap_or(Json::Null)),
        }
    }

    fn unread(&self, ty: &Type, from: &Reader<'_>) -> handoff_ipc::Error {
        from.bad(format!("a {}, which is not shown here; call from a program", self.name(ty)))
    }

    fn read_items(&self, ty: &Type, item: &Type, from: &mut Reader<'_>) -> IpcResult<Option<Json>> {
        let item = self.item(ty, item);
        let is_packed = is_byte(&item) || self.is_packed(&item);
        let least = if is_packed { 1 } else { 4 };
        let Some(count) = from.read_count(least)? else { return Ok(None) };
        if let TypeKind::Fixed(_, size) = &ty.kind
            && count != *size as usize
        {
            return Err(from.bad(format!("an array of {size} items is wanted and one of {count} came")));
        }
        if !is_packed {
            let items = (0..count).map(|_| self.read(&item, from)).collect::<IpcResult<_>>()?;
            return Ok(Some(Json::Array(items)));
        }
        let raw = from.read_raw(count)?.to_vec();
        Ok(Some(match &item.kind {
            TypeKind::Named(id, _) => match &self.model.def(*id).kind {
                DefKind::Enum(of) => {
                    let signed = of.backing == Primitive::I8;
                    let value = |byte: &u8| if signed { i128::from(*byte as i8) } else { i128::from(*byte) };
                    Json::Array(raw.iter().map(|byte| named(of, value(byte))).collect())
                }
                _ => Json::Null,
            },
            _ => Json::String(format!("0x{}", hex(&raw))),
        }))
    }

    fn read_named(&self, ty: &Type, def: &Def, from: &mut Reader<'_>) -> IpcResult<Option<Json>> {
        match &def.kind {
            DefKind::Enum(of) => {
                let number = read_number(of.backing, from)?;
                let value = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                Ok(Some(value.map_or(number, |value| named(of, value))))
            }
            DefKind::Typedef(target) => self.read(target, from).map(Some),
            DefKind::Interface(_) => {
                Ok(from.read_binder()?.map(|_| json!(format!("an object of {}", def.name))))
            }
            _ if self.is_beyond(def) => Err(self.unread(ty, from)),
            _ => from.read_some(|from| self.read_held(def, from)),
        }
    }

    /// A parcelable or a union behind the mark that it is not null, which it does not have in a holder.
    fn read_held(&self, def: &Def, from: &mut Reader<'_>) -> IpcResult<Json> {
        match &def.kind {
            DefKind::Parcelable(parcelable) => from.read_sized(|from| {
                let mut fields = Map::new();
                for field in &parcelable.fields {
                    if from.remaining() == 0 {
                        break; // An older version has fewer.
                    }
                    let value = match self.model.is_holder(&field.ty) {
                        true => self.read_holder(def, from)?,
                        false => self.read(&field.ty, from)?,
                    };
                    fields.insert(field.name.clone(), value);
                }
                Ok(Json::Object(fields))
            }),
            DefKind::Union(fields) => from.read_tag(|tag, from| {
                let field = usize::try_from(tag).ok().and_then(|tag| fields.get(tag));
                let Some(field) = field else {
                    return Err(from.bad(format!("{} has no field {tag}", def.name)));
                };
                Ok(Json::Object(Map::from_iter([(field.name.clone(), self.read(&field.ty, from)?)])))
            }),
            _ => Err(from.bad(format!("{} is no parcelable", def.name))),
        }
    }

    /// A `ParcelableHolder` of a parcelable: the name of the type and its value, or its bytes where the files do not have
    /// the type.
    fn read_holder(&self, around: &Def, from: &mut Reader<'_>) -> IpcResult<Json> {
        let holder = ParcelableHolder::read(from, self.stability(around))?;
        let Some(name) = holder.descriptor()? else { return Ok(json!({})) };
        let value = holder.get_named(&name, |from| match self.holdable(&name) {
            Some(def) => self.read_held(def, from),
            None => Ok(Json::String(format!("0x{}", hex(&from.read_raw(from.remaining())?.to_vec())))),
        })?;
        Ok(Json::Object(Map::from_iter([(name, value.unwrap_or(Json::Null))])))
    }
}

/// A value of an enum: its name, or the number if a newer version has added it.
fn named(of: &Enum, value: i128) -> Json {
    match of.enumerators.iter().find(|one| one.value == value) {
        Some(one) => Json::String(one.name.clone()),
        None => i64::try_from(value).map_or_else(|_| json!(value as u64), Json::from),
    }
}

fn read_number(primitive: Primitive, from: &mut Reader<'_>) -> IpcResult<Json> {
    let float = |number: f64| {
        let finite = number.is_finite().then(|| json!(number));
        finite.unwrap_or_else(|| Json::String(number.to_string()))
    };
    Ok(match primitive {
        Primitive::Bool => Json::Bool(from.read()?),
        Primitive::I8 => json!(from.read::<i8>()?),
        Primitive::U8 => json!(from.read::<u8>()?),
        Primitive::I16 => json!(from.read::<i16>()?),
        Primitive::U16 => json!(from.read::<u16>()?),
        Primitive::I32 => json!(from.read::<i32>()?),
        Primitive::U32 => json!(from.read::<u32>()?),
        Primitive::I64 => json!(from.read::<i64>()?),
        Primitive::U64 => json!(from.read::<u64>()?),
        // As it is written: 0.1, and not 0.10000000149011612.
        Primitive::F32 => {
            let number = from.read::<f32>()?;
            number.to_string().parse().map_or_else(|_| float(f64::from(number)), float)
        }
        Primitive::F64 => float(from.read()?),
        Primitive::Char => {
            let unit = from.read::<u16>()?;
            char::from_u32(u32::from(unit)).map_or_else(|| json!(unit), |character| json!(character))
        }
    })
}
