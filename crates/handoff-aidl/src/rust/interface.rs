//! Interfaces: a trait, the client's proxy and the server's stub.
//!
//! Every call goes through `Binder::transaction` in one place for each kind;
//! `asynchronous.rs` has those that do not block.

use std::fmt::Write as _;

use super::Generator;
use super::names::{snake, stem, type_name};
use super::traits::documented;
use super::types::is_bytes;
use crate::ast::Direction;
use crate::model::{
    Def, DefId, DefKind, FIRST_CALL, HASH_ID, Interface, Method, Parameter, TypeKind, VERSION_ID,
};

/// The names that the code of one interface uses.
pub(super) struct Names {
    pub(super) interface: String,
    pub(super) proxy: String,
    pub(super) stub: String,
}

/// A proxy that blocks, or one of futures.
pub(super) struct ProxyKind<'a> {
    /// The trait that it implements.
    pub(super) interface: &'a str,
    pub(super) proxy: &'a str,
    /// It does not block.
    pub(super) asynchronous: bool,
}

/// How a proxy calls.
pub(super) struct Calling<'a> {
    /// What makes a call.
    pub(super) transact: &'a str,
    /// The type that has the codes.
    pub(super) codes: &'a str,
    /// It does not block.
    pub(super) asynchronous: bool,
}

impl Names {
    fn of(def: &Def) -> Self {
        let stem = stem(def.name.last());
        Names {
            interface: type_name(def.name.last()),
            proxy: format!("{stem}Proxy"),
            stub: format!("{stem}Stub"),
        }
    }
}

