//! What message queues carry: values of a fixed size, which lie there as C++ lays them out.

use super::Generator;
use super::names::snake;
use crate::model::{Def, DefId, DefKind, Field, Type, TypeKind};

impl Generator<'_> {
    /// Whether a queue can carry values of the type as Rust has them.
    pub(super) fn is_item(&self, ty: &Type) -> bool {
        self.is_item_within(ty, &mut Vec::new())
    }

    fn is_item_within(&self, ty: &Type, around: &mut Vec<DefId>) -> bool {
        match &ty.kind {
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => true,
            TypeKind::Fixed(item, _) => self.is_item_within(item, around),
            TypeKind::Named(id, _) if around.contains(id) => false,
            TypeKind::Named(id, _) => {
                let def = self.model.def(*id);
                around.push(*id);
                let is_item = match &def.kind {
                    // The layout of a type of the user's is the user's affair.
                    _ if self.options.types.contains_key(&def.name.to_string()) => false,
                    DefKind::Enum(_) => true,
                    DefKind::Parcelable(of) => {
                        let all = of.fields.iter().all(|field| self.is_item_within(&field.ty, around));
                        of.fixed_size && !of.fields.is_empty() && all
                    }
                    // Bytes of a peer may name a field that it does not have.
                    _ => false,
                };
                around.pop();
                is_item
            }
            _ => false,
        }
    }

    /// Makes a `@FixedSize` parcelable an item.
    pub(super) fn item_impl(&self, def: &Def, name: &str, fields: &[Field]) -> String {
        if !self.is_item(&Type::plain(TypeKind::Named(def.id, Vec::new()))) {
            return String::new();
        }
        let fields: Vec<String> = fields
            .iter()
            .map(|field| format!("{}: {}", snake(&field.name), self.field(def.id, &field.ty)))
            .collect();
        format!("::handoff_ipc::queue_item!({name} {{ {} }});\n", fields.join(", "))
    }

    /// Makes an enum an item, if queues or `@FixedSize` types have it.
    pub(super) fn enum_item_impl(&self, id: DefId, name: &str, backing: &str) -> String {
        if !self.model.iter().any(|def| has_as_item(def, id)) {
            return String::new();
        }
        let item = "::handoff_ipc::queue::Item";
        format!(
            "impl {item} for {name} {{\n\
             const SIZE: usize = <{backing} as {item}>::SIZE;\n\
             const ALIGN: usize = <{backing} as {item}>::ALIGN;\n\
             #[inline]\n\
             fn put(&self, to: ::handoff_ipc::queue::ItemMut<'_>) {{ {item}::put(&self.0, to) }}\n\
             #[inline]\n\
             fn get(from: ::handoff_ipc::queue::ItemRef<'_>) -> Self {{ Self({item}::get(from)) }}\n}}\n"
        )
    }
}

fn has_as_item(def: &Def, wanted: DefId) -> bool {
    let is_it =
        |ty: &Type| matches!(&ty.kind, TypeKind::Named(id, _) | TypeKind::Bitfield(id) if *id == wanted);
    let (mut found, is_fixed) = (false, def.has("FixedSize"));
    crate::check::each_type(def, &mut |ty, _| {
        found |= match &ty.kind {
            TypeKind::Queue { item, .. } => is_it(item),
            _ => is_fixed && is_it(ty),
        };
    });
    found
}
