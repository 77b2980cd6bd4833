//! HIDL packages as AIDL, queues and memory included.

use std::path::PathBuf;

use crate::diagnostic::Diagnostics;
use crate::load::{Compilation, Options, compile};
use crate::model::{Def, DefKind, Model, Primitive, Type, TypeKind};
use crate::print::{Printed, Style, print};
use crate::source::Language;

/// AIDL that was made of HIDL.
#[derive(Debug)]
pub struct Converted {
    pub files: Vec<Printed>,
    /// What somebody should look at: what AIDL says in another way.
    pub notes: Vec<String>,
    /// What the compiler says of the result.
    pub compilation: Compilation,
}

/// Writes compiled HIDL as AIDL, and compiles the result.
///
/// # Errors
/// The diagnostics, if the HIDL has errors.
pub fn from_hidl(compilation: &Compilation) -> Result<Converted, Diagnostics> {
    if compilation.diagnostics.has_errors() {
        return Err(compilation.diagnostics.clone());
    }
    let model = &compilation.model;
    let own = || model.iter().filter(|def| def.language == Language::Hidl);
    let files = print(model, own(), Style::Readable);
    let mut notes = Vec::new();
    own().for_each(|def| note(model, def, &mut notes));
    let mut options = Options::default();
    let mut inputs: Vec<PathBuf> = Vec::new();
    for file in &files {
        options.texts.insert(file.path.clone(), file.text.clone());
        inputs.push(file.path.clone());
    }
    Ok(Converted { files, notes, compilation: compile(&options, &inputs) })
}

fn note(model: &Model, def: &Def, notes: &mut Vec<String>) {
    let mut unsigned = false;
    let mut short = false;
    let mut bits = false;
    crate::check::each_type(def, &mut |ty: &Type, _| {
        unsigned |= matches!(ty.kind, TypeKind::Primitive(Primitive::U8 | Primitive::U32 | Primitive::U64));
        short |= matches!(ty.kind, TypeKind::Primitive(Primitive::I16));
        bits |= matches!(ty.kind, TypeKind::Bitfield(_));
    });
    let name = &def.name;
    if unsigned {
        notes.push(format!("{name}: unsigned numbers become signed ones of the same size"));
    }
    if short {
        notes.push(format!("{name}: `int16_t` becomes `int`"));
    }
    if bits {
        notes.push(format!("{name}: a `bitfield` becomes a number"));
    }
    match &def.kind {
        DefKind::Interface(interface) => {
            if let Some(base) = interface.base {
                let base = &model.def(base).name;
                notes.push(format!(
                    "{name}: the methods of {base} stand in front of its own, for AIDL cannot extend"
                ));
            }
            for method in interface.methods.iter().filter(|method| method.results.len() > 1) {
                notes.push(format!(
                    "{name}.{}: its {} results become one parcelable; errors are better a status",
                    method.name,
                    method.results.len()
                ));
            }
        }
        DefKind::Typedef(_) => {
            notes.push(format!("{name}: AIDL has no typedef; what it stands for is written out"))
        }
        _ if def.parent.is_some() => {
            notes.push(format!("{name}: a nested type of HIDL becomes `{}`", name.names.concat()));
        }
        _ => {}
    }
}
