//! Interfaces: the class itself, what serves it, what calls it, and the one that answers where nobody does.

use std::fmt::Write as _;

use super::log::{self, Logged};
use super::names::{pad, text};
use super::types::argument;
use super::{Generator, in_namespace};
use crate::ast::Direction;
use crate::model::{Def, HASH_ID, Interface, Method, Parameter, TypeKind, VERSION_ID, stem};

/// The functions that every versioned interface has, as its methods are declared.
const GET_VERSION: &str = "::ndk::ScopedAStatus getInterfaceVersion(int32_t* _aidl_return)";
const GET_HASH: &str = "::ndk::ScopedAStatus getInterfaceHash(std::string* _aidl_return)";

impl Generator<'_> {
    /// The functions about versions that an interface has.
    fn version_methods(&self) -> Vec<(&'static str, &'static str, u32, &'static str)> {
        let mut methods = Vec::new();
        if self.options.version.is_some() {
            methods.push(("getInterfaceVersion", GET_VERSION, VERSION_ID, "version"));
        }
        if self.options.hash.is_some() {
            methods.push(("getInterfaceHash", GET_HASH, HASH_ID, "hash"));
        }
        methods
    }

    /// A method as it is declared, in a class or outside of one.
    fn signature(&self, class: &str, method: &Method) -> String {
        let mut parameters: Vec<String> = method.parameters.iter().map(|one| self.parameter(one)).collect();
        if let Some(result) = method.results.first() {
            parameters.push(format!("{}* _aidl_return", self.ty(&result.ty)));
        }
        format!("::ndk::ScopedAStatus {class}{}({})", method.name, parameters.join(", "))
    }

    pub(super) fn interface(&self, def: &Def, interface: &Interface, depth: usize, code: &mut String) {
        let (around, pad, name) = (pad(depth), pad(depth + 1), def.name.last());
        // Writing to a string cannot fail.
        let _ = writeln!(
            code,
            "{around}class {name} : public ::ndk::ICInterface {{\n{around}public:\n\
             {pad}typedef std::false_type fixed_size;\n{pad}static const char* descriptor;\n\
             {pad}{name}();\n{pad}virtual ~{name}();"
        );
        self.nested(def, depth + 1, code);
        self.constants(def, depth + 1, code);
        if let Some(version) = self.options.version {
            let _ = writeln!(code, "{pad}static const int32_t version = {version};");
        }
        if let Some(hash) = &self.options.hash {
            let _ = writeln!(code, "{pad}static inline const std::string hash = {};", text(hash));
        }
        for method in &interface.methods {
            let _ = writeln!(
                code,
                "{pad}static constexpr uint32_t TRANSACTION_{} = FIRST_CALL_TRANSACTION + {};",
                method.name, method.id
            );
        }
        let _ = writeln!(
            code,
            "\n{pad}static std::shared_ptr<{name}> fromBinder(const ::ndk::SpAIBinder& binder);\n\
             {pad}static binder_status_t writeToParcel(AParcel* parcel, const std::shared_ptr<{name}>& instance);\n\
             {pad}static binder_status_t readFromParcel(const AParcel* parcel, std::shared_ptr<{name}>* instance);\n\
             {pad}static bool setDefaultImpl(const std::shared_ptr<{name}>& impl);\n\
             {pad}static const std::shared_ptr<{name}>& getDefaultImpl();"
        );
        for method in &interface.methods {
            let _ = writeln!(code, "{pad}virtual {} = 0;", self.signature("", method));
        }
        for (_, declared, ..) in self.version_methods() {
            let _ = writeln!(code, "{pad}virtual {declared} = 0;");
        }
        let _ = writeln!(
            code,
            "\n{around}private:\n{pad}static std::shared_ptr<{name}> default_impl;\n{around}}};"
        );
        let _ = writeln!(code, "{around}class {name}Default : public {name} {{\n{around}public:");
        for method in &interface.methods {
            let _ = writeln!(code, "{pad}{} override;", self.signature("", method));
        }
        for (_, declared, ..) in self.version_methods() {
            let _ = writeln!(code, "{pad}{declared} override;");
        }
        let _ = writeln!(
            code,
            "{pad}::ndk::SpAIBinder asBinder() override;\n{pad}bool isRemote() override;\n{around}}};"
        );
    }

    pub(super) fn server_header(&self, def: &Def, interface: &Interface) -> String {
        self.further_header(def, &self.server_classes(def, interface))
    }

    pub(super) fn client_header(&self, def: &Def, interface: &Interface) -> String {
        self.further_header(def, &self.client_class(def, interface))
    }

    /// The classes of an interface that is nested in something: they have no headers of their own.
    pub(super) fn nested_classes(&self, def: &Def, interface: &Interface, depth: usize, code: &mut String) {
        for line in [self.client_class(def, interface), self.server_classes(def, interface)].concat().lines()
        {
            let _ = writeln!(code, "{}{line}", if line.is_empty() { String::new() } else { pad(depth) });
        }
    }

    fn server_classes(&self, def: &Def, interface: &Interface) -> String {
        let (name, class) = (def.name.last(), format!("Bn{}", stem(def.name.last())));
        let mut body = format!(
            "class {class} : public ::ndk::BnCInterface<{name}> {{\npublic:\n  {class}();\n  virtual ~{class}();\n"
        );
        body.push_str(self.log_members());
        for (_, declared, ..) in self.version_methods() {
            let _ = writeln!(body, "  {declared} final override;");
        }
        let _ = write!(
            body,
            "\nprotected:\n  ::ndk::SpAIBinder createBinder() override;\n}};\n\n\
             // Serves what something else implements.\n\
             class {name}Delegator : public {class} {{\npublic:\n  explicit {name}Delegator(const \
             std::shared_ptr<{name}>& impl) : _impl(impl) {{}}\n"
        );
        for method in &interface.methods {
            let mut handed: Vec<String> = method.parameters.iter().map(argument).collect();
            handed.extend(method.results.first().map(|_| "_aidl_return".to_owned()));
            let _ = writeln!(
                body,
                "  {} override {{\n    return _impl->{}({});\n  }}",
                self.signature("", method),
                method.name,
                handed.join(", ")
            );
        }
        let _ = write!(body, "\nprivate:\n  const std::shared_ptr<{name}> _impl;\n}};\n");
        body
    }

    fn client_class(&self, def: &Def, interface: &Interface) -> String {
        let (name, class) = (def.name.last(), format!("Bp{}", stem(def.name.last())));
        let mut body = format!(
            "class {class} : public ::ndk::BpCInterface<{name}> {{\npublic:\n  explicit {class}(const \
             ::ndk::SpAIBinder& binder);\n  virtual ~{class}();\n\n"
        );
        body.push_str(self.log_members());
        for method in &interface.methods {
            let _ = writeln!(body, "  {} override;", self.signature("", method));
        }
        for (_, declared, ..) in self.version_methods() {
            let _ = writeln!(body, "  {declared} override;");
        }
        body.push_str("};\n");
        body
    }

    fn log_members(&self) -> &'static str {
        if self.options.log { log::MEMBERS } else { "" }
    }

    fn further_header(&self, def: &Def, body: &str) -> String {
        format!(
            "#pragma once\n\n#include <{}>\n\n#include <android/binder_ibinder.h>\n\n{}",
            self.include(def, ""),
            in_namespace(def, body)
        )
    }

    pub(super) fn interface_code(&self, def: &Def, interface: &Interface, code: &mut String) {
        let (name, stem, own) = (self.local(def), stem(def.name.last()), def.name.last());
        // Classes of an interface that is nested in something stand beside it, there.
        let around = name.strip_suffix(own).unwrap_or_default();
        let (bn, bp) = (format!("{around}Bn{stem}"), format!("{around}Bp{stem}"));
        let static_name = format!("{}{stem}", around.replace("::", "_"));
        let class = format!("_g_aidl_{static_name}_clazz");
        let descriptor = def.descriptor();
        if self.options.log {
            for class in [&bn, &bp] {
                let function = format!("std::function<void(const {class}::TransactionLog&)>");
                let _ = writeln!(code, "{function} {class}::logFunc;");
            }
        }
        self.server_code(def, interface, &name, &bn, &static_name, code);
        let _ = write!(
            code,
            "static AIBinder_Class* {class} = ::ndk::ICInterface::defineClass({}, _aidl_{static_name}_onTransact);\n\n\
             {bp}::Bp{stem}(const ::ndk::SpAIBinder& binder) : BpCInterface(binder) {{}}\n{bp}::~Bp{stem}() {{}}\n\n",
            text(&descriptor)
        );
        for method in &interface.methods {
            self.client_method(&name, &bp, &descriptor, method, code);
        }
        for (called, declared, id, _) in self.version_methods() {
            let declared = declared.replacen(called, &format!("{bp}::{called}"), 1);
            let call = format!("{name}::getDefaultImpl()->{called}(_aidl_return)");
            let _ = writeln!(code, "{declared} {{");
            begin_call(code);
            transact(code, &name, &format!("FIRST_CALL_TRANSACTION + {id}"), false, &call);
            read_back(code, "::ndk::AParcel_readData", "_aidl_return");
            return_status(code, false);
            code.push_str("}\n\n");
        }
        let _ = write!(
            code,
            "{bn}::Bn{stem}() {{}}\n{bn}::~Bn{stem}() {{}}\n\n\
             ::ndk::SpAIBinder {bn}::createBinder() {{\n\
             \x20 return ::ndk::SpAIBinder(AIBinder_new({class}, static_cast<void*>(static_cast<::ndk::ICInterface*>(this))));\n\
             }}\n\n"
        );
        for (called, declared, _, value) in self.version_methods() {
            let declared = declared.replacen(called, &format!("{bn}::{called}"), 1);
            let _ = write!(
                code,
                "{declared} {{\n  *_aidl_return = {name}::{value};\n  return ::ndk::ScopedAStatus::ok();\n}}\n\n"
            );
        }
        let _ = write!(
            code,
            "const char* {name}::descriptor = {descriptor};\n{name}::{own}() {{}}\n{name}::~{own}() {{}}\n\n\
             std::shared_ptr<{name}> {name}::default_impl = nullptr;\n\n\
             std::shared_ptr<{name}> {name}::fromBinder(const ::ndk::SpAIBinder& binder) {{\n\
             \x20 if (binder.get() == nullptr) return nullptr;\n\
             \x20 if (!AIBinder_associateClass(binder.get(), {class})) {{\n\
             \x20   // Another library of this process has made it, of the same interface: it is called as a stranger.\n\
             \x20   const AIBinder_Class* other = AIBinder_getClass(binder.get());\n\
             \x20   if (other == nullptr || std::string(AIBinder_Class_getDescriptor(other)) != descriptor) return nullptr;\n\
             \x20   return ::ndk::SharedRefBase::make<{bp}>(binder);\n\
             \x20 }}\n\
             \x20 std::shared_ptr<::ndk::ICInterface> own = ::ndk::ICInterface::asInterface(binder.get());\n\
             \x20 if (own != nullptr) return std::static_pointer_cast<{name}>(own);\n\
             \x20 return ::ndk::SharedRefBase::make<{bp}>(binder);\n}}\n\n\
             binder_status_t {name}::writeToParcel(AParcel* parcel, const std::shared_ptr<{name}>& instance) {{\n\
             \x20 return AParcel_writeStrongBinder(parcel, instance ? instance->asBinder().get() : nullptr);\n}}\n\n\
             binder_status_t {name}::readFromParcel(const AParcel* parcel, std::shared_ptr<{name}>* instance) {{\n\
             \x20 ::ndk::SpAIBinder binder;\n\
             \x20 binder_status_t status = AParcel_readStrongBinder(parcel, binder.getR());\n\
             \x20 if (status == STATUS_OK) *instance = fromBinder(binder);\n\
             \x20 return status;\n}}\n\n\
             bool {name}::setDefaultImpl(const std::shared_ptr<{name}>& impl) {{\n\
             \x20 // The first one stays.\n\
             \x20 if (default_impl != nullptr || impl == nullptr) return false;\n\
             \x20 default_impl = impl;\n\
             \x20 return true;\n}}\n\n\
             const std::shared_ptr<{name}>& {name}::getDefaultImpl() {{ return default_impl; }}\n\n",
            descriptor = text(&descriptor),
        );
        let default = format!("{name}Default");
        for method in &interface.methods {
            let mut parameters: Vec<String> =
                method.parameters.iter().map(|one| without_name(&self.parameter(one))).collect();
            if let Some(result) = method.results.first() {
                parameters.push(format!("{}* /*_aidl_return*/", self.ty(&result.ty)));
            }
            let _ = write!(
                code,
                "::ndk::ScopedAStatus {default}::{}({}) {{\n  return \
                 ::ndk::ScopedAStatus::fromStatus(STATUS_UNKNOWN_TRANSACTION);\n}}\n",
                method.name,
                parameters.join(", ")
            );
        }
        for (called, declared, _, value) in self.version_methods() {
            let declared = declared.replacen(called, &format!("{default}::{called}"), 1);
            let nothing = if value == "version" { "0" } else { "\"\"" };
            let _ = write!(
                code,
                "{declared} {{\n  *_aidl_return = {nothing};\n  return ::ndk::ScopedAStatus::ok();\n}}\n"
            );
        }
        let _ = write!(
            code,
            "::ndk::SpAIBinder {default}::asBinder() {{ return ::ndk::SpAIBinder(); }}\n\
             bool {default}::isRemote() {{ return false; }}\n"
        );
    }

    fn server_code(
        &self,
        def: &Def,
        interface: &Interface,
        name: &str,
        bn: &str,
        static_name: &str,
        code: &mut String,
    ) {
        let descriptor = def.descriptor();
        let _ = write!(
            code,
            "static binder_status_t _aidl_{static_name}_onTransact(AIBinder* _aidl_binder, transaction_code_t _aidl_code, const \
             AParcel* _aidl_in, AParcel* _aidl_out) {{\n\
             \x20 (void)_aidl_in;\n  (void)_aidl_out;\n\
             \x20 const std::shared_ptr<::ndk::ICInterface>& _aidl_held = ::ndk::ICInterface::asInterface(_aidl_binder);\n\
             \x20 {bn}* _aidl_impl = static_cast<{bn}*>(_aidl_held.get());\n\
             \x20 if (_aidl_impl == nullptr) return STATUS_UNKNOWN_TRANSACTION;\n\
             \x20 binder_status_t _aidl_ret = STATUS_OK;\n  (void)_aidl_ret;\n  switch (_aidl_code) {{\n"
        );
        for method in &interface.methods {
            let _ = writeln!(code, "    case {name}::TRANSACTION_{}: {{", method.name);
            for parameter in &method.parameters {
                let _ = writeln!(code, "      {} {}{{}};", self.ty(&parameter.ty), argument(parameter));
            }
            if let Some(result) = method.results.first() {
                let _ = writeln!(code, "      {} _aidl_return{{}};", self.ty(&result.ty));
            }
            for parameter in &method.parameters {
                let read = match (parameter.direction, is_array(parameter)) {
                    (Direction::Out, false) => continue,
                    (Direction::Out, true) => "::ndk::AParcel_resizeVector".to_owned(),
                    _ => self.codec(&parameter.ty, "read"),
                };
                let _ = writeln!(
                    code,
                    "      _aidl_ret = {read}(_aidl_in, &{});\n      if (_aidl_ret != STATUS_OK) return _aidl_ret;",
                    argument(parameter)
                );
            }
            let mut arguments: Vec<String> = method
                .parameters
                .iter()
                .map(|one| match one.direction {
                    Direction::In => argument(one),
                    _ => format!("&{}", argument(one)),
                })
                .collect();
            if !method.results.is_empty() {
                arguments.push("&_aidl_return".to_owned());
            }
            let logged = self.options.log.then(|| Logged {
                class: bn,
                descriptor: &descriptor,
                method,
                server: "_aidl_impl",
                proxy: "nullptr",
                has_pointers: false,
            });
            if let Some(logged) = &logged {
                logged.begin("      ", code);
            }
            let _ = writeln!(
                code,
                "      ::ndk::ScopedAStatus _aidl_status = _aidl_impl->{}({});",
                method.name,
                arguments.join(", ")
            );
            if let Some(logged) = &logged {
                logged.end("      ", code);
            }
            if method.oneway {
                // Nobody waits for what came of it.
                code.push_str("      return STATUS_OK;\n    }\n");
                continue;
            }
            code.push_str(
                "      _aidl_ret = AParcel_writeStatusHeader(_aidl_out, _aidl_status.get());\n\
                 \x20     if (_aidl_ret != STATUS_OK || !AStatus_isOk(_aidl_status.get())) return _aidl_ret;\n",
            );
            let back = method.parameters.iter().filter(|one| one.direction != Direction::In);
            let results = method.results.iter().map(|one| (&one.ty, "_aidl_return".to_owned()));
            for (ty, value) in results.chain(back.map(|one| (&one.ty, argument(one)))) {
                let _ = writeln!(
                    code,
                    "      _aidl_ret = {}(_aidl_out, {value});\n      if (_aidl_ret != STATUS_OK) return _aidl_ret;",
                    self.codec(ty, "write")
                );
            }
            code.push_str("      return STATUS_OK;\n    }\n");
        }
        for (called, _, id, value) in self.version_methods() {
            let ty = if value == "version" { "int32_t" } else { "std::string" };
            let _ = write!(
                code,
                "    case FIRST_CALL_TRANSACTION + {id}: {{\n      {ty} _aidl_return{{}};\n\
                 \x20     ::ndk::ScopedAStatus _aidl_status = _aidl_impl->{called}(&_aidl_return);\n\
                 \x20     _aidl_ret = AParcel_writeStatusHeader(_aidl_out, _aidl_status.get());\n\
                 \x20     if (_aidl_ret != STATUS_OK || !AStatus_isOk(_aidl_status.get())) return _aidl_ret;\n\
                 \x20     return ::ndk::AParcel_writeData(_aidl_out, _aidl_return);\n    }}\n"
            );
        }
        code.push_str("  }\n  return STATUS_UNKNOWN_TRANSACTION;\n}\n\n");
    }

    fn client_method(&self, name: &str, bp: &str, descriptor: &str, method: &Method, code: &mut String) {
        let _ = writeln!(code, "{} {{", self.signature(&format!("{bp}::"), method));
        let proxy = "static_cast<const void*>(this)";
        let logged = self.options.log.then_some(Logged {
            class: bp,
            descriptor,
            method,
            server: "nullptr",
            proxy,
            has_pointers: true,
        });
        if let Some(logged) = &logged {
            logged.begin("  ", code);
            // The call returns from several places.
            code.push_str("  ::ndk::ScopedAStatus _aidl_status = [&]() -> ::ndk::ScopedAStatus {\n");
        }
        begin_call(code);
        for parameter in &method.parameters {
            let value = argument(parameter);
            let (write, value) = match (parameter.direction, is_array(parameter)) {
                (Direction::Out, false) => continue,
                (Direction::Out, true) => ("::ndk::AParcel_writeVectorSize".to_owned(), format!("*{value}")),
                (Direction::In, _) => (self.codec(&parameter.ty, "write"), value),
                _ => (self.codec(&parameter.ty, "write"), format!("*{value}")),
            };
            let _ =
                writeln!(code, "  if (_aidl_ret == STATUS_OK) _aidl_ret = {write}(_aidl_in.get(), {value});");
        }
        let mut arguments: Vec<String> = method.parameters.iter().map(argument).collect();
        if !method.results.is_empty() {
            arguments.push("_aidl_return".to_owned());
        }
        let call = format!("{name}::getDefaultImpl()->{}({})", method.name, arguments.join(", "));
        transact(code, name, &format!("{name}::TRANSACTION_{}", method.name), method.oneway, &call);
        if !method.oneway {
            if let Some(result) = method.results.first() {
                read_back(code, &self.codec(&result.ty, "read"), "_aidl_return");
            }
            for parameter in method.parameters.iter().filter(|one| one.direction != Direction::In) {
                read_back(code, &self.codec(&parameter.ty, "read"), &argument(parameter));
            }
        }
        if let Some(logged) = &logged {
            return_status(code, method.oneway);
            code.push_str("  }();\n");
            logged.end("  ", code);
            code.push_str("  return _aidl_status;\n}\n\n");
            return;
        }
        return_status(code, method.oneway);
        code.push_str("}\n\n");
    }
}

