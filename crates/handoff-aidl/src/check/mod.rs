//! From trees to a model: names are resolved, constants computed, and the rules of the language kept.

mod annotations;
mod eval;
mod members;
mod names;
mod rules;
mod types;

pub(crate) use rules::each_type;
pub(crate) use types::{QUEUE, SYNCHRONIZED, UNSYNCHRONIZED};

use std::collections::HashMap;

use crate::ast::{
    Annotation, Const, Docs, Document, Enumerator, Expr, ExprKind, Ident, Item, ItemKind, Member,
};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{BUNDLE, Def, DefId, DefKind, DefName, Model};
use crate::source::{FileId, Language, Span};

/// A file that was parsed.
#[derive(Debug, Clone)]
pub struct Parsed {
    pub file: FileId,
    pub document: Document,
}

/// Makes a model of files. What is wrong with them is added to `diagnostics`; what is left can be
/// used only if none of it is an error.
pub fn check(documents: &[Parsed], diagnostics: &mut Diagnostics) -> Model {
    let mut tags = Vec::new();
    for parsed in documents.iter().filter(|parsed| parsed.document.language == Language::Aidl) {
        parsed.document.items.iter().for_each(|item| collect_tags(item, &mut tags));
    }
    let mut checker = Checker {
        documents,
        tags: tags.iter(),
        entries: Vec::new(),
        names: HashMap::new(),
        diagnostics,
        constants: HashMap::new(),
        enums: HashMap::new(),
        by_name: HashMap::new(),
        depth: 0,
    };
    checker.collect();
    checker.check_imports();
    let defs: Vec<Def> = (0..checker.entries.len()).map(|index| checker.define(DefId(index))).collect();
    let model = Model { defs, names: std::mem::take(&mut checker.names) };
    rules::check(&model, &checker.spans(), checker.diagnostics);
    model
}

/// A declaration, before it is resolved.
pub(crate) struct Entry<'a> {
    item: &'a Item,
    document: usize,
    name: DefName,
    parent: Option<DefId>,
}

/// Whether something that may depend on itself is known.
#[derive(Clone)]
pub(crate) enum Evaluation<T> {
    InProgress,
    Done(T),
}

/// The values of an enum that are known, the inherited ones in front.
pub(crate) type EnumValues = Vec<(String, i128)>;

pub(crate) struct Checker<'a> {
    documents: &'a [Parsed],
    /// The enum of each union that says which field is set, in the order in which the unions stand.
    tags: std::slice::Iter<'a, Item>,
    entries: Vec<Entry<'a>>,
    names: HashMap<String, DefId>,
    diagnostics: &'a mut Diagnostics,
    constants: HashMap<(DefId, String), Evaluation<Option<eval::Computed>>>,
    enums: HashMap<DefId, Evaluation<EnumValues>>,
    /// The constants that definitions hold, by name, of those that were asked for one.
    by_name: HashMap<DefId, HashMap<&'a str, &'a Const>>,
    /// How deep constants refer to each other.
    depth: u32,
}

