//! What files mean, for people and programs: full names, transaction codes, values.

use std::fmt;

use serde::Serialize;

use crate::ast::Direction;
use crate::load::Compilation;
use crate::model::{Def, DefKind, Field, Model};
use crate::print::type_text;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    pub name: String,
    /// `interface`, `parcelable`, `union`, `enum` or `typedef`.
    pub kind: &'static str,
    /// What an interface's objects answer when they are asked what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<String>,
    /// What an interface of HIDL extends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// The type of an enum's values, or what a typedef stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Constants, and the values of an enum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<DescribedValue>,
    /// Fields, in the order of the parcel; of a union the place is the tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<DescribedField>,
    /// Methods, inherited ones in front.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<DescribedMethod>,
}

/// A constant, or a value of an enum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescribedValue {
    pub name: String,
    /// Its type; empty for a value of an enum.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub ty: String,
    pub value: String,
}

/// A field, a parameter or a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescribedField {
    /// Its name; empty for the result of a method of AIDL.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its type, with full names.
    #[serde(rename = "type")]
    pub ty: String,
    /// `in`, `out` or `inout`, of a parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'static str>,
    /// What it is without being set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescribedMethod {
    pub name: String,
    pub code: u32,
    /// Nobody waits for it.
    pub oneway: bool,
    pub parameters: Vec<DescribedField>,
    pub results: Vec<DescribedField>,
}

/// Describes the definitions of the files that were named.
pub fn describe(compilation: &Compilation) -> Vec<Described> {
    let model = &compilation.model;
    // What nobody wrote needs no description.
    let own = model.iter().filter(|def| compilation.inputs.contains(&def.file) && !model.is_tag(def));
    own.map(|def| described(model, def)).collect()
}

fn described(model: &Model, def: &Def) -> Described {
    let field = |field: &Field| DescribedField {
        name: field.name.clone(),
        ty: type_text(model, def.id, &field.ty),
        direction: None,
        default: field.default.as_ref().map(ToString::to_string),
    };
    let constants = def.constants.iter().map(|one| DescribedValue {
        name: one.name.clone(),
        ty: type_text(model, def.id, &one.ty),
        value: one.value.to_string(),
    });
    let mut described = Described {
        name: def.name.to_string(),
        kind: def.kind.word(),
        descriptor: None,
        extends: None,
        of: None,
        values: constants.collect(),
        fields: Vec::new(),
        methods: Vec::new(),
    };
    match &def.kind {
        DefKind::Interface(interface) => {
            described.descriptor = Some(def.descriptor());
            described.extends = interface.base.map(|base| model.def(base).name.to_string());
            for (code, method) in model.methods(interface) {
                let parameters = method.parameters.iter().map(|one| DescribedField {
                    name: one.name.clone(),
                    ty: type_text(model, def.id, &one.ty),
                    direction: Some(one.direction.word()),
                    default: None,
                });
                described.methods.push(DescribedMethod {
                    name: method.name.clone(),
                    code,
                    oneway: method.oneway,
                    parameters: parameters.collect(),
                    results: method.results.iter().map(field).collect(),
                });
            }
        }
        DefKind::Parcelable(parcelable) => described.fields = parcelable.fields.iter().map(field).collect(),
        DefKind::Union(fields) => described.fields = fields.iter().map(field).collect(),
        DefKind::Enum(of) => {
            described.of = Some(of.backing.aidl().to_owned());
            described.values = of
                .enumerators
                .iter()
                .map(|one| DescribedValue {
                    name: one.name.clone(),
                    ty: String::new(),
                    value: one.value.to_string(),
                })
                .collect();
        }
        DefKind::Opaque { rust_type, .. } => described.of.clone_from(rust_type),
        DefKind::Typedef(ty) => described.of = Some(type_text(model, def.id, ty)),
    }
    described
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        if let Some(of) = &self.of {
            write!(f, ": {of}")?;
        }
        if let Some(base) = &self.extends {
            write!(f, " extends {base}")?;
        }
        for DescribedValue { name, ty, value } in &self.values {
            let ty = if ty.is_empty() { String::new() } else { format!("{ty} ") };
            write!(f, "\n  {ty}{name} = {value}")?;
        }
        for (place, field) in self.fields.iter().enumerate() {
            write!(f, "\n  {place:>3}  {} {}", field.ty, field.name)?;
            if let Some(default) = &field.default {
                write!(f, " = {default}")?;
            }
        }
        for method in &self.methods {
            let results: Vec<&str> = method.results.iter().map(|one| one.ty.as_str()).collect();
            let parameters: Vec<String> = method.parameters.iter().map(ToString::to_string).collect();
            let returns = if results.is_empty() { "void".to_owned() } else { results.join(", ") };
            let oneway = if method.oneway { "oneway " } else { "" };
            write!(
                f,
                "\n  {:>3}  {oneway}{returns} {}({})",
                method.code,
                method.name,
                parameters.join(", ")
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for DescribedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.direction {
            Some(word) if word != Direction::In.word() => write!(f, "{word} {} {}", self.ty, self.name),
            _ => write!(f, "{} {}", self.ty, self.name),
        }
    }
}
