//! Interfaces: an abstract class, the client's proxy and the base class of services.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::Generator;
use super::names::{self, member, method as method_name};
use crate::ast::Direction;
use crate::model::{Def, DefId, DefKind, Interface, Method, Parameter, Primitive, Type, TypeKind};
use crate::source::Language;

impl Generator<'_> {
    /// An interface behind those that it extends: a class needs its bases.
    pub(super) fn interface_and_bases(&mut self, def: &Def, done: &mut HashSet<DefId>, code: &mut String) {
        let mut chain = vec![def.id];
        while let Some(DefKind::Interface(Interface { base: Some(base), .. })) =
            chain.last().map(|last| &self.model.def(*last).kind)
        {
            if chain.contains(base) {
                break;
            }
            chain.push(*base);
        }
        for id in chain.into_iter().rev() {
            if done.insert(id) {
                let model = self.model;
                let def = model.def(id);
                if let DefKind::Interface(interface) = &def.kind {
                    self.interface(def, interface, code);
                }
            }
        }
    }

    fn interface(&mut self, def: &Def, interface: &Interface, code: &mut String) {
        self.expressible(def);
        let model = self.model;
        let methods = model.methods(interface);
        let names = methods.iter().map(|(_, method)| (method.name.as_str(), method.span));
        crate::clashes::find(&mut self.diagnostics, "Python", names, method_name);
        for (_, method) in &methods {
            let names = method.parameters.iter().map(|one| (argument(one), method.span));
            let names: Vec<_> = names.collect();
            let names = names.iter().map(|(name, span)| (name.as_str(), *span));
            crate::clashes::find(&mut self.diagnostics, "Python", names, str::to_owned);
        }
        let shadowed: Vec<String> = methods.iter().map(|(_, method)| method_name(&method.name)).collect();
        self.abstract_class(def, interface, &shadowed, code);
        self.proxy(def, &methods, &shadowed, false, code);
        if self.options.asynchronous {
            self.proxy(def, &methods, &shadowed, true, code);
        }
        self.stub(def, &methods, code);
        let (name, proxy) = (self.name(def.id), self.with(def, "Proxy"));
        // Writing to a string cannot fail.
        let _ = write!(code, "\n\n_{name}: _aidl.Codec[{name}] = _aidl.interface(lambda: {proxy})\n");
    }

    fn abstract_class(&mut self, def: &Def, interface: &Interface, shadowed: &[String], code: &mut String) {
        let base = interface.base.map_or("_aidl.Interface".to_owned(), |base| self.name(base));
        let _ = write!(code, "\n\nclass {}({base}):\n", self.name(def.id));
        Self::docstring(&def.docs, &format!("`{}`.", def.name), 1, code);
        let _ = writeln!(code, "\n    DESCRIPTOR = {}", names::text(&def.descriptor()));
        if let Some(version) = self.options.version.filter(|_| def.language == Language::Aidl) {
            let _ = writeln!(code, "    VERSION = {version}");
            if let Some(hash) = &self.options.hash {
                let _ = writeln!(code, "    HASH = {}", names::text(hash));
            }
        }
        self.constants(def, code);
        for method in &interface.methods {
            let _ = write!(code, "\n    @_abc.abstractmethod\n{}\n", self.signature(method, shadowed));
            let otherwise = if method.oneway {
                format!("`{}`: returns when the call is queued.", method.name)
            } else {
                format!("`{}`.", method.name)
            };
            Self::docstring(&method.docs, &otherwise, 2, code);
        }
    }

    fn signature(&self, method: &Method, shadowed: &[String]) -> String {
        let mut taken = shadowed.to_vec();
        taken.extend(method.parameters.iter().map(argument));
        let mut signature = format!("    def {}(self", method_name(&method.name));
        for parameter in &method.parameters {
            let annotation = match (parameter.direction, is_array(parameter)) {
                (Direction::Out, false) => continue,
                (Direction::Out, true) => {
                    let int = self.annotation(&length(parameter), &taken);
                    let _ = write!(signature, ", {}: {int}", argument(parameter));
                    continue;
                }
                _ => self.annotation(&parameter.ty, &taken),
            };
            let _ = write!(signature, ", {}: {annotation}", argument(parameter));
        }
        let results: Vec<String> = returned(method).map(|ty| self.annotation(ty, &taken)).collect();
        let result = match results.as_slice() {
            [] => "None".to_owned(),
            [one] => one.clone(),
            several => format!("_builtins.tuple[{}]", several.join(", ")),
        };
        format!("{signature}) -> {result}:")
    }

    fn proxy(
        &self,
        def: &Def,
        methods: &[(u32, &Method)],
        shadowed: &[String],
        asynchronous: bool,
        code: &mut String,
    ) {
        let name = self.name(def.id);
        let (keyword, waits) = if asynchronous { ("async ", "await ") } else { ("", "") };
        // Writing to a string cannot fail.
        let _ = if asynchronous {
            let proxy = self.with(def, "AsyncProxy");
            write!(
                code,
                "\n\nclass {proxy}(_aidl.AsyncProxy):\n    \"\"\"Calls the `{name}` of another object from tasks of \
                 asyncio.\"\"\"\n\n    DESCRIPTOR = {name}.DESCRIPTOR\n"
            )
        } else {
            let proxy = self.with(def, "Proxy");
            write!(
                code,
                "\n\nclass {proxy}(_aidl.Proxy, {name}):\n    \"\"\"Calls the `{name}` of another object.\"\"\"\n"
            )
        };
        for (number, method) in methods {
            let signature = self.signature(method, shadowed);
            let _ = write!(code, "\n    {keyword}{}\n", signature.trim_start());
            let _ = writeln!(code, "        _request = _handoff.Parcel()");
            for parameter in &method.parameters {
                let codec = match (parameter.direction, is_array(parameter)) {
                    (Direction::Out, false) => continue,
                    (Direction::Out, true) => {
                        let name = argument(parameter);
                        let length = match parameter.ty.nullable {
                            true => format!("-1 if {name} is None else {name}"),
                            false => name,
                        };
                        let _ = writeln!(code, "        _aidl.INT.write(_request, {length})");
                        continue;
                    }
                    _ => self.codec(&parameter.ty),
                };
                let _ = writeln!(code, "        {codec}.write(_request, {})", argument(parameter));
            }
            if method.oneway {
                let _ = writeln!(code, "        self._call_oneway({number}, _request)");
                continue;
            }
            let reads: Vec<String> =
                returned(method).map(|ty| format!("{}.read(_reply)", self.codec(ty))).collect();
            let _ = match reads.as_slice() {
                [] => writeln!(code, "        {waits}self._call({number}, _request)"),
                [one] => {
                    writeln!(
                        code,
                        "        _reply = {waits}self._call({number}, _request)\n        return {one}"
                    )
                }
                several => writeln!(
                    code,
                    "        _reply = {waits}self._call({number}, _request)\n        return (\n            {},\n        )",
                    several.join(",\n            ")
                ),
            };
        }
    }

    fn stub(&self, def: &Def, methods: &[(u32, &Method)], code: &mut String) {
        let (name, stub) = (self.name(def.id), self.with(def, "Stub"));
        let _ = write!(code, "\n\nclass {stub}(_aidl.Stub, {name}):\n");
        let _ = writeln!(code, "    \"\"\"Serves an `{name}`: a service extends it.\"\"\"");
        if methods.is_empty() {
            return;
        }
        let _ = writeln!(
            code,
            "\n    _CODES: _typing.ClassVar[_collections.Mapping[_builtins.int, _builtins.str]] = {{"
        );
        for (number, method) in methods {
            let _ = writeln!(code, "        {number}: \"{}\",", method_name(&method.name));
        }
        code.push_str("    }\n");
        for (_, method) in methods {
            let called = method_name(&method.name);
            let _ = write!(
                code,
                "\n    def _serve_{called}(self, _request: _handoff.Parcel, _reply: _handoff.Parcel) -> None:\n"
            );
            let mut arguments = Vec::new();
            for (index, parameter) in method.parameters.iter().enumerate() {
                let read = match (parameter.direction, is_array(parameter)) {
                    (Direction::Out, false) => continue,
                    (Direction::Out, true) if parameter.ty.nullable => "_aidl.length(_request)".to_owned(),
                    (Direction::Out, true) => "_aidl.required_length(_request)".to_owned(),
                    _ => format!("{}.read(_request)", self.codec(&parameter.ty)),
                };
                // Each in a statement: whatever the order of arguments, that in the parcel is this one.
                let _ = writeln!(code, "        _{index} = {read}");
                arguments.push(format!("_{index}"));
            }
            let call = format!("self.{called}({})", arguments.join(", "));
            let codecs: Vec<String> = returned(method).map(|ty| self.codec(ty)).collect();
            let _ = match codecs.as_slice() {
                [] => writeln!(code, "        {call}"),
                [one] => writeln!(code, "        {one}.write(_reply, {call})"),
                several => {
                    let _ = writeln!(code, "        _results = {call}");
                    for (index, codec) in several.iter().enumerate() {
                        let _ = writeln!(code, "        {codec}.write(_reply, _results[{index}])");
                    }
                    Ok(())
                }
            };
        }
    }
}

/// The name of what stands for a parameter in a call.
fn argument(parameter: &Parameter) -> String {
    match (parameter.direction, is_array(parameter)) {
        (Direction::Out, true) => format!("{}_length", member(&parameter.name)),
        _ => member(&parameter.name),
    }
}

/// Whether an array's length goes along to be filled.
fn is_array(parameter: &Parameter) -> bool {
    matches!(parameter.ty.kind, TypeKind::Array(_))
}

fn length(parameter: &Parameter) -> Type {
    Type { nullable: parameter.ty.nullable, ..Type::plain(TypeKind::Primitive(Primitive::I32)) }
}

/// What a call gives: its results, then what comes back through its parameters.
fn returned(method: &Method) -> impl Iterator<Item = &Type> {
    let back = method.parameters.iter().filter(|one| one.direction != Direction::In);
    method.results.iter().map(|one| &one.ty).chain(back.map(|one| &one.ty))
}