impl<'a> Checker<'a> {
    fn entry(&self, id: DefId) -> &Entry<'a> {
        &self.entries[id.0]
    }

    fn document(&self, id: DefId) -> &'a Document {
        &self.documents[self.entry(id).document].document
    }

    fn language(&self, id: DefId) -> Language {
        self.document(id).language
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Where each definition's members stand, for rules that look at the model.
    fn spans(&self) -> Vec<Span> {
        self.entries.iter().map(|entry| entry.item.name.span).collect()
    }

    /// Gives every declaration a number and a full name.
    fn collect(&mut self) {
        for (index, parsed) in self.documents.iter().enumerate() {
            let document = &parsed.document;
            let package = document.package.as_ref();
            let name = DefName {
                package: package.map_or_else(Vec::new, |package| {
                    package.names.iter().map(|name| name.text.clone()).collect()
                }),
                version: package.and_then(|package| package.version),
                names: Vec::new(),
            };
            for item in &document.items {
                self.collect_item(index, item, &name, None);
            }
        }
    }

    fn collect_item(&mut self, document: usize, item: &'a Item, outer: &DefName, parent: Option<DefId>) {
        let mut name = outer.clone();
        name.names.push(item.name.text.clone());
        let id = DefId(self.entries.len());
        let full = name.to_string();
        if let Some(earlier) = self.names.get(&full) {
            let earlier = self.entry(*earlier).item.name.span;
            let diagnostic = Diagnostic::error(item.name.span, format!("`{full}` is defined twice"))
                .label("defined again")
                .related(earlier, "first defined here");
            self.error(diagnostic);
        } else {
            self.names.insert(full, id);
        }
        if parent.is_some_and(|parent| self.entry(parent).item.name.text == item.name.text) {
            let message = format!("`{}` has the name of the type around it", item.name.text);
            self.error(Diagnostic::error(item.name.span, message));
        }
        self.entries.push(Entry { item, document, name: name.clone(), parent });
        let members = match &item.kind {
            ItemKind::Interface { members, .. }
            | ItemKind::Parcelable { members, .. }
            | ItemKind::Union { members, .. } => members.as_slice(),
            ItemKind::Opaque { .. } | ItemKind::Enum { .. } | ItemKind::Typedef { .. } => &[],
        };
        for member in members {
            if let Member::Item(inner) = member {
                self.collect_item(document, inner, &name, Some(id));
            }
        }
        if is_tagged(item) && self.language(id) == Language::Aidl {
            let tag = self.tags.next();
            tag.into_iter().for_each(|tag| self.collect_item(document, tag, &name, Some(id)));
        }
    }

    fn define(&mut self, id: DefId) -> Def {
        let entry = self.entry(id);
        let (item, name, parent) = (entry.item, entry.name.clone(), entry.parent);
        let file = self.documents[entry.document].file;
        let annotations = self.def_annotations(id);
        let constants = self.define_constants(id);
        let kind = self.define_kind(id);
        Def {
            id,
            language: self.language(id),
            name,
            parent,
            docs: item.docs.clone(),
            annotations,
            file,
            span: item.name.span,
            constants,
            kind,
        }
    }

    fn define_kind(&mut self, id: DefId) -> DefKind {
        match &self.entry(id).item.kind {
            ItemKind::Interface { oneway, extends, members } => {
                DefKind::Interface(self.define_interface(id, *oneway, extends.as_ref(), members))
            }
            ItemKind::Parcelable { parameters, members } => {
                DefKind::Parcelable(self.define_parcelable(id, parameters, members))
            }
            ItemKind::Opaque { headers } => {
                let said = |key: &str| {
                    headers.iter().find(|(name, _)| name.text == key).map(|(_, text)| text.text.clone())
                };
                let (mut rust_type, mut ndk_header) = (said("rust_type"), said("ndk_header"));
                if self.entry(id).name.to_string() == BUNDLE {
                    // Android's own file names the class of Android's crate, which is not here.
                    rust_type = rust_type.filter(|path| !path.starts_with("binder::"));
                    rust_type.get_or_insert_with(|| "::handoff_ipc::parcel::PersistableBundle".to_owned());
                    ndk_header.get_or_insert_with(|| "android/persistable_bundle_aidl.h".to_owned());
                }
                DefKind::Opaque { rust_type, ndk_header }
            }
            ItemKind::Union { parameters, members } => {
                DefKind::Union(self.define_union(id, parameters, members))
            }
            ItemKind::Enum { enumerators, .. } => DefKind::Enum(self.define_enum(id, enumerators)),
            ItemKind::Typedef { target } => DefKind::Typedef(self.resolve_type(id, target)),
        }
    }
}

/// Whether a declaration has a type `Tag` in it that nobody wrote.
fn is_tagged(item: &Item) -> bool {
    matches!(&item.kind, ItemKind::Union { members, .. } if !members.is_empty())
}

/// The enums `Tag` of unions, those of nested ones in front, as they are collected.
fn collect_tags(item: &Item, tags: &mut Vec<Item>) {
    let (ItemKind::Interface { members, .. }
    | ItemKind::Parcelable { members, .. }
    | ItemKind::Union { members, .. }) = &item.kind
    else {
        return;
    };
    for member in members {
        if let Member::Item(inner) = member {
            collect_tags(inner, tags);
        }
    }
    if !is_tagged(item) {
        return;
    }
    let named = |text: &str| Ident { text: text.to_owned(), span: item.name.span };
    let int = Expr { kind: ExprKind::Text("int".to_owned()), span: item.name.span };
    let backing =
        Annotation { name: named("Backing"), arguments: vec![(named("type"), int)], span: item.name.span };
    let values = members.iter().filter_map(|member| match member {
        Member::Field(field) => {
            Some(Enumerator { docs: Docs::default(), name: field.name.clone(), value: None })
        }
        _ => None,
    });
    tags.push(Item {
        docs: Docs::default(),
        annotations: vec![backing],
        name: named("Tag"),
        kind: ItemKind::Enum { backing: None, enumerators: values.collect() },
        span: item.span,
    });
}

/// Whether AIDL knows a type without a definition.
pub(crate) fn is_built_in(name: &str) -> bool {
    names::AIDL_TYPES.contains(&name)
}
