//! Interfaces: the class itself, the one that answers where nobody does, what serves it, and what calls it.

use super::types::text;
use super::{Code, Generator};
use crate::ast::Direction;
use crate::model::{Def, HASH_ID, Interface, Method, TypeKind, VERSION_ID};

/// No service makes more room for an `out` array than this many items, whatever its caller says.
const MOST_ITEMS: u32 = 1_000_000;

impl Generator<'_> {
    fn signature(&self, method: &Method) -> String {
        let parameters: Vec<String> =
            method.parameters.iter().map(|one| format!("{} {}", self.ty(&one.ty), one.name)).collect();
        format!(
            "public {} {}({}) throws android.os.RemoteException",
            method.results.first().map_or("void".to_owned(), |result| self.ty(&result.ty)),
            method.name,
            parameters.join(", ")
        )
    }

    /// The functions that every versioned interface has: result, name, number, the constant that they answer.
    fn version_methods(&self) -> Vec<(&'static str, &'static str, u32, &'static str)> {
        let mut methods = Vec::new();
        if self.options.version.is_some() {
            methods.push(("int", "getInterfaceVersion", VERSION_ID, "VERSION"));
        }
        if self.options.hash.is_some() {
            methods.push(("java.lang.String", "getInterfaceHash", HASH_ID, "HASH"));
        }
        methods
    }

    pub(super) fn interface(&self, def: &Def, interface: &Interface, code: &mut Code) {
        let (name, full) = (def.name.last(), self.full(def));
        code.line(format!(
            "{}interface {name} extends android.os.IInterface {{\n\
             public static final java.lang.String DESCRIPTOR = {};",
            Self::modifiers(def),
            text(&def.descriptor())
        ));
        if let Some(version) = self.options.version {
            code.line(format!("public static final int VERSION = {version};"));
        }
        if let Some(hash) = &self.options.hash {
            code.line(format!("public static final java.lang.String HASH = {};", text(hash)));
        }
        self.within(def, code);
        code.line(format!(
            "/** Answers nothing, to every call. */\npublic static class Default implements {full} {{"
        ));
        for method in &interface.methods {
            let answer = match method.results.first().map(|result| self.ty(&result.ty)).as_deref() {
                None => String::new(),
                Some("boolean") => "return false;\n".to_owned(),
                Some("byte" | "char" | "int" | "long" | "float" | "double") => "return 0;\n".to_owned(),
                Some(_) => "return null;\n".to_owned(),
            };
            code.line(format!("@Override\n{} {{\n{answer}}}", self.signature(method)));
        }
        for (result, called, ..) in self.version_methods() {
            let answer = if result == "int" { "0" } else { "\"\"" };
            code.line(format!("@Override\npublic {result} {called}() {{\nreturn {answer};\n}}"));
        }
        code.line("@Override\npublic android.os.IBinder asBinder() {\nreturn null;\n}\n}");
        self.stub(&full, interface, code);
        for method in &interface.methods {
            code.line(format!("{};", self.signature(method)));
        }
        for (result, called, ..) in self.version_methods() {
            code.line(format!("public {result} {called}() throws android.os.RemoteException;"));
        }
        code.line("}");
    }

    fn stub(&self, full: &str, interface: &Interface, code: &mut Code) {
        code.line(format!(
            "/** Serves the interface. */\n\
             public static abstract class Stub extends android.os.Binder implements {full} {{\n\
             public Stub() {{\nthis.attachInterface(this, DESCRIPTOR);\n}}\n\
             /** The object of this process, or what calls that of another. */\n\
             public static {full} asInterface(android.os.IBinder obj) {{\nif (obj == null) {{\nreturn null;\n}}\n\
             android.os.IInterface iin = obj.queryLocalInterface(DESCRIPTOR);\n\
             if (iin instanceof {full}) {{\nreturn ({full}) iin;\n}}\nreturn new {full}.Stub.Proxy(obj);\n}}\n\
             @Override\npublic android.os.IBinder asBinder() {{\nreturn this;\n}}"
        ));
        for (result, called, _, value) in self.version_methods() {
            code.line(format!("@Override\npublic final {result} {called}() {{\nreturn {full}.{value};\n}}"));
        }
        code.line(
            "@Override\npublic boolean onTransact(int code, android.os.Parcel data, android.os.Parcel reply, int flags) throws \
             android.os.RemoteException {\n\
             if (code >= android.os.IBinder.FIRST_CALL_TRANSACTION && code <= android.os.IBinder.LAST_CALL_TRANSACTION) {\n\
             data.enforceInterface(DESCRIPTOR);\n}\nswitch (code) {",
        );
        for method in &interface.methods {
            self.serve(method, code);
        }
        for (result, called, ..) in self.version_methods() {
            let write = if result == "int" { "writeInt" } else { "writeString" };
            code.line(format!(
                "case TRANSACTION_{called}: {{\nreply.writeNoException();\nreply.{write}({called}());\nreturn true;\n}}"
            ));
        }
        code.line("default: {\nreturn super.onTransact(code, data, reply, flags);\n}\n}\n}");
        code.line(format!(
            "/** Calls an object of another process. */\nprivate static class Proxy implements {full} {{\n\
             private final android.os.IBinder mRemote;\n\
             Proxy(android.os.IBinder remote) {{\nmRemote = remote;\n}}\n\
             @Override\npublic android.os.IBinder asBinder() {{\nreturn mRemote;\n}}\n\
             public java.lang.String getInterfaceDescriptor() {{\nreturn DESCRIPTOR;\n}}"
        ));
        for method in &interface.methods {
            self.call(method, code);
        }
        for (result, called, ..) in self.version_methods() {
            let read = if result == "int" { "readInt" } else { "readString" };
            code.line(format!("@Override\npublic {result} {called}() throws android.os.RemoteException {{"));
            begin_call(code, false);
            transact(code, called, false);
            code.line(format!("return _reply.{read}();"));
            end_call(code, false);
        }
        code.line("}");
        for method in &interface.methods {
            code.line(transaction(&method.name, method.id));
        }
        for (_, called, id, _) in self.version_methods() {
            code.line(transaction(called, id));
        }
        code.line("}");
    }

    /// Reads the parameters of a call, makes it, and writes what comes out.
    fn serve(&self, method: &Method, code: &mut Code) {
        code.line(format!("case TRANSACTION_{}: {{", method.name));
        for (at, one) in method.parameters.iter().enumerate() {
            let ty = self.ty(&one.ty);
            if one.direction != Direction::Out {
                code.line(format!("{ty} _arg{at} = {};", self.read(&one.ty, "data")));
            } else if matches!(one.ty.kind, TypeKind::Array(_)) {
                let made = self.empty(&one.ty, &format!("_arg{at}_length"));
                code.line(format!(
                    "int _arg{at}_length = data.readInt();\nif (_arg{at}_length > {MOST_ITEMS}) {{\n\
                     throw new android.os.BadParcelableException(\"room for \" + _arg{at}_length + \" items\");\n}}\n\
                     {ty} _arg{at} = _arg{at}_length < 0 ? null : {made};"
                ));
            } else {
                code.line(format!("{ty} _arg{at} = {};", self.empty(&one.ty, "")));
            }
        }
        let arguments: Vec<String> = (0..method.parameters.len()).map(|at| format!("_arg{at}")).collect();
        let call = format!("this.{}({});", method.name, arguments.join(", "));
        match method.results.first() {
            Some(result) => code.line(format!("{} _result = {call}", self.ty(&result.ty))),
            None => code.line(call),
        }
        let returned = "android.os.Parcelable.PARCELABLE_WRITE_RETURN_VALUE";
        if !method.oneway {
            code.line("reply.writeNoException();");
            if let Some(result) = method.results.first() {
                code.line(self.write(&result.ty, "reply", "_result", returned));
            }
            for (at, one) in method.parameters.iter().enumerate() {
                if one.direction != Direction::In {
                    code.line(self.write(&one.ty, "reply", &format!("_arg{at}"), returned));
                }
            }
        }
        code.line("return true;\n}");
    }

    fn call(&self, method: &Method, code: &mut Code) {
        code.line(format!("@Override\n{} {{", self.signature(method)));
        begin_call(code, method.oneway);
        for one in &method.parameters {
            if one.direction != Direction::Out {
                code.line(self.write(&one.ty, "_data", &one.name, "0"));
            } else if matches!(one.ty.kind, TypeKind::Array(_)) {
                code.line(format!("_data.writeInt({0} == null ? -1 : {0}.length);", one.name));
            }
        }
        transact(code, &method.name, method.oneway);
        if let Some(result) = method.results.first() {
            code.line(format!("{} _result = {};", self.ty(&result.ty), self.read(&result.ty, "_reply")));
        }
        for one in method.parameters.iter().filter(|one| one.direction != Direction::In) {
            code.line(self.read_into(&one.ty, "_reply", &one.name));
        }
        if !method.results.is_empty() {
            code.line("return _result;");
        }
        end_call(code, method.oneway);
    }
}

fn transaction(name: &str, id: u32) -> String {
    format!("static final int TRANSACTION_{name} = android.os.IBinder.FIRST_CALL_TRANSACTION + {id};")
}

fn begin_call(code: &mut Code, oneway: bool) {
    code.line("android.os.Parcel _data = android.os.Parcel.obtain();");
    if !oneway {
        code.line("android.os.Parcel _reply = android.os.Parcel.obtain();");
    }
    code.line("try {\n_data.writeInterfaceToken(DESCRIPTOR);");
}

fn transact(code: &mut Code, name: &str, oneway: bool) {
    let (reply, flags) = if oneway { ("null", "android.os.IBinder.FLAG_ONEWAY") } else { ("_reply", "0") };
    code.line(format!(
        "if (!mRemote.transact(TRANSACTION_{name}, _data, {reply}, {flags})) {{\n\
         throw new android.os.RemoteException({});\n}}",
        text(&format!("the service has no method {name}"))
    ));
    if !oneway {
        code.line("_reply.readException();");
    }
}

fn end_call(code: &mut Code, oneway: bool) {
    code.line("} finally {");
    if !oneway {
        code.line("_reply.recycle();");
    }
    code.line("_data.recycle();\n}\n}");
}
