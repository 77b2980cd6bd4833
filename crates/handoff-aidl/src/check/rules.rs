//! Rules about whole definitions, which need all of them to be known.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{Def, DefId, DefKind, Field, Model, Type, TypeKind};
use crate::source::{Language, Span};

/// Reports what breaks a rule. `spans` are the places of the definitions' names.
pub(super) fn check(model: &Model, spans: &[Span], diagnostics: &mut Diagnostics) {
    for def in model.iter() {
        let rules = Rules { model, def, at: spans[def.id.0] };
        each_type(def, &mut |ty, at| {
            rules.check_list(ty, at, diagnostics);
            rules.check_utf8(ty, at, diagnostics);
            rules.check_stability(ty, at, diagnostics);
            rules.check_holder(ty, at, diagnostics);
        });
        rules.check_fixed_size(diagnostics);
        rules.check_opaque(diagnostics);
    }
    check_sizes(model, spans, diagnostics);
}

struct Rules<'a> {
    model: &'a Model,
    def: &'a Def,
    at: Span,
}

impl Rules<'_> {
    fn check_list(&self, ty: &Type, at: Span, diagnostics: &mut Diagnostics) {
        let TypeKind::List(item) = &ty.kind else { return };
        let what = match &item.kind {
            TypeKind::Primitive(_) => "numbers",
            TypeKind::Named(id, _) if matches!(self.model.def(*id).kind, DefKind::Enum(_)) => {
                "values of an enum"
            }
            TypeKind::Array(_) | TypeKind::List(_) | TypeKind::Fixed(..) => "arrays",
            TypeKind::Void => "nothing",
            _ => return,
        };
        let diagnostic = Diagnostic::error(at, format!("a `List` cannot hold {what}"))
            .label("in this type")
            .help("use an array: `T[]`");
        diagnostics.push(diagnostic);
    }

    fn check_utf8(&self, ty: &Type, at: Span, diagnostics: &mut Diagnostics) {
        if !ty.utf8 {
            return;
        }
        let mut kind = &ty.kind;
        while let TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _) = kind {
            kind = &item.kind;
        }
        if *kind != TypeKind::String {
            diagnostics
                .push(Diagnostic::error(at, "`@utf8InCpp` stands in front of text").label("no `String`"));
        }
    }

    /// What is stable may only use what is stable.
    fn check_stability(&self, ty: &Type, at: Span, diagnostics: &mut Diagnostics) {
        let TypeKind::Named(id, _) = &ty.kind else { return };
        let used = self.model.def(*id);
        if used.language == Language::Hidl || self.def.language == Language::Hidl {
            return;
        }
        if self.model.is_stable(self.def) && !self.model.is_stable(used) {
            let message = format!("`{}` is `@VintfStability`, `{}` is not", self.def.name.last(), used.name);
            let diagnostic = Diagnostic::error(at, message)
                .related(used.span, "defined here")
                .help("write `@VintfStability` in front of it, too");
            diagnostics.push(diagnostic);
        }
    }

    /// A holder has its owner's stability, which only a field can be given.
    fn check_holder(&self, ty: &Type, at: Span, diagnostics: &mut Diagnostics) {
        let wrong = match &ty.kind {
            TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _) => {
                self.model.is_holder(item)
            }
            _ if self.model.is_holder(ty) => ty.nullable || !matches!(self.def.kind, DefKind::Parcelable(_)),
            _ => false,
        };
        if wrong {
            let diagnostic = Diagnostic::error(at, "a `ParcelableHolder` is a field of a parcelable")
                .help("write a parcelable around it; a holder that was not set holds nothing");
            diagnostics.push(diagnostic);
        }
    }

    fn check_fixed_size(&self, diagnostics: &mut Diagnostics) {
        let fields = match &self.def.kind {
            DefKind::Parcelable(parcelable) if parcelable.fixed_size => &parcelable.fields,
            DefKind::Union(fields) if self.def.has("FixedSize") => fields,
            _ => return,
        };
        for field in fields.iter().filter(|field| !self.is_fixed(&field.ty)) {
            let message =
                format!("`{}` is `@FixedSize`, the type of `{}` is not", self.def.name.last(), field.name);
            let diagnostic = Diagnostic::error(field.span, message)
                .help("use numbers, enums, arrays of a fixed size, and `@FixedSize` types");
            diagnostics.push(diagnostic);
        }
    }

    fn is_fixed(&self, ty: &Type) -> bool {
        match &ty.kind {
            // Of one that is not known, that was said.
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) | TypeKind::Unknown => true,
            TypeKind::Fixed(item, _) => self.is_fixed(item),
            TypeKind::Named(id, _) => match &self.model.def(*id).kind {
                DefKind::Enum(_) => true,
                DefKind::Parcelable(_) | DefKind::Union(_) => {
                    !ty.nullable && self.model.def(*id).has("FixedSize")
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn check_opaque(&self, diagnostics: &mut Diagnostics) {
        let DefKind::Opaque { rust_type: Some(path), .. } = &self.def.kind else { return };
        if syn::parse_str::<syn::Path>(path).is_err() {
            let message = format!("{path:?} is no path of a Rust type");
            diagnostics.push(Diagnostic::error(self.at, message).help("such as `crate::types::Region`"));
        }
    }
}

/// Calls `visit` with each type that a definition uses, inner ones too, and where.
pub(crate) fn each_type(def: &Def, visit: &mut dyn FnMut(&Type, Span)) {
    let mut all = |ty: &Type, at: Span| walk(ty, &mut |inner| visit(inner, at));
    for constant in &def.constants {
        all(&constant.ty, def.span);
    }
    match &def.kind {
        DefKind::Interface(interface) => {
            for method in &interface.methods {
                method.parameters.iter().for_each(|parameter| all(&parameter.ty, method.span));
                method.results.iter().for_each(|result| all(&result.ty, method.span));
            }
        }
        DefKind::Parcelable(parcelable) => {
            parcelable.fields.iter().for_each(|field| all(&field.ty, field.span))
        }
        DefKind::Union(fields) => fields.iter().for_each(|field| all(&field.ty, field.span)),
        DefKind::Typedef(ty) => all(ty, def.span),
        DefKind::Enum(_) | DefKind::Opaque { .. } => {}
    }
}

fn walk(ty: &Type, visit: &mut dyn FnMut(&Type)) {
    visit(ty);
    match &ty.kind {
        TypeKind::Array(inner)
        | TypeKind::List(inner)
        | TypeKind::Fixed(inner, _)
        | TypeKind::Queue { item: inner, .. } => walk(inner, visit),
        TypeKind::Named(_, arguments) => arguments.iter().for_each(|argument| walk(argument, visit)),
        _ => {}
    }
}

/// Reports types that hold themselves, which would have no end.
fn check_sizes(model: &Model, spans: &[Span], diagnostics: &mut Diagnostics) {
    let mut done = vec![false; model.defs.len()];
    for start in model.iter() {
        let mut path = Vec::new();
        visit(model, start.id, &mut path, &mut done, spans, diagnostics);
    }
}

fn visit(
    model: &Model,
    id: DefId,
    path: &mut Vec<DefId>,
    done: &mut [bool],
    spans: &[Span],
    diagnostics: &mut Diagnostics,
) {
    if let Some(first) = path.iter().position(|one| *one == id) {
        let names: Vec<String> =
            path[first..].iter().chain([&id]).map(|one| model.def(*one).name.last().to_owned()).collect();
        let diagnostic = Diagnostic::error(spans[id.0], format!("`{}` holds itself", names[0]))
            .label(names.join(" holds "))
            .help("make the field an array, or `@nullable(heap=true)`");
        diagnostics.push(diagnostic);
        return;
    }
    // Chains as long as there are types are fine; what was followed once need not be again.
    if std::mem::replace(&mut done[id.0], true) || path.len() > 512 {
        return;
    }
    let fields: &[Field] = match &model.def(id).kind {
        DefKind::Parcelable(parcelable) => &parcelable.fields,
        DefKind::Union(fields) => fields,
        _ => &[],
    };
    path.push(id);
    for field in fields {
        if let Some(inner) = held(&field.ty) {
            visit(model, inner, path, done, spans, diagnostics);
        }
    }
    path.pop();
}

/// The definition whose value lies inside of a value of this type.
fn held(ty: &Type) -> Option<DefId> {
    match &ty.kind {
        TypeKind::Named(id, _) if !ty.heap => Some(*id),
        TypeKind::Fixed(item, _) => held(item),
        _ => None,
    }
}