impl Generator<'_> {
    pub(super) fn interface(&mut self, def: &Def, interface: &Interface) -> String {
        let methods = self.model.methods(interface);
        self.distinct(methods.iter().map(|(_, method)| (method.name.as_str(), method.span)), snake);
        for (_, method) in &methods {
            self.distinct(method.parameters.iter().map(|one| (one.name.as_str(), method.span)), snake);
        }
        let names = Names::of(def);
        let mut code = self.the_trait(def, interface, &names);
        code.push_str(&self.codes(def, interface, &names));
        code.push_str(&self.proxy(def, interface, &names));
        code.push_str(&self.proxy_constants(def, &names));
        code.push_str(&self.stub(def, interface, &names));
        if self.options.asynchronous {
            code.push_str(&self.asynchronous(def, interface, &names));
        }
        code
    }

    /// A name for what every proxy has, beside which the interface has no method.
    pub(super) fn free(&self, interface: &Interface, name: &str) -> String {
        let methods = self.model.methods(interface);
        let taken = methods.iter().any(|(_, method)| snake(&method.name) == name);
        if taken { format!("proxy_{name}") } else { name.to_owned() }
    }

    /// The definitions that an interface extends, nearest first.
    pub(super) fn bases(&self, interface: &Interface) -> Vec<DefId> {
        let mut bases = Vec::new();
        let mut next = interface.base;
        while let Some(id) = next {
            bases.push(id);
            next = match &self.model.def(id).kind {
                DefKind::Interface(base) => base.base,
                _ => None,
            };
        }
        bases
    }

    fn the_trait(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let Names { interface: name, proxy, stub } = names;
        let docs = documented(&def.docs, &format!("`{}`.", def.name));
        let mut code = format!(
            "{docs}///\n/// Implemented by services, which [`{stub}`] serves, and by [`{proxy}`], which calls them.\n"
        );
        let parent = match interface.base {
            Some(base) => {
                let path = self.qualified(def.id, base, &type_name(self.model.def(base).name.last()));
                format!("{path} + ")
            }
            None => String::new(),
        };
        let _ = writeln!(code, "pub trait {name}: {parent}Send + Sync + 'static {{");
        for method in &interface.methods {
            let mut docs = documented(&method.docs, &format!("`{}`", method.name));
            if method.oneway {
                docs.push_str("///\n/// Oneway: returns when the call is queued.\n");
            }
            let _ = writeln!(code, "{docs}{};", self.signature(def.id, method));
        }
        code.push_str("}\n");
        // A service that is used elsewhere too.
        let _ = writeln!(code, "impl<T: {name} + ?Sized> {name} for ::std::sync::Arc<T> {{");
        for method in &interface.methods {
            let arguments: Vec<String> = method.parameters.iter().map(|one| snake(&one.name)).collect();
            let _ = writeln!(
                code,
                "{} {{ (**self).{}({}) }}",
                self.signature(def.id, method),
                snake(&method.name),
                arguments.join(", ")
            );
        }
        code.push_str("}\n");
        code
    }

    fn signature(&self, scope: DefId, method: &Method) -> String {
        let (head, returned) = (self.head(scope, method), self.returned(scope, method));
        format!("{head} -> ::handoff_ipc::Result<{returned}>")
    }

    /// A method's name and parameters.
    pub(super) fn head(&self, scope: DefId, method: &Method) -> String {
        let mut signature = format!("fn {}(&self", snake(&method.name));
        for parameter in &method.parameters {
            let ty = match parameter.direction {
                Direction::In => self.borrowed(scope, &parameter.ty),
                Direction::Out | Direction::InOut => format!("&mut {}", self.field(scope, &parameter.ty)),
            };
            let _ = write!(signature, ", {}: {ty}", snake(&parameter.name));
        }
        signature.push(')');
        signature
    }

    pub(super) fn returned(&self, scope: DefId, method: &Method) -> String {
        match method.results.as_slice() {
            [] => "()".to_owned(),
            [one] => self.owned(scope, &one.ty),
            several => {
                let types: Vec<String> = several.iter().map(|one| self.owned(scope, &one.ty)).collect();
                format!("({})", types.join(", "))
            }
        }
    }

    fn codes(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let mut code = format!("/// Numbers of the transactions.\nimpl {} {{\n", names.proxy);
        for (number, method) in self.model.methods(interface) {
            let constant = code_of(method);
            let _ = writeln!(code, "const {constant}: ::handoff_ipc::Code = {number};");
        }
        if let Some(version) = self.version(def) {
            let _ = writeln!(
                code,
                "/// The version that this code was made from.\npub const VERSION: i32 = {version};"
            );
        }
        if let Some(hash) = self.hash(def) {
            let _ = writeln!(
                code,
                "/// The hash of the files that this code was made from.\npub const HASH: &'static str = {hash:?};"
            );
        }
        code.push_str("}\n");
        code
    }

    pub(super) fn version(&self, def: &Def) -> Option<u32> {
        self.options.version.filter(|_| def.language == crate::source::Language::Aidl)
    }

    pub(super) fn hash(&self, def: &Def) -> Option<&String> {
        self.options.hash.as_ref().filter(|_| self.version(def).is_some())
    }

    /// Constants of an interface are its proxy's: a trait with constants could not be `dyn`.
    fn proxy_constants(&mut self, def: &Def, names: &Names) -> String {
        self.constants(def, &names.proxy)
    }

    /// What both kinds of proxy begin with: the type, its object, deadlines, and what is asked of every version.
    pub(super) fn proxy_head(
        &self,
        def: &Def,
        interface: &Interface,
        kind: &ProxyKind<'_>,
        transact: &str,
    ) -> String {
        let ProxyKind { interface: name, proxy, asynchronous } = kind;
        let option = self.std("Option");
        let [binder, within] = ["binder", "within"].map(|name| self.free(interface, name));
        let (keyword, wait, needs) = match asynchronous {
            false => ("", "", "."),
            true => ("async ", ".await", ", which takes a runtime with\n/// time enabled."),
        };
        let mut code = format!(
            "/// Calls the [`{name}`] of another object.\n\
             #[derive(Debug, Clone, PartialEq, Eq)]\n\
             pub struct {proxy} {{ binder: ::handoff_ipc::Binder, deadline: {option}<::std::time::Duration> }}\n\
             impl {proxy} {{\n\
             /// The object that is called.\n\
             pub fn {binder}(&self) -> &::handoff_ipc::Binder {{ &self.binder }}\n\
             /// The same object, whose calls fail when they take longer than `deadline`{needs}\n\
             #[must_use]\n\
             pub fn {within}(&self, deadline: ::std::time::Duration) -> Self {{\n\
             Self {{ binder: self.binder.clone(), deadline: Some(deadline) }} }}\n"
        );
        if self.version(def).is_some() {
            let (version, hash) = (FIRST_CALL + VERSION_ID, FIRST_CALL + HASH_ID);
            let string = self.std("String");
            let _ = write!(
                code,
                "/// The version that the service was made from.\n\
                 pub {keyword}fn interface_version(&self) -> ::handoff_ipc::Result<i32> {{\n\
                 self.{transact}({version}, |_| Ok(()), |reply| reply.read()){wait} }}\n\
                 /// The hash of the files that the service was made from.\n\
                 pub {keyword}fn interface_hash(&self) -> ::handoff_ipc::Result<{string}> {{\n\
                 self.{transact}({hash}, |_| Ok(()), |reply| reply.read()){wait} }}\n"
            );
        }
        code
    }

    /// Whether a proxy makes calls that are answered.
    pub(super) fn has_calls(&self, def: &Def, interface: &Interface) -> bool {
        self.version(def).is_some() || self.model.methods(interface).iter().any(|(_, method)| !method.oneway)
    }

    fn proxy(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let Names { interface: name, proxy, .. } = names;
        let descriptor = def.descriptor();
        let option = self.std("Option");
        let transact = self.free(interface, "transact");
        let kind = ProxyKind { interface: name, proxy, asynchronous: false };
        let mut code = self.proxy_head(def, interface, &kind, &transact);
        if self.has_calls(def, interface) {
            let _ = write!(
                code,
                "fn {transact}<R>(&self, code: ::handoff_ipc::Code, \
                 write: impl FnOnce(&mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()>, \
                 read: impl FnOnce(&mut ::handoff_ipc::parcel::Reader<'_>) -> ::handoff_ipc::Result<R>) \
                 -> ::handoff_ipc::Result<R> {{\n\
                 self.binder.transaction(code).interface(<Self as ::handoff_ipc::Proxy>::INTERFACE)\
                 .deadline(self.deadline).call(write, read) }}\n",
            );
        }
        code.push_str("}\n");
        let _ = write!(
            code,
            "impl ::handoff_ipc::Proxy for {proxy} {{\n\
             const DESCRIPTOR: &'static str = {descriptor:?};\n\
             fn wrap(binder: ::handoff_ipc::Binder) -> Self {{ Self {{ binder, deadline: None }} }} }}\n"
        );
        let _ = writeln!(code, "impl {name} for {proxy} {{");
        let calling = Calling { transact: &transact, codes: "Self", asynchronous: false };
        for method in &interface.methods {
            code.push_str(&self.proxy_method(def.id, method, &calling));
        }
        code.push_str("}\n");
        for base in self.bases(interface) {
            code.push_str(&self.proxy_of_base(def, names, base, &calling));
        }
        let _ = write!(
            code,
            "impl ::handoff_ipc::parcel::Parcelable for {proxy} {{\n\
             const LEAST_SIZE: usize = ::handoff_ipc::parcel::FLAT_OBJECT_SIZE;\n\
             fn write_to(&self, to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{\n\
             to.write_binder(Some(&self.binder)) }}\n\
             fn read_from(from: &mut ::handoff_ipc::parcel::Reader<'_>) -> ::handoff_ipc::Result<Self> {{\n\
             from.read().map(<Self as ::handoff_ipc::Proxy>::wrap) }} }}\n\
             impl ::handoff_ipc::parcel::Nullable for {proxy} {{\n\
             fn write_null(to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{\n\
             to.write_binder(None) }}\n\
             fn write_some(&self, to: &mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()> {{\n\
             to.write(self) }}\n\
             fn read_nullable(from: &mut ::handoff_ipc::parcel::Reader<'_>) -> \
             ::handoff_ipc::Result<{option}<Self>> {{\n\
             Ok(from.read_binder()?.map(<Self as ::handoff_ipc::Proxy>::wrap)) }} }}\n"
        );
        code
    }

    /// What a proxy inherits, and how it becomes the proxy of what it extends.
    fn proxy_of_base(&self, def: &Def, names: &Names, base: DefId, calling: &Calling<'_>) -> String {
        let base_def = self.model.def(base);
        let DefKind::Interface(base_interface) = &base_def.kind else { return String::new() };
        let path = self.qualified(def.id, base, &type_name(base_def.name.last()));
        let base_proxy = self.path_to(def.id, base);
        let proxy = &names.proxy;
        let mut code = format!("impl {path} for {proxy} {{\n");
        for method in &base_interface.methods {
            code.push_str(&self.proxy_method(def.id, method, calling));
        }
        let _ = write!(
            code,
            "}}\nimpl From<{proxy}> for {base_proxy} {{\n\
             fn from(proxy: {proxy}) -> Self {{ ::handoff_ipc::Proxy::wrap(proxy.binder) }} }}\n"
        );
        code
    }

    /// A method of a proxy in the module of `seen`.
    pub(super) fn proxy_method(&self, seen: DefId, method: &Method, calling: &Calling<'_>) -> String {
        let Calling { transact, codes, asynchronous } = calling;
        let (marked, awaited) = if *asynchronous { ("async ", ".await") } else { ("", "") };
        let mut writes = String::new();
        let mut coming_back = Vec::new();
        for parameter in &method.parameters {
            let name = snake(&parameter.name);
            match parameter.direction {
                Direction::In => {
                    let _ = writeln!(writes, "{}", self.write_borrowed(&parameter.ty, &name));
                }
                Direction::InOut if !self.model.has_default(&parameter.ty) => {
                    let _ = writeln!(writes, "to.write_required({name}.as_ref(), {:?})?;", parameter.name);
                }
                Direction::InOut => {
                    let _ = writeln!(writes, "to.write(&*{name})?;");
                }
                // The length of an array to be filled goes along.
                Direction::Out => match (&parameter.ty.kind, parameter.ty.nullable) {
                    (TypeKind::Array(_), false) => {
                        let _ = writeln!(writes, "to.write_length(Some({name}.len()))?;");
                    }
                    (TypeKind::Array(_), true) => {
                        let _ =
                            writeln!(writes, "to.write_length({name}.as_ref().map(|items| items.len()))?;");
                    }
                    _ => {}
                },
            }
            if parameter.direction != Direction::In {
                coming_back.push((name, self.model.has_default(&parameter.ty)));
            }
        }
        let write = match writes.is_empty() {
            true => "|_| Ok(())".to_owned(),
            // A parameter may have the name of the parcel.
            false if method.parameters.iter().any(|one| snake(&one.name) == "to") => {
                format!("|parcel| {}", steps(&writes.replace("to.write", "parcel.write")))
            }
            false => format!("|to| {}", steps(&writes)),
        };
        let code = code_of(method);
        let body = if method.oneway {
            format!(
                "self.binder.transaction({codes}::{code})\
                 .interface(<Self as ::handoff_ipc::Proxy>::INTERFACE).oneway({write})"
            )
        } else {
            let results = method.results.len();
            let reads = vec!["reply.read()?"; results + coming_back.len()];
            match (results, coming_back.as_slice()) {
                (0, []) => format!("self.{transact}({codes}::{code}, {write}, |_| Ok(())){awaited}"),
                (1, []) => {
                    format!("self.{transact}({codes}::{code}, {write}, |reply| reply.read()){awaited}")
                }
                (_, []) => {
                    format!(
                        "self.{transact}({codes}::{code}, {write}, |reply| Ok(({}))){awaited}",
                        reads.join(", ")
                    )
                }
                _ => {
                    let mut names: Vec<String> = (0..results).map(|index| format!("result{index}")).collect();
                    let mut assigns = String::new();
                    for (name, has_default) in &coming_back {
                        let new = format!("new_{}", name.trim_start_matches("r#"));
                        let value = if *has_default { new.clone() } else { format!("Some({new})") };
                        let _ = writeln!(assigns, "*{name} = {value};");
                        names.push(new);
                    }
                    let returned = names[..results].join(", ");
                    let returned = if results == 1 { returned } else { format!("({returned})") };
                    let comma = if names.len() == 1 { "" } else { "," };
                    let pattern = if names.len() == 1 {
                        names[0].clone()
                    } else {
                        format!("({}{comma})", names.join(", "))
                    };
                    let read = if reads.len() == 1 {
                        "reply.read()".to_owned()
                    } else {
                        format!("Ok(({}))", reads.join(", "))
                    };
                    format!(
                        "let {pattern} = self.{transact}({codes}::{code}, {write}, |reply| {read}){awaited}?;\n\
                         {assigns} Ok({returned})"
                    )
                }
            }
        };
        format!("{marked}{} {{ {body} }}\n", self.signature(seen, method))
    }

    fn stub(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let Names { interface: name, proxy, stub } = names;
        let methods = self.model.methods(interface);
        let mut arms = String::new();
        for (_, method) in &methods {
            arms.push_str(&self.arm(def.id, method, proxy));
        }
        if self.version(def).is_some() {
            let version = FIRST_CALL + VERSION_ID;
            let _ = writeln!(arms, "{version} => reply.write(&{proxy}::VERSION),");
            if self.hash(def).is_some() {
                let hash = FIRST_CALL + HASH_ID;
                let _ = writeln!(arms, "{hash} => reply.write_string16({proxy}::HASH),");
            }
        }
        let parcels = ["data", "reply"].into_iter().filter(|parcel| arms.contains(&format!("{parcel}.")));
        let parcels: String = parcels.map(|parcel| format!("{parcel}, ")).collect();
        let parcels = match parcels.as_str() {
            "" => String::new(),
            parcels => format!("let ::handoff_ipc::Transaction {{ {parcels}.. }} = transaction;\n"),
        };
        let unknown = format!("Err(transaction.unknown(<{proxy} as ::handoff_ipc::Proxy>::DESCRIPTOR))");
        let body = match arms.as_str() {
            "" => unknown,
            arms => format!("{parcels}match transaction.call.code() {{ {arms} _ => {unknown} }}"),
        };
        let (bases, by_hand) = (self.base_descriptors(interface), self.stub_by_hand());
        let Setters { fields, defaults, setters } = self.stub_setters();
        format!(
            "/// Serves a [`{name}`]: what a client's [`{proxy}`] calls.\n\
             #[derive(Debug)]\n\
             pub struct {stub}<S> {{ service: S, scheduling: ::handoff_ipc::Scheduling, {fields} }}\n\
             impl<S: {name}> {stub}<S> {{\n\
             /// Of a service, or an `Arc` of one that is used elsewhere too.\n\
             pub fn new(service: S) -> Self {{\n\
             Self {{ service, scheduling: ::std::default::Default::default(), {defaults} }} }}\n\
             /// With a way of its own to schedule the threads that serve it.\n\
             #[must_use]\n\
             pub fn with_scheduling(self, scheduling: ::handoff_ipc::Scheduling) -> Self {{\n\
             Self {{ scheduling, ..self }} }}\n\
             {setters}\
             /// The object that is registered or handed to others.\n\
             pub fn binder(self) -> ::handoff_ipc::Binder {{ ::handoff_ipc::Binder::new(self) }}\n\
             /// A proxy of the object, for methods that take one.\n\
             pub fn proxy(self) -> {proxy} {{ <{proxy} as ::handoff_ipc::Proxy>::wrap(self.binder()) }} }}\n\
             impl<S: {name}> ::handoff_ipc::Service for {stub}<S> {{\n\
             fn descriptor(&self) -> &str {{ <{proxy} as ::handoff_ipc::Proxy>::DESCRIPTOR }}\n\
             fn on_transact(&self, transaction: &mut ::handoff_ipc::Transaction<'_>) \
             -> ::handoff_ipc::Result<()> {{ {body} }}\n\
             {bases}\
             fn scheduling(&self) -> ::handoff_ipc::Scheduling {{ self.scheduling }}\n\
             {by_hand} }}\n"
        )
    }

    /// What a stub says of the interfaces that its own extends.
    pub(super) fn base_descriptors(&self, interface: &Interface) -> String {
        let bases = self.bases(interface);
        if bases.is_empty() {
            return String::new();
        }
        let names: Vec<String> =
            bases.into_iter().map(|base| format!("{:?}", self.model.def(base).descriptor())).collect();
        format!("fn base_descriptors(&self) -> &[&str] {{ &[{}] }}\n", names.join(", "))
    }

    /// What a stub is told of its service for people: fields, their first values, and the functions that set them.
    pub(super) fn stub_setters(&self) -> Setters {
        let [option, string] = ["Option", "String"].map(|name| self.std(name));
        let dump = format!("fn(&S, &[{string}]) -> {string}");
        let command = "fn(&S, &mut ::handoff_ipc::ShellCommand) -> i32";
        Setters {
            fields: format!("dump: {option}<{dump}>, shell_command: {option}<{command}>"),
            defaults: "dump: None, shell_command: None",
            setters: format!(
                "/// With a function that tells people of the service's state: what `handoff service dump NAME` shows.\n\
                 #[must_use]\n\
                 pub fn with_dump(self, dump: {dump}) -> Self {{\n\
                 Self {{ dump: Some(dump), ..self }} }}\n\
                 /// With a function that serves commands: what `handoff service shell NAME` gives.\n\
                 #[must_use]\n\
                 pub fn with_shell_command(self, shell_command: {command}) -> Self {{\n\
                 Self {{ shell_command: Some(shell_command), ..self }} }}\n"
            ),
        }
    }

    /// How a stub answers people: with its service's state, and commands.
    pub(super) fn stub_by_hand(&self) -> String {
        let string = self.std("String");
        format!(
            "fn dump(&self, args: &[{string}]) -> {string} {{ match self.dump {{\n\
             Some(dump) => dump(&self.service, args),\n\
             None => ::std::format!(\"{{}} has nothing to dump\\n\", self.descriptor()) }} }}\n\
             fn shell_command(&self, command: &mut ::handoff_ipc::ShellCommand) -> i32 {{ match self.shell_command {{\n\
             Some(serve) => serve(&self.service, command),\n\
             None => command.refuse(self.descriptor()) }} }}\n"
        )
    }

    fn arm(&self, scope: DefId, method: &Method, proxy: &str) -> String {
        let Served { reads, call, keep, answer } = self.served(scope, method, true);
        let code = code_of(method);
        if answer.is_empty() {
            return format!("{proxy}::{code} => {{ {reads} self.service.{call} }}\n");
        }
        let answer = steps(&answer);
        let answer = answer.trim_start_matches('{').trim_end_matches('}');
        format!("{proxy}::{code} => {{ {reads} {keep}self.service.{call}?; {answer} }}\n")
    }

    /// The pieces of serving one method. `lends`: the service is done with its arguments before the request is gone.
    pub(super) fn served(&self, scope: DefId, method: &Method, lends: bool) -> Served {
        let (mut reads, mut arguments, mut replies) = (String::new(), Vec::new(), String::new());
        for parameter in &method.parameters {
            let name = local(&parameter.name);
            let _ = writeln!(reads, "{}", self.read_argument(scope, parameter, &name, lends));
            match parameter.direction {
                Direction::In => arguments.push(self.lend(&parameter.ty, &name)),
                _ => {
                    arguments.push(format!("&mut {name}"));
                    if self.model.has_default(&parameter.ty) {
                        let _ = writeln!(replies, "reply.write(&{name})?;");
                    } else {
                        let _ = writeln!(
                            replies,
                            "reply.write_required({name}.as_ref(), {:?})?;",
                            parameter.name
                        );
                    }
                }
            }
        }
        let call = format!("{}({})", snake(&method.name), arguments.join(", "));
        let results = match method.results.len() {
            0 => String::new(),
            1 => "reply.write(&result)?;".to_owned(),
            several => (0..several).map(|index| format!("reply.write(&result.{index})?;\n")).collect(),
        };
        let keep = if results.is_empty() { "" } else { "let result = " };
        let answer = [results, replies].iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>();
        Served { reads, call, keep, answer: answer.join("\n") }
    }

    fn read_argument(&self, scope: DefId, parameter: &Parameter, name: &str, lends: bool) -> String {
        let ty = &parameter.ty;
        match parameter.direction {
            Direction::In if lends && is_bytes(ty) => format!("let {name} = data.read_byte_slice()?;"),
            Direction::In => format!("let {name}: {} = data.read()?;", self.owned(scope, ty)),
            Direction::InOut if !self.model.has_default(ty) => {
                format!("let mut {name}: {} = Some(data.read()?);", self.field(scope, ty))
            }
            Direction::InOut => format!("let mut {name}: {} = data.read()?;", self.owned(scope, ty)),
            Direction::Out => match &ty.kind {
                TypeKind::Array(item) => {
                    let make = if self.model.has_default(item) || ty.nullable {
                        if ty.nullable { "data.read_nullable_room()?" } else { "data.read_room()?" }
                    } else {
                        // Nothing stands for an item that is not there yet: the service adds them.
                        "{ data.read_i32()?; Vec::new() }"
                    };
                    format!("let mut {name}: {} = {make};", self.owned(scope, ty))
                }
                _ => format!("let mut {name}: {} = {};", self.field(scope, ty), self.default_of(ty)),
            },
        }
    }
}

