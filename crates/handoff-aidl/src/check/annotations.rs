//! Annotations: which there are, where they may stand, what they take.

use super::Checker;
use crate::ast::{Annotation, ExprKind, ItemKind, TypeExpr};
use crate::diagnostic::{Diagnostic, similar};
use crate::model::{AnnotationUse, DefId, Primitive, Value};
use crate::source::Language;

/// Where an annotation may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Type,
    Definition,
    Anywhere,
}

/// Every annotation that Android documents. Most say something to other languages' generators only.
const AIDL: [(&str, Position); 28] = [
    ("nullable", Position::Type),
    ("utf8InCpp", Position::Type),
    ("Backing", Position::Definition),
    ("VintfStability", Position::Definition),
    ("FixedSize", Position::Definition),
    ("Descriptor", Position::Definition),
    ("RustDerive", Position::Definition),
    ("JavaDerive", Position::Definition),
    ("JavaDefault", Position::Definition),
    ("JavaDelegator", Position::Definition),
    ("JavaOnlyImmutable", Position::Definition),
    ("JavaOnlyStableParcelable", Position::Definition),
    ("NdkOnlyStableParcelable", Position::Definition),
    ("RustOnlyStableParcelable", Position::Definition),
    ("SensitiveData", Position::Definition),
    ("JavaPassthrough", Position::Anywhere),
    ("JavaSuppressLint", Position::Anywhere),
    ("SuppressWarnings", Position::Anywhere),
    ("UnsupportedAppUsage", Position::Anywhere),
    ("Hide", Position::Anywhere),
    ("Enforce", Position::Anywhere),
    ("EnforcePermission", Position::Anywhere),
    ("PermissionManuallyEnforced", Position::Anywhere),
    ("RequiresNoPermission", Position::Anywhere),
    ("PropagateAllowBlocking", Position::Anywhere),
    ("CppOnlyStableParcelable", Position::Definition),
    ("GuardedBy", Position::Anywhere),
    ("Deprecated", Position::Anywhere),
];

/// Annotations of HIDL speak to its own test generators.
const HIDL: [&str; 4] = ["entry", "exit", "callflow", "export"];

/// Parameters of those that mean something here.
fn parameters(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "nullable" => &["heap"],
        "utf8InCpp" | "VintfStability" | "FixedSize" | "SensitiveData" | "JavaDefault" | "JavaDelegator" => {
            &[]
        }
        "Backing" => &["type"],
        "Descriptor" => &["value"],
        _ => return None,
    })
}

