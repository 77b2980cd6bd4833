//! `--log`: a static function of each class that calls or serves is told of every call, as Android's compiler has it.

use std::fmt::Write as _;

use super::names::text;
use super::types::argument;
use crate::ast::Direction;
use crate::model::{Method, Parameter};

/// What the classes `Bn` and `Bp` have.
pub(super) const MEMBERS: &str = "  struct TransactionLog {
    double duration_ms{};
    std::string interface_name;
    std::string method_name;
    const void* proxy_address{};
    const void* stub_address{};
    std::vector<std::pair<std::string, std::string>> input_args;
    std::vector<std::pair<std::string, std::string>> output_args;
    std::string result;
    std::string exception_message;
    int32_t exception_code{};
    int32_t transaction_error{};
    int32_t service_specific_error_code{};
  };
  static std::function<void(const TransactionLog&)> logFunc;
";

/// One side of a method's calls.
pub(super) struct Logged<'a> {
    /// `BnFoo` or `BpFoo`.
    pub(super) class: &'a str,
    /// The interface's full name.
    pub(super) descriptor: &'a str,
    pub(super) method: &'a Method,
    /// What stands for the object that serves, or the proxy that calls.
    pub(super) server: &'a str,
    pub(super) proxy: &'a str,
    /// Values that go back are behind pointers, as a method has them.
    pub(super) has_pointers: bool,
}

impl Logged<'_> {
    /// In front of the call.
    pub(super) fn begin(&self, pad: &str, code: &mut String) {
        let class = self.class;
        // Writing to a string cannot fail.
        let _ = writeln!(
            code,
            "{pad}{class}::TransactionLog _aidl_log;\n{pad}if ({class}::logFunc != nullptr) {{"
        );
        self.values("input_args", pad, |one| one.direction != Direction::Out, code);
        let _ = writeln!(code, "{pad}}}\n{pad}const auto _aidl_begin = std::chrono::steady_clock::now();");
    }

    /// Behind it, where `_aidl_status` is what it came to.
    pub(super) fn end(&self, pad: &str, code: &mut String) {
        let Logged { class, descriptor, method, server, proxy, .. } = self;
        let _ = write!(
            code,
            "{pad}if ({class}::logFunc != nullptr) {{\n\
             {pad}  const std::chrono::duration<double, std::milli> _aidl_took = std::chrono::steady_clock::now() - _aidl_begin;\n\
             {pad}  _aidl_log.duration_ms = _aidl_took.count();\n\
             {pad}  _aidl_log.interface_name = {};\n\
             {pad}  _aidl_log.method_name = {};\n\
             {pad}  _aidl_log.proxy_address = {proxy};\n\
             {pad}  _aidl_log.stub_address = {server};\n\
             {pad}  _aidl_log.exception_code = AStatus_getExceptionCode(_aidl_status.get());\n\
             {pad}  _aidl_log.exception_message = _aidl_status.getMessage();\n\
             {pad}  _aidl_log.transaction_error = AStatus_getStatus(_aidl_status.get());\n\
             {pad}  _aidl_log.service_specific_error_code = AStatus_getServiceSpecificError(_aidl_status.get());\n",
            text(descriptor),
            text(&method.name),
        );
        self.values("output_args", pad, |one| one.direction != Direction::In, code);
        if !method.results.is_empty() {
            let _ = writeln!(
                code,
                "{pad}  _aidl_log.result = ::android::internal::ToString({}_aidl_return);",
                self.star()
            );
        }
        let _ = writeln!(code, "{pad}  {class}::logFunc(_aidl_log);\n{pad}}}");
    }

    fn values(&self, list: &str, pad: &str, which: impl Fn(&&Parameter) -> bool, code: &mut String) {
        for one in self.method.parameters.iter().filter(which) {
            let name = argument(one);
            let star = if one.direction == Direction::In { "" } else { self.star() };
            let _ = writeln!(
                code,
                "{pad}  _aidl_log.{list}.emplace_back({}, ::android::internal::ToString({star}{name}));",
                text(&name)
            );
        }
    }

    fn star(&self) -> &'static str {
        if self.has_pointers { "*" } else { "" }
    }
}