/// What a stub is told of its service beside the service itself.
pub(super) struct Setters {
    /// Fields of the stub.
    pub(super) fields: String,
    /// What they are at first.
    pub(super) defaults: &'static str,
    /// Functions that set them.
    pub(super) setters: String,
}

/// How a stub serves a method.
pub(super) struct Served {
    /// Statements that read the arguments from `data`.
    pub(super) reads: String,
    /// The call of the service's method.
    pub(super) call: String,
    /// What is put in front of the call to keep its result.
    pub(super) keep: &'static str,
    /// Statements that write into `reply`.
    pub(super) answer: String,
}

/// Statements that end in `?;` as a block that gives what the last of them gives.
pub(super) fn steps(statements: &str) -> String {
    let all: Vec<&str> = statements.lines().filter(|line| !line.is_empty()).collect();
    match all.as_slice() {
        [] => "Ok(())".to_owned(),
        [only] if only.ends_with("?;") => only[..only.len() - 2].to_owned(),
        [before @ .., last] if last.ends_with("?;") => {
            format!("{{ {} {} }}", before.join("\n"), &last[..last.len() - 2])
        }
        _ => format!("{{ {statements} Ok(()) }}"),
    }
}

/// The name of a parameter in a stub, where some names are taken.
fn local(name: &str) -> String {
    let name = snake(name);
    let taken = ["data", "reply", "result"].contains(&name.as_str());
    if taken { format!("{name}_") } else { name }
}

/// The constant of a method's code.
pub(super) fn code_of(method: &Method) -> String {
    let name = heck::ToShoutySnakeCase::to_shouty_snake_case(method.name.as_str());
    format!("CODE_{name}")
}