/// Whether an array's length goes along to be filled.
fn is_array(parameter: &Parameter) -> bool {
    matches!(parameter.ty.kind, TypeKind::Array(_))
}

/// A parameter that is not used.
fn without_name(parameter: &str) -> String {
    match parameter.rsplit_once(' ') {
        Some((ty, name)) => format!("{ty} /*{name}*/"),
        None => parameter.to_owned(),
    }
}

fn begin_call(code: &mut String) {
    code.push_str(
        "  ::ndk::ScopedAParcel _aidl_in;\n  ::ndk::ScopedAParcel _aidl_out;\n  ::ndk::ScopedAStatus _aidl_status;\n\
         \x20 binder_status_t _aidl_ret = AIBinder_prepareTransaction(asBinderReference().get(), _aidl_in.getR());\n",
    );
}

fn transact(code: &mut String, name: &str, number: &str, oneway: bool, default: &str) {
    let flags = if oneway { "FLAG_ONEWAY" } else { "0" };
    let _ = write!(
        code,
        "  if (_aidl_ret == STATUS_OK) {{\n\
         \x20   _aidl_ret = AIBinder_transact(asBinderReference().get(), {number}, _aidl_in.getR(), _aidl_out.getR(), {flags});\n\
         \x20   if (_aidl_ret == STATUS_UNKNOWN_TRANSACTION && {name}::getDefaultImpl()) return {default};\n  }}\n"
    );
    if !oneway {
        code.push_str(
            "  if (_aidl_ret == STATUS_OK) _aidl_ret = AParcel_readStatusHeader(_aidl_out.get(), _aidl_status.getR());\n\
             \x20 if (_aidl_ret == STATUS_OK && !AStatus_isOk(_aidl_status.get())) return _aidl_status;\n",
        );
    }
}

fn read_back(code: &mut String, read: &str, into: &str) {
    let _ = writeln!(code, "  if (_aidl_ret == STATUS_OK) _aidl_ret = {read}(_aidl_out.get(), {into});");
}

/// What came of the call. Where a reply was read to its end, its header has said that already.
fn return_status(code: &mut String, oneway: bool) {
    let unless_said = if oneway { "" } else { "if (_aidl_ret != STATUS_OK) " };
    let _ = writeln!(
        code,
        "  {unless_said}_aidl_status.set(AStatus_fromStatus(_aidl_ret));\n  return _aidl_status;"
    );
}
