//! `handoff service call NAME METHOD --aidl FILE`: the types are the interface's.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use handoff_aidl::ast::Direction;
use handoff_aidl::model::{Def, DefKind, Interface, Method, Model, Parameter, TypeKind};
use handoff_aidl::{Compilation, type_text};
use handoff_ipc::parcel::Reader;
use handoff_ipc::{Binder, Runtime};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::values::{Data, Types};
use crate::output::counted;

// The files of an interface.
#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Call a method by its name, with the types that this file (.aidl, .hal) or folder states. May be given several
    /// times.
    #[arg(long = "aidl", value_name = "FILE", conflicts_with_all = ["reply", "oneway"])]
    files: Vec<PathBuf>,
    /// Look for imported files below this folder.
    #[arg(short = 'I', long = "include", value_name = "FOLDER", requires = "files")]
    includes: Vec<PathBuf>,
}

impl Files {
    /// The types that the files state; `None` if none was named.
    pub(super) fn compile(&self) -> anyhow::Result<Option<Compilation>> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let options = handoff_aidl::Options { includes: self.includes.clone(), ..Default::default() };
        let found = handoff_aidl::compile(&options, &self.files);
        if found.diagnostics.has_errors() {
            // A pipe takes the colours out.
            crate::output::say(found.report(true).trim_end());
            bail!("the interface cannot be read; `handoff aidl check` says the same");
        }
        Ok(Some(found))
    }
}

/// One method of an interface, for a call.
pub(super) struct Callee<'a> {
    model: &'a Model,
    def: &'a Def,
    method: &'a Method,
    code: u32,
}

impl<'a> Callee<'a> {
    /// The method that a service of the interface `descriptor` has by this name, or number.
    pub(super) fn find(
        model: &'a Model,
        service: &str,
        descriptor: &str,
        method: &str,
    ) -> anyhow::Result<Self> {
        let interfaces = || {
            model.iter().filter_map(|def| match &def.kind {
                DefKind::Interface(interface) => Some((def, interface)),
                _ => None,
            })
        };
        let Some((def, interface)) = interfaces().find(|(def, _)| def.descriptor() == descriptor) else {
            let known: Vec<String> = interfaces().map(|(def, _)| def.descriptor()).collect();
            let known = if known.is_empty() { "no interface".to_owned() } else { known.join(", ") };
            bail!("{service} is a {descriptor:?}, and the files have {known}");
        };
        let methods = model.methods(interface);
        let number = method.parse::<u32>().ok();
        let found = methods.iter().find(|(code, one)| one.name == method || number == Some(*code));
        let Some((code, found)) = found else {
            return Err(no_method(model, def, interface, method));
        };
        Ok(Self { model, def, method: found, code: *code })
    }

    /// Checks the arguments, each by the type of its parameter.
    pub(super) fn arguments(
        &self,
        words: &[String],
        find: &dyn Fn(&str) -> anyhow::Result<Binder>,
    ) -> anyhow::Result<Vec<Data>> {
        let types = Types { model: self.model, scope: self.def.id, find };
        let wanted: Vec<&Parameter> = self.method.parameters.iter().filter(|one| is_typed(one)).collect();
        ensure!(
            wanted.len() == words.len(),
            "{} takes {}, and {} given: {}",
            self.method.name,
            counted(wanted.len(), "argument"),
            if words.len() == 1 { "1 is".to_owned() } else { format!("{} are", words.len()) },
            signature(self.model, self.def, self.method)
        );
        let check = |(parameter, word): (&&Parameter, &String)| {
            types.argument(
                &parameter.ty,
                parameter.direction,
                word,
                &format!("argument `{}`", parameter.name),
            )
        };
        wanted.iter().zip(words).map(check).collect()
    }

    /// Calls, and reads what comes back.
    ///
    /// # Errors
    ///
    /// Those of the call, an exception of the service among them.
    pub(super) fn call(
        &self,
        service: &Binder,
        arguments: &[Data],
        deadline: Duration,
    ) -> handoff_ipc::Result<Option<TypedReply>> {
        let write =
            |to: &mut handoff_ipc::parcel::Writer<'_>| arguments.iter().try_for_each(|one| one.write(to));
        if self.method.oneway {
            return service.transaction(self.code).oneway(write).map(|()| None);
        }
        service.transaction(self.code).deadline(deadline).call(write, |from| self.answer(from)).map(Some)
    }

    fn answer(&self, from: &mut Reader<'_>) -> handoff_ipc::Result<TypedReply> {
        let types = Types {
            model: self.model,
            scope: self.def.id,
            find: &|name| Err(anyhow!("{name} is not looked for in a reply")),
        };
        let (mut result, mut out) = (None, Map::new());
        for found in self.method.results.iter().filter(|one| !one.ty.is_void()) {
            let value = types.read(&found.ty, from)?;
            if found.name.is_empty() || self.method.results.len() == 1 {
                result = Some(value);
            } else {
                out.insert(found.name.clone(), value);
            }
        }
        for parameter in self.method.parameters.iter().filter(|one| one.direction != Direction::In) {
            out.insert(parameter.name.clone(), types.read(&parameter.ty, from)?);
        }
        Ok(TypedReply { result, out })
    }
}

/// Looks a service up for an argument that is one.
pub(super) fn finder(runtime: &Runtime) -> impl Fn(&str) -> anyhow::Result<Binder> {
    move |name| super::get(runtime, name)
}

/// Whether something is typed for a parameter: not for what the service gives, but for the length of its arrays.
fn is_typed(parameter: &Parameter) -> bool {
    parameter.direction != Direction::Out || matches!(parameter.ty.kind, TypeKind::Array(_))
}

fn no_method(model: &Model, def: &Def, interface: &Interface, method: &str) -> anyhow::Error {
    let methods = model.methods(interface);
    let lines: Vec<String> =
        methods.iter().map(|(_, one)| format!("  {}", signature(model, def, one))).collect();
    anyhow!("{} has no method `{method}`; it has\n{}", def.name, lines.join("\n"))
}

/// A method as its file has it.
fn signature(model: &Model, def: &Def, method: &Method) -> String {
    let parameters = method.parameters.iter().map(|one| {
        let direction = match one.direction {
            Direction::In => "",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
        };
        format!("{direction}{} {}", type_text(model, def.id, &one.ty), one.name)
    });
    let results: Vec<String> = method.results.iter().map(|one| type_text(model, def.id, &one.ty)).collect();
    let result = if results.is_empty() { "void".to_owned() } else { results.join(", ") };
    let oneway = if method.oneway { "oneway " } else { "" };
    format!("{oneway}{result} {}({})", method.name, parameters.collect::<Vec<_>>().join(", "))
}

/// What a method returned, and what it wrote into its parameters.
#[derive(Debug, Serialize)]
pub(super) struct TypedReply {
    result: Option<Json>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    out: Map<String, Json>,
}

impl fmt::Display for TypedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.result.iter().map(|value| format!("{value:#}")).collect();
        lines.extend(self.out.iter().map(|(name, value)| format!("{name} = {value:#}")));
        if lines.is_empty() {
            return f.write_str("void");
        }
        f.write_str(&lines.join("\n"))
    }
}
