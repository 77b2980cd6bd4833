//! Whether a newer version of interfaces still serves those who use an older one: Android's rules
//! for stable AIDL, those of `aidl_checkapi.cpp` in AOSP's `system/tools/aidl`.

use std::fmt;

use serde::Serialize;

use crate::diagnostic::{Location, Severity};
use crate::load::Compilation;
use crate::model::{
    AnnotationUse, Constant, Def, DefKind, Enum, Field, Interface, Method, Primitive, Type, TypeKind, Value,
};
use crate::print::type_text;
use crate::source::{Language, Span};

/// A change that somebody would notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// An error breaks those who were built with the older version; a warning breaks their sources only.
    pub severity: Severity,
    /// What has changed, in one sentence.
    pub message: String,
    /// What would have been allowed.
    pub help: Option<String>,
    /// Where it is in the newer version; in the older one if it is gone.
    pub at: Location,
    /// True if the place is in the older version.
    pub is_old: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Location { file, line, column, .. } = &self.at;
        write!(f, "{level}: {}\n  --> {file}:{line}:{column}", self.message)?;
        if self.is_old {
            f.write_str(" (the older version)")?;
        }
        match &self.help {
            Some(help) => write!(f, "\n  = help: {help}"),
            None => Ok(()),
        }
    }
}

/// Compares two versions. Both have been compiled without errors.
pub fn compare(old: &Compilation, new: &Compilation) -> Vec<Change> {
    let mut comparison = Comparison { old, new, changes: Vec::new() };
    // A union's fields say what its tags are.
    let is_compared = |def: &&Def| old.inputs.contains(&def.file) && !old.model.is_tag(def);
    for def in old.model.iter().filter(is_compared) {
        match new.model.iter().find(|other| key(other) == key(def)) {
            Some(other) => comparison.definition(def, other),
            None => comparison.gone(def.span, format!("{} `{}` was removed", def.kind.word(), def.name)),
        }
    }
    comparison.changes
}

/// What the two versions of a definition have in common.
fn key(def: &Def) -> String {
    match def.language {
        Language::Aidl => def.name.to_string(),
        Language::Hidl => format!("{}.{}", def.name.package.join("."), def.name.names.join(".")),
    }
}

/// Annotations of definitions that may come and go: they change nothing of what travels.
const FREE: [&str; 11] = [
    "Backing",
    "Deprecated",
    "Hide",
    "JavaDefault",
    "JavaDelegator",
    "JavaDerive",
    "JavaOnlyImmutable",
    "JavaSuppressLint",
    "RustDerive",
    "SuppressWarnings",
    "nullable",
];

/// The annotations of a definition that others rely on.
fn strict(def: &Def) -> Vec<&AnnotationUse> {
    let deprecates = |one: &AnnotationUse| {
        one.name == "JavaPassthrough"
            && one
                .arguments
                .iter()
                .any(|(_, value)| matches!(value, Value::Text(text) if text.starts_with("@Deprecated")))
    };
    let kept = |one: &&AnnotationUse| !FREE.contains(&one.name.as_str()) && !deprecates(one);
    def.annotations.iter().filter(kept).collect()
}

/// A type without what may be written at it and changes nothing of what travels: whether it may be null.
fn bare(ty: &Type) -> Type {
    // Inside of another type no annotation counts.
    let inner = |ty: &Type| Box::new(Type { utf8: false, ..bare(ty) });
    let kind = match &ty.kind {
        TypeKind::Array(item) => TypeKind::Array(inner(item)),
        TypeKind::List(item) => TypeKind::List(inner(item)),
        TypeKind::Fixed(item, size) => TypeKind::Fixed(inner(item), *size),
        TypeKind::Named(id, arguments) => {
            TypeKind::Named(*id, arguments.iter().map(|one| *inner(one)).collect())
        }
        other => other.clone(),
    };
    Type { kind, utf8: ty.utf8, ..Type::plain(TypeKind::Void) }
}

