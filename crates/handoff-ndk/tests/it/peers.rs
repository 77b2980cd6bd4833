//! Services in C++ called by Rust and Python, and theirs by C++: every method, and the death of each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use handoff_aidl::PythonOptions;
use handoff_examples::interfaces::sample::everything::{EverythingProxy, EverythingStub, IEverything as _};
use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Error, Proxy as _, Runtime};
use handoff_testkit::{built_library, require, require_tool};

use crate::built::{From, Server, Workshop};
use crate::{everything, here, shared};

fn serving(workshop: &Workshop) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let generated = everything::generate(folder.path());
    let program = workshop.compile_with("everything_server.cpp", From::Ours, &generated, &[]);
    workshop.serve(&mut workshop.command(&program))
}

#[test]
fn rust_calls_a_service_in_cpp() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let server = serving(&workshop);
    let object = workshop.manager.services().get("cpp.everything").unwrap();
    let proxy = EverythingProxy::from_binder(object.clone()).unwrap();
    shared::values(&proxy);
    shared::both_ways(&proxy);
    shared::objects_and_files(&proxy);
    shared::errors_and_versions(&proxy);
    let (send, died) = std::sync::mpsc::channel();
    let _registration = object.link_to_death(move || send.send(()).unwrap()).unwrap();
    drop(server);
    died.recv_timeout(shared::LONG).unwrap();
    assert!(matches!(proxy.add(1, 2), Err(Error::Dead)));
}

/// Has a program call a service of another process in Rust, until that process goes.
pub(crate) fn call_rust(workshop: &Workshop, program: &mut Command) {
    let peer = Runtime::builder().socket(workshop.manager.socket().unwrap()).connect().unwrap();
    let service = EverythingStub::new(shared::Everything).binder();
    peer.services().add("rust.everything", service, ServiceOptions::default()).unwrap();
    let client = workshop.serve(program.arg("rust.everything"));
    drop(peer);
    client.ends_well();
}

#[test]
fn cpp_calls_a_service_in_rust() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = everything::program(&workshop, &[]);
    call_rust(&workshop, &mut workshop.command(&program));
}

/// A program in Python, with the package and the generated module beside it.
fn python(workshop: &Workshop, site: &Path, program: &Path) -> Command {
    let package = here().join("../../bindings/python/python/handoff");
    fs::create_dir_all(site.join("handoff")).unwrap();
    for file in ["__init__.py", "aidl.py", "bundle.py"] {
        fs::copy(package.join(file), site.join("handoff").join(file)).unwrap();
    }
    let native = site.join("handoff/_native.abi3.so");
    if !native.exists() {
        symlink(built_library("handoff_python", ".so"), native).unwrap();
    }
    let interfaces = ["../../examples/interfaces/aidl", "../../crates/handoff-workloads/interfaces"]
        .map(|folder| here().join(folder));
    let compilation = handoff_aidl::compile(&handoff_aidl::Options::default(), &interfaces);
    let options =
        PythonOptions { version: Some(3), hash: Some(EverythingProxy::HASH.to_owned()), asynchronous: false };
    let module = handoff_aidl::generate_python(&compilation, &options).unwrap();
    fs::write(site.join("interfaces.py"), module).unwrap();
    let mut command = Command::new("python3");
    command
        .arg(program)
        .env("PYTHONPATH", site)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env(SOCKET_VARIABLE, workshop.manager.socket().unwrap())
        // A service ends with its input.
        .stdin(Stdio::piped());
    command
}

#[test]
fn python_calls_a_service_in_cpp() {
    require!(require_tool("python3"));
    let workshop = Workshop::new(require!(require_tool("g++")));
    let site = tempfile::tempdir().unwrap();
    let server = serving(&workshop);
    let client = workshop.serve(&mut python(&workshop, site.path(), &here().join("tests/sample/peer.py")));
    drop(server);
    client.ends_well();
}

#[test]
fn cpp_calls_a_service_in_python() {
    require!(require_tool("python3"));
    let workshop = Workshop::new(require!(require_tool("g++")));
    let site = tempfile::tempdir().unwrap();
    let program = everything::program(&workshop, &[]);
    let serves = here().join("../../bindings/python/tests/everything.py");
    let service = python(&workshop, site.path(), &serves).stdout(Stdio::null()).spawn().unwrap();
    let service = Server(service);
    let client = workshop.serve(workshop.command(&program).arg("python.everything"));
    drop(service);
    client.ends_well();
}
