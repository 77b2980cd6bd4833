//! Methods, fields and values of a definition.

use std::collections::HashMap;

use super::Checker;
use super::eval::constants;
use crate::ast::{self, Direction, Ident, ItemKind, Member};
use crate::diagnostic::Diagnostic;
use crate::model::{
    Constant, DefId, Enum, Enumerator, FIRST_RESERVED_ID, Field, Interface, Method, Parameter, Parcelable,
    Type, TypeKind, Value,
};
use crate::source::{Language, Span};

/// Methods that every interface has.
const RESERVED_METHODS: [&str; 5] =
    ["getInterfaceVersion", "getInterfaceHash", "asBinder", "getTransactionName", "getInterfaceDescriptor"];

impl Checker<'_> {
    pub(super) fn define_constants(&mut self, id: DefId) -> Vec<Constant> {
        let item = self.entry(id).item;
        let mut defined: Vec<Constant> = Vec::new();
        self.no_twins(constants(item).map(|one| &one.name), "constant");
        for constant in constants(item) {
            let ty = self.resolve_type(id, &constant.ty);
            let allowed = match ty.kind {
                TypeKind::Primitive(_) | TypeKind::String => true,
                TypeKind::Array(ref item) | TypeKind::Fixed(ref item, _) => {
                    matches!(item.kind, TypeKind::Primitive(_) | TypeKind::String)
                }
                _ => false,
            };
            if !allowed || ty.nullable {
                let diagnostic =
                    Diagnostic::error(constant.ty.span, "a constant is a number, text or `boolean`")
                        .help("make it a field with a default, or an enum");
                self.error(diagnostic);
                continue;
            }
            let path = ast::Path {
                package: Vec::new(),
                version: None,
                names: vec![constant.name.clone()],
                span: constant.name.span,
            };
            let expr = ast::Expr { kind: ast::ExprKind::Name(path), span: constant.name.span };
            // By its name, so that it is computed once however often it is used.
            if let Some(value) = self.evaluate(id, &expr) {
                let (name, docs) = (constant.name.text.clone(), constant.docs.clone());
                defined.push(Constant { name, docs, ty, value });
            }
        }
        defined
    }

    pub(super) fn define_enum(&mut self, id: DefId, enumerators: &[ast::Enumerator]) -> Enum {
        self.no_twins(enumerators.iter().map(|one| &one.name), "value");
        if enumerators.is_empty() && self.language(id) == Language::Aidl {
            let name = &self.entry(id).item.name;
            let diagnostic = Diagnostic::error(name.span, format!("enum `{}` has no values", name.text))
                .help("give it one");
            self.error(diagnostic);
        }
        let backing = self.enum_backing(id);
        let values = self.enum_values(id);
        let inherited = values.len().saturating_sub(enumerators.len());
        let docs = |index: usize| {
            index.checked_sub(inherited).and_then(|own| enumerators.get(own)).map(|own| own.docs.clone())
        };
        let enumerators = values
            .into_iter()
            .enumerate()
            .map(|(index, (name, value))| Enumerator { name, docs: docs(index).unwrap_or_default(), value })
            .collect();
        Enum { backing, enumerators }
    }

    pub(super) fn define_parcelable(
        &mut self,
        id: DefId,
        parameters: &[Ident],
        members: &[Member],
    ) -> Parcelable {
        let fields = self.fields(id, members);
        Parcelable {
            parameters: parameters.iter().map(|one| one.text.clone()).collect(),
            fields,
            fixed_size: self.entry(id).item.annotations.iter().any(|one| one.name.text == "FixedSize"),
        }
    }

    pub(super) fn define_union(&mut self, id: DefId, parameters: &[Ident], members: &[Member]) -> Vec<Field> {
        if let Some(first) = parameters.first() {
            let diagnostic = Diagnostic::error(first.span, "unions with type parameters are not supported")
                .help("write a union for each type that it is used with");
            self.error(diagnostic);
        }
        let fields = self.fields(id, members);
        if fields.is_empty() {
            let name = &self.entry(id).item.name;
            let diagnostic = Diagnostic::error(name.span, format!("union `{}` has no fields", name.text))
                .help("give it one");
            self.error(diagnostic);
        }
        for field in fields.iter().skip(1).filter(|field| field.default.is_some()) {
            let diagnostic = Diagnostic::warning(field.span, "only the first field of a union has a default")
                .help("a union that was not set is its first field: take this default away");
            self.error(diagnostic);
        }
        fields
    }

    fn fields(&mut self, id: DefId, members: &[Member]) -> Vec<Field> {
        let all = || {
            members.iter().filter_map(|member| match member {
                Member::Field(field) => Some(field),
                _ => None,
            })
        };
        self.no_twins(all().map(|field| &field.name), "field");
        all().map(|field| self.field(id, field)).collect()
    }

    fn field(&mut self, id: DefId, field: &ast::Field) -> Field {
        let ty = self.resolve_type(id, &field.ty);
        if ty.is_void() {
            self.error(Diagnostic::error(field.ty.span, "a field cannot be `void`"));
        }
        self.check_nullable(&ty, field.ty.span);
        // What could be said of a value of an unknown type is wrong if the type is there one day.
        let default = field.default.as_ref().filter(|_| ty.kind != TypeKind::Unknown).and_then(|value| {
            let computed = self.evaluate(id, value)?;
            self.convert(id, computed, &ty, value.span)
        });
        Field { name: field.name.text.clone(), docs: field.docs.clone(), span: field.name.span, ty, default }
    }

    pub(super) fn define_interface(
        &mut self,
        id: DefId,
        all_oneway: bool,
        extends: Option<&ast::Path>,
        members: &[Member],
    ) -> Interface {
        let base = extends.and_then(|path| self.base_interface(id, path));
        let methods = || {
            members.iter().filter_map(|member| match member {
                Member::Method(method) => Some(method),
                _ => None,
            })
        };
        self.check_overloads(methods());
        let explicit = methods().filter(|method| method.id.is_some()).count();
        let without = methods().find(|method| method.id.is_none());
        if let Some(without) = without.filter(|_| explicit > 0) {
            let diagnostic = Diagnostic::error(without.name.span, "this method has no number, others have")
                .help("number all methods or none: `void method() = 3;`");
            self.error(diagnostic);
        }
        let mut used: HashMap<u32, Span> = HashMap::new();
        let mut defined = Vec::new();
        for (index, method) in methods().enumerate() {
            let number = match &method.id {
                Some(expr) => match self.evaluate(id, expr) {
                    Some(Value::Integer(value)) if (0..i128::from(FIRST_RESERVED_ID)).contains(&value) => {
                        value as u32
                    }
                    Some(_) => {
                        let diagnostic = Diagnostic::error(expr.span, "this is no number of a method")
                            .label(format!("from 0 to {}", FIRST_RESERVED_ID - 1));
                        self.error(diagnostic);
                        continue;
                    }
                    None => continue,
                },
                None => index as u32,
            };
            if let Some(earlier) = used.get(&number) {
                let span = method.id.as_ref().map_or(method.name.span, |expr| expr.span);
                let diagnostic = Diagnostic::error(span, format!("two methods have the number {number}"))
                    .related(*earlier, "the other one");
                self.error(diagnostic);
            }
            used.entry(number).or_insert(method.name.span);
            defined.push(self.method(id, all_oneway, method, number));
        }
        Interface { base, methods: defined }
    }

    fn base_interface(&mut self, id: DefId, path: &ast::Path) -> Option<DefId> {
        let found = self.resolve(id, path);
        let mut seen = vec![id];
        let mut next = found;
        while let Some(base) = next {
            if seen.contains(&base) {
                self.error(Diagnostic::error(path.span, "this interface extends itself"));
                return None;
            }
            seen.push(base);
            next = match &self.entry(base).item.kind {
                ItemKind::Interface { extends: Some(path), .. } => self.resolve(base, path),
                _ => None,
            };
        }
        match found {
            Some(base) if matches!(self.entry(base).item.kind, ItemKind::Interface { .. }) => Some(base),
            Some(_) => {
                self.error(Diagnostic::error(path.span, format!("`{}` is no interface", path.text())));
                None
            }
            None => {
                self.unknown_type(id, path);
                None
            }
        }
    }

    fn check_overloads<'m>(&mut self, methods: impl Iterator<Item = &'m ast::Method>) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for method in methods {
            let name = &method.name;
            if RESERVED_METHODS.contains(&name.text.as_str()) {
                let message = format!("every interface has a method `{}` already", name.text);
                self.error(Diagnostic::error(name.span, message).label("reserved"));
            }
            if let Some(earlier) = seen.get(name.text.as_str()) {
                let diagnostic =
                    Diagnostic::error(name.span, format!("there are two methods `{}`", name.text))
                        .label("defined again")
                        .related(*earlier, "first defined here")
                        .help("methods are told apart by their names alone");
                self.error(diagnostic);
            }
            seen.entry(&name.text).or_insert(name.span);
        }
    }

    fn method(&mut self, id: DefId, all_oneway: bool, method: &ast::Method, number: u32) -> Method {
        self.check_method_annotations(id, &method.annotations);
        let oneway = all_oneway || method.oneway.is_some();
        self.no_twins(method.parameters.iter().map(|one| &one.name), "parameter");
        self.no_twins(method.results.iter().map(|one| &one.name), "result");
        let parameters = method.parameters.iter().map(|one| self.parameter(id, one, oneway)).collect();
        let mut results: Vec<Field> = Vec::new();
        if let Some(returns) = &method.returns {
            let ty = self.resolve_type(id, returns);
            self.check_nullable(&ty, returns.span);
            if oneway && !ty.is_void() {
                let diagnostic = Diagnostic::error(returns.span, "a oneway method returns nothing")
                    .label("not `void`")
                    .help("write")
                    .fix(returns.span, "void");
                self.error(diagnostic);
            }
            if !ty.is_void() {
                results.push(result(ty, "", returns.span));
            }
        }
        for parameter in &method.results {
            let ty = self.resolve_type(id, &parameter.ty);
            results.push(result(ty, &parameter.name.text, parameter.name.span));
        }
        if let Some(first) = method.results.first().filter(|_| oneway) {
            let diagnostic = Diagnostic::error(first.ty.span, "a oneway method returns nothing")
                .help("take `oneway` or `generates` away");
            self.error(diagnostic);
        }
        Method {
            name: method.name.text.clone(),
            docs: method.docs.clone(),
            span: method.name.span,
            oneway,
            id: number,
            explicit_id: method.id.is_some(),
            parameters,
            results,
        }
    }

    fn parameter(&mut self, id: DefId, parameter: &ast::Parameter, oneway: bool) -> Parameter {
        let ty = self.resolve_type(id, &parameter.ty);
        let span = parameter.ty.span;
        if ty.is_void() {
            self.error(Diagnostic::error(span, "a parameter cannot be `void`"));
        }
        self.check_nullable(&ty, span);
        let name = parameter.name.text.clone();
        let direction = match parameter.direction {
            Some((Direction::In, _)) => Direction::In,
            Some((direction, at)) => {
                let word = direction.word();
                if oneway {
                    let message = format!("a oneway method has no `{word}` parameters");
                    self.error(Diagnostic::error(at, message).label("nothing comes back"));
                }
                if !self.can_be_out(&ty) {
                    let diagnostic = Diagnostic::error(at, format!("this type cannot be `{word}`"))
                        .label("only `in`")
                        .help("return it, or put it into a parcelable");
                    self.error(diagnostic);
                }
                direction
            }
            None => {
                let needs_one = self.can_be_out(&ty) && ty.kind != TypeKind::Unknown;
                if self.language(id) == Language::Aidl && needs_one {
                    let diagnostic = Diagnostic::error(span, format!("`{name}` has no direction"))
                        .label("can go both ways")
                        .help("say which way it goes: `in`, `out` or `inout`")
                        .fix(span.before(), "in ");
                    self.error(diagnostic);
                }
                Direction::In
            }
        };
        Parameter { name, ty, direction }
    }

    /// Whether a parameter of this type can bring something back.
    fn can_be_out(&self, ty: &Type) -> bool {
        match &ty.kind {
            TypeKind::Array(_) | TypeKind::List(_) | TypeKind::Fixed(..) | TypeKind::FileDescriptor => true,
            TypeKind::Queue { .. } | TypeKind::Unknown => true,
            TypeKind::Named(id, _) => matches!(
                self.entry(*id).item.kind,
                ItemKind::Parcelable { .. } | ItemKind::Opaque { .. } | ItemKind::Union { .. }
            ),
            _ => false,
        }
    }

    fn check_nullable(&mut self, ty: &Type, span: Span) {
        if !ty.nullable {
            return;
        }
        let what = match &ty.kind {
            TypeKind::Void => "nothing at all",
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => "a number",
            TypeKind::Named(id, _) if self.is_enum(*id) => "a value of an enum",
            _ => return,
        };
        let diagnostic = Diagnostic::error(span, format!("{what} cannot be null"))
            .help("put it into a parcelable, or choose a value that means none");
        self.error(diagnostic);
    }

    fn no_twins<'n>(&mut self, names: impl Iterator<Item = &'n Ident>, what: &str) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for name in names {
            if let Some(earlier) = seen.get(name.text.as_str()) {
                let diagnostic =
                    Diagnostic::error(name.span, format!("there are two {what}s `{}`", name.text))
                        .label("defined again")
                        .related(*earlier, "first defined here");
                self.error(diagnostic);
            }
            seen.entry(&name.text).or_insert(name.span);
        }
    }
}

fn result(ty: Type, name: &str, span: Span) -> Field {
    Field { name: name.to_owned(), docs: Default::default(), span, ty, default: None }
}