/// What a field is without being set: numbers are zero, of anything else each language has its own idea.
fn default_of(field: &Field) -> Option<Value> {
    use Primitive::{Bool, Char, F32, F64, U16};
    let implicit = match field.ty.kind {
        TypeKind::Primitive(Bool) => Some(Value::Bool(false)),
        TypeKind::Primitive(F32 | F64) => Some(Value::Float(0.0)),
        TypeKind::Primitive(Char | U16) => None,
        TypeKind::Primitive(_) => Some(Value::Integer(0)),
        _ => None,
    };
    field.default.clone().or(implicit)
}

struct Comparison<'a> {
    old: &'a Compilation,
    new: &'a Compilation,
    changes: Vec<Change>,
}

impl Comparison<'_> {
    fn changed(&mut self, span: Span, message: String) {
        self.changed_with(span, message, None);
    }

    fn changed_with(&mut self, span: Span, message: String, help: Option<&str>) {
        let at = Location::of(span, &self.new.sources);
        let help = help.map(str::to_owned);
        self.changes.push(Change { severity: Severity::Error, message, help, at, is_old: false });
    }

    fn gone(&mut self, span: Span, message: String) {
        let at = Location::of(span, &self.old.sources);
        self.changes.push(Change { severity: Severity::Error, message, help: None, at, is_old: true });
    }

    fn renamed(&mut self, span: Span, message: String) {
        let at = Location::of(span, &self.new.sources);
        self.changes.push(Change { severity: Severity::Warning, message, help: None, at, is_old: false });
    }

    /// Whether values of two types travel alike. Who may give null may change on either side, and breaks sources
    /// only.
    fn travels_alike(&mut self, old: (&Def, &Type), new: (&Def, &Type), span: Span, what: &str) -> bool {
        if self.old_type(old.0, &bare(old.1)) != self.new_type(new.0, &bare(new.1)) {
            return false;
        }
        let (before, after) = (self.old_type(old.0, old.1), self.new_type(new.0, new.1));
        if before != after {
            self.renamed(span, format!("{what} was `{before}` and is `{after}`"));
        }
        true
    }

    fn old_type(&self, def: &Def, ty: &Type) -> String {
        type_text(&self.old.model, def.id, ty)
    }

    fn new_type(&self, def: &Def, ty: &Type) -> String {
        type_text(&self.new.model, def.id, ty)
    }

    fn definition(&mut self, old: &Def, new: &Def) {
        let (before, after) = (strict(old), strict(new));
        let differs = |one: &AnnotationUse, all: &[&AnnotationUse]| !all.contains(&one);
        for one in before.iter().filter(|one| differs(one, &after)) {
            self.changed(new.span, format!("`@{}` was taken from `{}`", one.name, old.name));
        }
        for one in after.iter().filter(|one| differs(one, &before)) {
            self.changed(new.span, format!("`@{}` was added to `{}`", one.name, old.name));
        }
        if old.descriptor() != new.descriptor() && old.language == Language::Aidl {
            let message = format!(
                "the descriptor of `{}` changed from `{}` to `{}`",
                old.name,
                old.descriptor(),
                new.descriptor()
            );
            self.changed(new.span, message);
        }
        self.constants(old, new);
        match (&old.kind, &new.kind) {
            (DefKind::Interface(before), DefKind::Interface(after)) => {
                self.interface(old, new, before, after)
            }
            (DefKind::Parcelable(before), DefKind::Parcelable(after)) => {
                self.fields(old, new, &before.fields, &after.fields, "field");
                if before.fixed_size && after.fields.len() > before.fields.len() {
                    let message = format!("`{}` is `@FixedSize` and has a field more", new.name);
                    self.changed_with(new.span, message, Some("write a new parcelable"));
                }
            }
            (DefKind::Union(before), DefKind::Union(after)) => self.fields(old, new, before, after, "field"),
            (DefKind::Enum(before), DefKind::Enum(after)) => self.enumeration(new, before, after),
            (DefKind::Opaque { .. }, DefKind::Opaque { .. }) | (DefKind::Typedef(_), DefKind::Typedef(_)) => {
            }
            (before, after) => {
                let message = format!("`{}` was a {} and is a {}", old.name, before.word(), after.word());
                self.changed(new.span, message);
            }
        }
    }

    fn constants(&mut self, old: &Def, new: &Def) {
        for constant in &old.constants {
            let Constant { name, .. } = constant;
            match new.constants.iter().find(|other| other.name == *name) {
                None => self.gone(old.span, format!("constant `{}.{name}` was removed", old.name)),
                Some(other) => {
                    let (before, after) = (self.old_type(old, &constant.ty), self.new_type(new, &other.ty));
                    let alike =
                        self.old_type(old, &bare(&constant.ty)) == self.new_type(new, &bare(&other.ty));
                    if !alike || constant.value != other.value {
                        let message = format!(
                            "constant `{}.{name}` changed from `{before} {}` to `{after} {}`",
                            old.name, constant.value, other.value
                        );
                        self.changed_with(
                            new.span,
                            message,
                            Some("others were compiled with its value: add a new one"),
                        );
                    }
                }
            }
        }
    }

    fn interface(&mut self, old: &Def, new: &Def, before: &Interface, after: &Interface) {
        let (old_model, new_model) = (&self.old.model, &self.new.model);
        let (before, after) = (old_model.methods(before), new_model.methods(after));
        for (code, method) in &before {
            match after.iter().find(|(_, other)| other.name == method.name) {
                None => self.gone(method.span, format!("method `{}.{}` was removed", old.name, method.name)),
                Some((other_code, other)) => {
                    if code != other_code {
                        let message = format!(
                            "method `{}.{}` had the transaction code {code} and has {other_code}",
                            old.name, method.name
                        );
                        self.changed_with(
                            other.span,
                            message,
                            Some("add methods behind those that are there"),
                        );
                    }
                    self.method(old, new, method, other);
                }
            }
        }
    }

    fn method(&mut self, old_def: &Def, new_def: &Def, old: &Method, new: &Method) {
        let name = format!("{}.{}", old_def.name, old.name);
        if old.oneway != new.oneway {
            let what = if new.oneway { "became oneway" } else { "is oneway no longer" };
            self.changed(new.span, format!("method `{name}` {what}"));
        }
        let types = |fields: &[Field], text: &dyn Fn(&Type) -> String| -> String {
            let texts: Vec<String> = fields.iter().map(|field| text(&field.ty)).collect();
            if texts.is_empty() { "void".to_owned() } else { texts.join(", ") }
        };
        let before = types(&old.results, &|ty| self.old_type(old_def, ty));
        let after = types(&new.results, &|ty| self.new_type(new_def, ty));
        let what = format!("what method `{name}` returns");
        let alike = old.results.len() == new.results.len()
            && old.results.iter().zip(&new.results).all(|(before, after)| {
                self.travels_alike((old_def, &before.ty), (new_def, &after.ty), new.span, &what)
            });
        if !alike {
            self.changed(new.span, format!("method `{name}` returned `{before}` and returns `{after}`"));
        }
        if old.parameters.len() != new.parameters.len() {
            let message = format!(
                "method `{name}` took {} parameters and takes {}",
                old.parameters.len(),
                new.parameters.len()
            );
            self.changed_with(new.span, message, Some("add a new method"));
            return;
        }
        for (before, after) in old.parameters.iter().zip(&new.parameters) {
            let (old_type, new_type) =
                (self.old_type(old_def, &before.ty), self.new_type(new_def, &after.ty));
            let what = format!("parameter `{}` of `{name}`", after.name);
            let alike = self.travels_alike((old_def, &before.ty), (new_def, &after.ty), new.span, &what);
            if !alike || before.direction != after.direction {
                let message = format!(
                    "parameter `{}` of `{name}` was `{} {old_type}` and is `{} {new_type}`",
                    after.name,
                    before.direction.word(),
                    after.direction.word()
                );
                self.changed(new.span, message);
            }
        }
    }

    fn fields(&mut self, old_def: &Def, new_def: &Def, old: &[Field], new: &[Field], what: &str) {
        let type_name = &old_def.name;
        for (index, field) in old.iter().enumerate() {
            let moved = new.iter().position(|other| other.name == field.name);
            match (new.get(index), moved) {
                (Some(other), _) if other.name == field.name => {
                    let name = format!("{what} `{type_name}.{}`", field.name);
                    if self.travels_alike((old_def, &field.ty), (new_def, &other.ty), other.span, &name) {
                        self.default(&type_name.to_string(), field, other);
                    } else {
                        let (before, after) =
                            (self.old_type(old_def, &field.ty), self.new_type(new_def, &other.ty));
                        self.changed(other.span, format!("{name} was `{before}` and is `{after}`"));
                    }
                }
                (_, Some(place)) => {
                    let message =
                        format!("{what} `{type_name}.{}` moved from place {index} to {place}", field.name);
                    self.changed_with(
                        new[place].span,
                        message,
                        Some("add new ones behind those that are there"),
                    );
                }
                (Some(other), None)
                    if self.old_type(old_def, &bare(&field.ty))
                        == self.new_type(new_def, &bare(&other.ty)) =>
                {
                    let message =
                        format!("{what} `{type_name}.{}` is called `{}` now", field.name, other.name);
                    self.renamed(other.span, message);
                    self.default(&type_name.to_string(), field, other);
                }
                (_, None) => {
                    self.gone(field.span, format!("{what} `{type_name}.{}` was removed", field.name))
                }
            }
        }
        let without = |field: &&Field| !self.has_useful_default(new_def, field);
        let without: Vec<&Field> = new.iter().skip(old.len()).filter(without).collect();
        for field in without {
            let message = format!(
                "new {what} `{type_name}.{}` has no default that an older peer's could be",
                field.name
            );
            let help = match &field.ty.kind {
                TypeKind::Named(id, _) if matches!(self.new.model.def(*id).kind, DefKind::Enum(_)) => {
                    "give it a default, or the enum a value that is 0"
                }
                _ => "give it a default, or make it `@nullable`",
            };
            self.changed_with(field.span, message, Some(help));
        }
    }

    /// Compares what a field is without being set.
    fn default(&mut self, type_name: &str, old: &Field, new: &Field) {
        let (before, after) = (default_of(old), default_of(new));
        // That of an enum is zero anyway.
        let zero = |value: &Value| matches!(value, Value::Enumerator(_, _, 0) | Value::Integer(0));
        let says_zero = before.is_none() && after.as_ref().is_some_and(zero);
        if before.as_ref().map(ToString::to_string) != after.as_ref().map(ToString::to_string) && !says_zero {
            let message = format!("the default of `{type_name}.{}` changed", old.name);
            self.changed_with(new.span, message, Some("others were compiled with the old one"));
        }
    }

    /// What an older peer does not send is the default, which must be one in every language: of text and arrays,
    /// and of what is made of fields, some languages have null.
    fn has_useful_default(&self, def: &Def, field: &Field) -> bool {
        if field.ty.nullable || default_of(field).is_some() {
            return true;
        }
        match &field.ty.kind {
            TypeKind::Named(id, _) => match &self.new.model.def(*id).kind {
                DefKind::Enum(of) => of.enumerators.iter().any(|one| one.value == 0),
                DefKind::Interface(_) => false,
                _ => def.language == Language::Hidl,
            },
            TypeKind::Binder
            | TypeKind::FileDescriptor
            | TypeKind::BareFileDescriptor
            | TypeKind::Memory
            | TypeKind::Queue { .. } => false,
            // HIDL has no null and no defaults.
            _ => def.language == Language::Hidl,
        }
    }

    fn enumeration(&mut self, new_def: &Def, old: &Enum, new: &Enum) {
        let name = &new_def.name;
        if old.backing != new.backing {
            let message =
                format!("enum `{name}` was a `{}` and is a `{}`", old.backing.aidl(), new.backing.aidl());
            self.changed(new_def.span, message);
        }
        for one in &old.enumerators {
            match new.enumerators.iter().find(|other| other.name == one.name) {
                None => self.changed(new_def.span, format!("value `{name}.{}` was removed", one.name)),
                Some(other) if other.value != one.value => {
                    let message =
                        format!("value `{name}.{}` was {} and is {}", one.name, one.value, other.value);
                    self.changed(new_def.span, message);
                }
                Some(_) => {}
            }
        }
    }
}
