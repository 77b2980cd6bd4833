//! Enums: a number with named values, since a newer peer may send others.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::Generator;
use super::names::{shouty, type_name};
use super::traits::documented;
use super::types::number;
use crate::model::{Def, Enum, Primitive};

impl Generator<'_> {
    pub(super) fn enumeration(&mut self, def: &Def, of: &Enum) -> String {
        self.distinct(of.enumerators.iter().map(|one| (one.name.as_str(), def.span)), shouty);
        let name = type_name(def.name.last());
        let backing = number(of.backing);
        let docs = documented(&def.docs, &format!("`{}`.", def.name));
        let mut code = format!(
            "{docs}#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]\n\
             pub struct {name}(pub {backing});\n\
             impl {name} {{\n"
        );
        for one in &of.enumerators {
            let constant = shouty(&one.name);
            let docs = documented(&one.docs, &format!("`{}`", one.name));
            // Writing to a string cannot fail.
            let _ = writeln!(code, "{docs}pub const {constant}: Self = Self({});", one.value);
        }
        let _ = write!(
            code,
            "/// The name of this value; `None` for one of a newer version.\n\
             pub fn name(self) -> {option}<&'static str> {{\n",
            option = self.std("Option"),
        );
        // Two names may mean the same number; the first is its name.
        let mut seen = HashSet::new();
        let mut arms = String::new();
        for one in &of.enumerators {
            if seen.insert(one.value) {
                let _ = writeln!(arms, "Self::{} => Some({:?}),", shouty(&one.name), one.name);
            }
        }
        let _ = writeln!(code, "match self {{ {arms} _ => None }} }} }}");
        let _ = write!(
            code,
            "impl ::std::fmt::Debug for {name} {{\n\
             fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {{\n\
             match self.name() {{ Some(name) => f.write_str(name), None => write!(f, \"{name}({{}})\", self.0) }}\n\
             }} }}\n"
        );
        let packed = if matches!(of.backing, Primitive::I8 | Primitive::U8) {
            format!(
                "fn write_items(items: &[Self], to: &mut ::handoff_ipc::parcel::Writer<'_>) -> \
                 ::handoff_ipc::Result<()> {{\n\
                 let numbers: ::std::vec::Vec<{backing}> = items.iter().map(|item| item.0).collect();\n\
                 ::handoff_ipc::parcel::Parcelable::write_items(&numbers, to) }}\n\
                 fn read_items(count: usize, from: &mut ::handoff_ipc::parcel::Reader<'_>) -> \
                 ::handoff_ipc::Result<::std::vec::Vec<Self>> {{\n\
                 let numbers = <{backing} as ::handoff_ipc::parcel::Parcelable>::read_items(count, from)?;\n\
                 Ok(numbers.into_iter().map(Self).collect()) }}\n"
            )
        } else {
            String::new()
        };
        let _ = write!(
            code,
            "impl ::handoff_ipc::parcel::Parcelable for {name} {{\n\
             const LEAST_SIZE: usize = <{backing} as ::handoff_ipc::parcel::Parcelable>::LEAST_SIZE;\n\
             fn write_to(&self, to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{ \
             to.write(&self.0) }}\n\
             fn read_from(from: &mut ::handoff_ipc::parcel::Reader<'_>) -> ::handoff_ipc::Result<Self> {{ \
             from.read().map(Self) }}\n{packed}}}\n"
        );
        code.push_str(&self.enum_item_impl(def.id, &name, backing));
        if self.is_bitfield(def.id) {
            let _ = write!(
                code,
                "impl {name} {{\n\
                 /// True if every bit of `other` is set.\n\
                 pub fn contains(self, other: Self) -> bool {{ self.0 & other.0 == other.0 }} }}\n\
                 impl ::std::ops::BitOr for {name} {{ type Output = Self;\n\
                 fn bitor(self, other: Self) -> Self {{ Self(self.0 | other.0) }} }}\n\
                 impl ::std::ops::BitAnd for {name} {{ type Output = Self;\n\
                 fn bitand(self, other: Self) -> Self {{ Self(self.0 & other.0) }} }}\n"
            );
        }
        code
    }
}
