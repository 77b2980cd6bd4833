//! The asynchronous side of interfaces: a trait of futures, a proxy that calls without a thread that waits, and a
//! stub whose services are tasks. They stand beside the blocking ones, and share their types and codes.

use std::fmt::Write as _;

use super::Generator;
use super::interface::{Calling, Names, ProxyKind, Served, Setters, code_of, steps};
use super::names::{snake, type_name};
use super::traits::documented;
use crate::model::{Def, DefKind, FIRST_CALL, HASH_ID, Interface, Method, VERSION_ID};

/// The name of the asynchronous kind of a trait.
fn async_trait(interface: &str) -> String {
    format!("{interface}Async")
}

/// `FooAsyncProxy` of `FooProxy`, `FooAsyncStub` of `FooStub`.
pub(super) fn async_name(name: &str, end: &str) -> String {
    format!("{}Async{end}", name.strip_suffix(end).unwrap_or(name))
}

impl Generator<'_> {
    pub(super) fn asynchronous(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let mut code = self.trait_of_futures(def, interface, names);
        code.push_str(&self.async_proxy(def, interface, names));
        code.push_str(&self.async_stub(def, interface, names));
        code
    }

    fn trait_of_futures(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let name = async_trait(&names.interface);
        let (proxy, stub) = (async_name(&names.proxy, "Proxy"), async_name(&names.stub, "Stub"));
        let parent = match interface.base {
            Some(base) => {
                let base_name = async_trait(&type_name(self.model.def(base).name.last()));
                format!("{} + ", self.qualified(def.id, base, &base_name))
            }
            None => String::new(),
        };
        let mut code = format!(
            "/// [`{}`] with futures in place of calls that block.\n///\n\
             /// Implemented by services, as `async fn`, which [`{stub}`] serves, and by [`{proxy}`], which calls them.\n\
             pub trait {name}: {parent}Send + Sync + 'static {{\n",
            names.interface
        );
        for method in &interface.methods {
            let docs = documented(&method.docs, &format!("`{}`", method.name));
            // Writing to a string cannot fail.
            let _ = writeln!(code, "{docs}{};", self.future(def, method));
        }
        let _ = writeln!(code, "}}\nimpl<T: {name}> {name} for ::std::sync::Arc<T> {{");
        for method in &interface.methods {
            let arguments: Vec<String> = method.parameters.iter().map(|one| snake(&one.name)).collect();
            let (name, arguments) = (snake(&method.name), arguments.join(", "));
            let _ = writeln!(code, "{} {{ (**self).{name}({arguments}) }}", self.future(def, method));
        }
        code.push_str("}\n");
        code
    }

    fn future(&self, def: &Def, method: &Method) -> String {
        let (head, returned) = (self.head(def.id, method), self.returned(def.id, method));
        format!(
            "{head} -> impl ::std::future::Future<Output = ::handoff_ipc::Result<{returned}>> + ::std::marker::Send"
        )
    }

    fn async_proxy(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let blocking = &names.proxy;
        let (name, proxy) = (async_trait(&names.interface), async_name(blocking, "Proxy"));
        let transact = self.free(interface, "transact");
        let kind = ProxyKind { interface: &name, proxy: &proxy, asynchronous: true };
        let mut code = self.proxy_head(def, interface, &kind, &transact);
        if self.has_calls(def, interface) {
            let _ = write!(
                code,
                "async fn {transact}<R: ::std::marker::Send + 'static>(&self, code: ::handoff_ipc::Code, \
                 write: impl FnOnce(&mut ::handoff_ipc::parcel::Writer<'_>) -> ::handoff_ipc::Result<()>, \
                 read: impl FnOnce(&mut ::handoff_ipc::parcel::Reader<'_>) -> ::handoff_ipc::Result<R> \
                 + ::std::marker::Send + 'static) -> ::handoff_ipc::Result<R> {{\n\
                 let mut request = ::handoff_ipc::parcel::Parcel::new();\n\
                 request.write(write)?;\n\
                 self.binder.transaction(code).interface(<Self as ::handoff_ipc::Proxy>::INTERFACE)\
                 .deadline(self.deadline).call_async(move |to| request.send(to), read).await }}\n",
            );
        }
        let _ = write!(
            code,
            "}}\nimpl ::handoff_ipc::Proxy for {proxy} {{\n\
             const DESCRIPTOR: &'static str = <{blocking} as ::handoff_ipc::Proxy>::DESCRIPTOR;\n\
             fn wrap(binder: ::handoff_ipc::Binder) -> Self {{ Self {{ binder, deadline: None }} }} }}\n\
             impl From<{blocking}> for {proxy} {{ fn from(proxy: {blocking}) -> Self {{ \
             Self {{ binder: proxy.binder, deadline: proxy.deadline }} }} }}\n\
             impl From<{proxy}> for {blocking} {{ fn from(proxy: {proxy}) -> Self {{ \
             Self {{ binder: proxy.binder, deadline: proxy.deadline }} }} }}\n"
        );
        let calling = Calling { transact: &transact, codes: blocking, asynchronous: true };
        let bases = self.bases(interface).into_iter().map(|base| (base, self.model.def(base)));
        for (id, of) in std::iter::once((def.id, def)).chain(bases) {
            let DefKind::Interface(of_interface) = &of.kind else { continue };
            let path = self.qualified(def.id, id, &async_trait(&type_name(of.name.last())));
            let _ = writeln!(code, "impl {path} for {proxy} {{");
            for method in &of_interface.methods {
                code.push_str(&self.proxy_method(def.id, method, &calling));
            }
            code.push_str("}\n");
        }
        code
    }

    fn async_stub(&self, def: &Def, interface: &Interface, names: &Names) -> String {
        let blocking = &names.proxy;
        let (name, stub) = (async_trait(&names.interface), async_name(&names.stub, "Stub"));
        let proxy = async_name(blocking, "Proxy");
        let mut arms = String::new();
        for (_, method) in self.model.methods(interface) {
            let Served { reads, call, keep, answer } = self.served(def.id, method, false);
            let (reply, answer) = match answer.as_str() {
                "" => ("_", "Ok(())".to_owned()),
                answer => ("reply", steps(answer)),
            };
            let _ = writeln!(
                arms,
                "{blocking}::{} => {{ {reads} Ok(::handoff_ipc::Response::new(async move {{\n\
                 {keep}self.service.{call}.await?;\n\
                 Ok(move |{reply}: &mut ::handoff_ipc::parcel::Writer<'_>| {answer}) }})) }}",
                code_of(method)
            );
        }
        if self.version(def).is_some() {
            let version = FIRST_CALL + VERSION_ID;
            let ready = "::handoff_ipc::Response::ready";
            let _ = writeln!(arms, "{version} => Ok({ready}(|reply| reply.write(&{blocking}::VERSION))),");
            if self.hash(def).is_some() {
                let hash = FIRST_CALL + HASH_ID;
                let _ =
                    writeln!(arms, "{hash} => Ok({ready}(|reply| reply.write_string16({blocking}::HASH))),");
            }
        }
        let data = match arms.contains("data.") {
            true => "let ::handoff_ipc::Request { data, .. } = request;\n",
            false => "",
        };
        let (bases, by_hand) = (self.base_descriptors(interface), self.stub_by_hand());
        let Setters { fields, defaults, setters } = self.stub_setters();
        let descriptor = format!("<{blocking} as ::handoff_ipc::Proxy>::DESCRIPTOR");
        format!(
            "/// Serves a [`{name}`] with tasks: what a client's [`{proxy}`] or [`{blocking}`] calls.\n\
             #[derive(Debug)]\n\
             pub struct {stub}<S> {{ service: S, {fields} }}\n\
             impl<S: {name}> {stub}<S> {{\n\
             /// Of a service, or an `Arc` of one that is used elsewhere too.\n\
             pub fn new(service: S) -> Self {{ Self {{ service, {defaults} }} }}\n\
             {setters}\
             /// The object that is registered or handed to others, served by the runtime that this is called in.\n\
             /// `Binder::new_async_on` with this stub names another.\n\
             ///\n/// # Panics\n/// Outside of a tokio runtime.\n\
             pub fn binder(self) -> ::handoff_ipc::Binder {{ ::handoff_ipc::Binder::new_async(self) }}\n\
             /// A proxy of the object.\n\
             ///\n/// # Panics\n/// Outside of a tokio runtime.\n\
             pub fn proxy(self) -> {proxy} {{ <{proxy} as ::handoff_ipc::Proxy>::wrap(self.binder()) }} }}\n\
             impl<S: {name}> ::handoff_ipc::AsyncService for {stub}<S> {{\n\
             fn descriptor(&self) -> &str {{ {descriptor} }}\n\
             {bases}{by_hand}\
             fn on_transact(self: ::std::sync::Arc<Self>, request: &mut ::handoff_ipc::Request<'_>) \
             -> ::handoff_ipc::Result<::handoff_ipc::Response> {{\n\
             {data}match request.call.code() {{ {arms} _ => Err(request.unknown({descriptor})) }} }} }}\n"
        )
    }
}