impl Checker<'_> {
    pub(super) fn check_type_annotations(&mut self, scope: DefId, ty: &TypeExpr) {
        for annotation in &ty.annotations {
            self.check_annotation(scope, annotation, Position::Type);
        }
    }

    /// The annotations of a definition, with their arguments computed.
    pub(super) fn def_annotations(&mut self, id: DefId) -> Vec<AnnotationUse> {
        let annotations = &self.entry(id).item.annotations;
        let mut used = Vec::new();
        for annotation in annotations {
            self.check_annotation(id, annotation, Position::Definition);
            let mut arguments = Vec::new();
            for (name, value) in &annotation.arguments {
                if let Some(value) = self.evaluate(id, value) {
                    arguments.push((name.text.clone(), value));
                }
            }
            used.push(AnnotationUse { name: annotation.name.text.clone(), arguments });
        }
        used
    }

    pub(super) fn check_method_annotations(&mut self, scope: DefId, annotations: &[Annotation]) {
        for annotation in annotations {
            self.check_annotation(scope, annotation, Position::Anywhere);
        }
    }

    fn check_annotation(&mut self, scope: DefId, annotation: &Annotation, place: Position) {
        let name = annotation.name.text.as_str();
        if self.language(scope) == Language::Hidl {
            if !HIDL.contains(&name) {
                let diagnostic =
                    Diagnostic::error(annotation.span, format!("there is no annotation `@{name}`"));
                self.error(suggest(diagnostic, annotation, &HIDL));
            }
            return;
        }
        let Some((_, allowed)) = AIDL.iter().find(|(known, _)| *known == name) else {
            let diagnostic = Diagnostic::error(annotation.span, format!("there is no annotation `@{name}`"))
                .label("unknown");
            let known: Vec<&str> = AIDL.iter().map(|(known, _)| *known).collect();
            self.error(suggest(diagnostic, annotation, &known));
            return;
        };
        let belongs = match allowed {
            Position::Type => place == Position::Type,
            Position::Definition => place == Position::Definition,
            Position::Anywhere => true,
        };
        if !belongs {
            let where_ = if *allowed == Position::Type { "a type" } else { "a definition" };
            let message = format!("`@{name}` stands in front of {where_}");
            self.error(Diagnostic::error(annotation.span, message).label("not here"));
        }
        if name == "Backing" && !matches!(self.entry(scope).item.kind, ItemKind::Enum { .. }) {
            self.error(Diagnostic::error(annotation.span, "`@Backing` stands in front of an enum"));
        }
        if let Some(known) = parameters(name) {
            for (argument, value) in &annotation.arguments {
                if !known.contains(&argument.text.as_str()) {
                    let takes = if known.is_empty() {
                        "nothing".to_owned()
                    } else {
                        format!("`{}`", known.join("`, `"))
                    };
                    let message = format!("`@{name}` takes {takes}, not `{}`", argument.text);
                    self.error(Diagnostic::error(value.span, message).label("not known"));
                }
            }
        }
    }

    /// The type of `@Backing(type="int")`; a byte without.
    pub(super) fn backing_annotation(&mut self, id: DefId) -> Primitive {
        let annotations = &self.entry(id).item.annotations;
        let Some(annotation) = annotations.iter().find(|one| one.name.text == "Backing") else {
            return Primitive::I8;
        };
        let value = annotation.arguments.iter().find(|(name, _)| name.text == "type").map(|(_, value)| value);
        let text = match value.map(|value| &value.kind) {
            Some(ExprKind::Text(text)) => text.as_str(),
            _ => "",
        };
        match text {
            "byte" => Primitive::I8,
            "int" => Primitive::I32,
            "long" => Primitive::I64,
            _ => {
                let span = value.map_or(annotation.span, |value| value.span);
                let diagnostic = Diagnostic::error(span, "an enum is a `byte`, an `int` or a `long`")
                    .help("write")
                    .fix(annotation.span, "@Backing(type=\"int\")");
                self.error(diagnostic);
                Primitive::I32
            }
        }
    }

    /// A value as a type has it; `None` after an error was reported.
    pub(super) fn convert(
        &mut self,
        scope: DefId,
        value: Value,
        ty: &crate::model::Type,
        span: crate::source::Span,
    ) -> Option<Value> {
        use crate::model::TypeKind;
        match (&ty.kind, value) {
            (TypeKind::Primitive(Primitive::Bool), Value::Bool(value)) => Some(Value::Bool(value)),
            (TypeKind::Primitive(Primitive::Char), Value::Character(unit)) => Some(Value::Character(unit)),
            (TypeKind::Primitive(Primitive::F32 | Primitive::F64), Value::Float(value)) => {
                Some(Value::Float(value))
            }
            (TypeKind::Primitive(Primitive::F32 | Primitive::F64), Value::Integer(value)) => {
                Some(Value::Float(value as f64))
            }
            (TypeKind::Primitive(primitive), Value::Integer(value) | Value::Enumerator(_, _, value))
                if primitive.range().is_some() =>
            {
                self.convert_integer(scope, value, *primitive, span)
            }
            (TypeKind::Primitive(primitive), Value::Bool(value)) if primitive.range().is_some() => {
                Some(Value::Integer(value.into()))
            }
            (TypeKind::String, Value::Text(text)) => Some(Value::Text(text)),
            (TypeKind::Named(id, _), Value::Enumerator(of, name, value)) if *id == of => {
                Some(Value::Enumerator(of, name, value))
            }
            (TypeKind::Array(item) | TypeKind::List(item), Value::List(values)) => {
                let item = item.clone();
                let values: Option<Vec<Value>> =
                    values.into_iter().map(|value| self.convert(scope, value, &item, span)).collect();
                values.map(Value::List)
            }
            (TypeKind::Fixed(item, size), Value::List(values)) => {
                if values.len() != *size as usize {
                    let message = format!("{} values for an array of {size}", values.len());
                    self.error(Diagnostic::error(span, message));
                    return None;
                }
                let item = item.clone();
                let values: Option<Vec<Value>> =
                    values.into_iter().map(|value| self.convert(scope, value, &item, span)).collect();
                values.map(Value::List)
            }
            (_, value) => {
                let what = match value {
                    Value::Bool(_) => "a truth value",
                    Value::Integer(_) => "a number",
                    Value::Float(_) => "a number with a point",
                    Value::Character(_) => "a character",
                    Value::Text(_) => "text",
                    Value::Enumerator(..) => "a value of an enum",
                    Value::List(_) => "a list",
                };
                let diagnostic =
                    Diagnostic::error(span, format!("{what} is no value of this type")).label("does not fit");
                self.error(diagnostic);
                None
            }
        }
    }

    fn convert_integer(
        &mut self,
        scope: DefId,
        value: i128,
        primitive: Primitive,
        span: crate::source::Span,
    ) -> Option<Value> {
        let (least, greatest) = primitive.range()?;
        if (least..=greatest).contains(&value) {
            return Some(Value::Integer(value));
        }
        let hidl = self.language(scope) == Language::Hidl;
        // The same bits: ~0 of an unsigned type, 0xff of a signed one.
        let span_of = greatest - least + 1;
        if hidl && value >= -(span_of / 2) && value < span_of {
            let bits = value.rem_euclid(span_of);
            return Some(Value::Integer(if bits > greatest { bits - span_of } else { bits }));
        }
        let name = if hidl { primitive.hidl() } else { primitive.aidl() };
        let diagnostic = Diagnostic::error(span, format!("{value} does not fit in a `{name}`"))
            .label(format!("from {least} to {greatest}"));
        self.error(diagnostic);
        None
    }
}

fn suggest(diagnostic: Diagnostic, annotation: &Annotation, known: &[&str]) -> Diagnostic {
    match similar(&annotation.name.text, known.iter().copied()) {
        Some(meant) => diagnostic.help("did you mean").fix(annotation.name.span, meant),
        None => diagnostic.help(format!("there are: @{}", known.join(", @"))),
    }
}
