//! Builds the wheel with maturin, installs it into an environment of its own, and runs the tests there: pytest
//! for what it does, mypy for what its types say.

#[path = "../../../crates/handoff-aidl/tests/it/common/mod.rs"]
mod corpus;
#[path = "../../../examples/tests/it/everything/mod.rs"]
mod everything;
#[path = "../../../examples/tests/it/holds.rs"]
mod holds;
#[path = "../../tests/service.rs"]
mod service;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use handoff_aidl::PythonOptions;
use handoff_examples::interfaces::sample::everything::{EverythingProxy, EverythingStub};
use handoff_examples::interfaces::vendor::sample::benchmark::{
    BenchmarkProxy, BenchmarkStub, IBenchmark as _, SampleMessage,
};
use handoff_ipc::runtime::{Runtime, SOCKET_VARIABLE};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Error, ExceptionCode, Proxy as _};
use handoff_testkit::{require, require_tool};

/// What the environment has from the package index.
const TOOLS: [&str; 3] = ["maturin>=1.7,<2", "pytest>=8,<10", "mypy>=1.11,<3"];

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// Where cargo builds, from the place of this test.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// An environment with the tools, kept in the target folder; gives its `bin`.
fn environment(python: &Path) -> Result<PathBuf, String> {
    let folder = target().join("python-environment");
    let bin = folder.join("bin");
    let mark = folder.join("complete");
    let tools = TOOLS.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|have| have == tools) {
        return Ok(bin);
    }
    drop(fs::remove_dir_all(&folder));
    let made = Command::new(python).args(["-m", "venv"]).arg(&folder).output().unwrap();
    if !made.status.success() {
        return Err(format!("needs virtual environments (Debian's python3-venv): {}", said(&made).trim()));
    }
    let got = Command::new(bin.join("pip")).args(["install", "--quiet"]).args(TOOLS).output().unwrap();
    if !got.status.success() {
        let said = said(&got);
        let why = said.trim().lines().last().unwrap_or_default();
        return Err(format!("needs maturin, pytest and mypy from the package index: {why}"));
    }
    fs::write(mark, tools).unwrap();
    Ok(bin)
}

/// Makes Python of the examples' interfaces, as version 3 of them: what the examples' Rust is made of.
fn interfaces(site: &Path) {
    let folders = ["../../examples/interfaces/aidl", "../../crates/handoff-workloads/interfaces"]
        .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let compilation = handoff_aidl::compile(&handoff_aidl::Options::default(), &folders);
    let options =
        PythonOptions { version: Some(3), hash: Some(EverythingProxy::HASH.to_owned()), asynchronous: true };
    let module = handoff_aidl::generate_python(&compilation, &options)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render(&compilation.sources, false)));
    fs::write(site.join("interfaces.py"), module).unwrap();
    let holders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/interfaces/holders");
    let compilation = handoff_aidl::compile(&handoff_aidl::Options::default(), &[holders]);
    let module = handoff_aidl::generate_python(&compilation, &PythonOptions::default())
        .unwrap_or_else(|wrong| panic!("{}", wrong.render(&compilation.sources, false)));
    fs::write(site.join("holders.py"), module).unwrap();
}

/// Makes modules of the compiler's own corpus; gives their files.
fn corpus_modules(folder: &Path) -> Vec<PathBuf> {
    let mut modules = Vec::new();
    for (number, (path, _)) in corpus::corpus().iter().enumerate() {
        let compilation = handoff_aidl::compile(&corpus::options(), &[path.into()]);
        // What Python cannot say is an error, which the compiler's own tests look at.
        if let Ok(module) = handoff_aidl::generate_python(
            &compilation,
            &PythonOptions { asynchronous: true, ..Default::default() },
        ) {
            modules.push(folder.join(format!("corpus_{number}.py")));
            fs::write(&modules[modules.len() - 1], module).unwrap();
        }
    }
    assert!(modules.len() * 2 > corpus::corpus().len(), "{} of the corpus", modules.len());
    modules
}

/// Generated interfaces in both directions: Python calls Rust and Python, then Rust calls Python.
fn interfaces_work(tests: &Path, tool: &dyn Fn(&str) -> Command, program: &dyn Fn(&Path) -> Command) {
    let runtime = Runtime::private().unwrap();
    let socket = runtime.socket().unwrap();
    let add = |name: &str, binder| runtime.services().add(name, binder, ServiceOptions::default()).unwrap();
    let sums = Arc::new(everything::Benchmark::default());
    add("rust.everything", EverythingStub::new(everything::Everything).binder());
    add("rust.holds", holds::service());
    add("rust.benchmark", BenchmarkStub::new(Arc::clone(&sums)).binder());
    let said = run(tool("pytest")
        .args(["-q", "-p", "no:cacheprovider"])
        .arg(tests.join("test_interfaces.py"))
        .env(SOCKET_VARIABLE, socket));
    assert!(said.contains("26 passed"), "{said}");
    let said = run(tool("pytest")
        .args(["-q", "-p", "no:cacheprovider"])
        .arg(tests.join("test_holders.py"))
        .env(SOCKET_VARIABLE, socket));
    assert!(said.contains("4 passed"), "{said}");
    assert_eq!(*sums.sums.lock().unwrap(), [3000, 3000]);

    let mut serving = program(&tests.join("everything.py"));
    serving.env(SOCKET_VARIABLE, socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut serving = service::Running(serving.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "there");
    let python = EverythingProxy::from_binder(runtime.services().get("python.everything").unwrap()).unwrap();
    everything::values(&python);
    everything::styled(&python);
    everything::both_ways(&python);
    everything::objects_and_files(&python);
    everything::errors_and_versions(&python);
    let python = BenchmarkProxy::from_binder(runtime.services().get("python.benchmark").unwrap()).unwrap();
    python.write_message(&SampleMessage { size: 1000, data: vec![3; 1000] }).unwrap();
    assert!(matches!(python.write_message(&SampleMessage { size: -5, data: vec![] }),
        Err(Error::Status(status)) if status.service_specific_code() == -5));
}

/// Calls and services in both directions: the tests in Python against Rust, then the example on each side.
fn calls_work(tests: &Path, tool: &dyn Fn(&str) -> Command, example: &dyn Fn(&[&str]) -> Command) {
    let runtime = Runtime::private().unwrap();
    let socket = runtime.socket().unwrap();
    runtime.services().add("test.rust", service::rust_service(), ServiceOptions::default()).unwrap();
    let mortal = service::mortal(&runtime);
    let said = run(tool("pytest")
        .args(["-q", "-p", "no:cacheprovider"])
        .arg(tests.join("test_calls.py"))
        .env(SOCKET_VARIABLE, socket));
    assert!(said.contains("7 passed"), "{said}");
    drop(mortal);

    // A service in Python, called from Rust and from Python.
    let mut serving = example(&["serve"]);
    serving.env(SOCKET_VARIABLE, socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut serving = service::Running(serving.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "sample.greeter is there");
    let greeter = runtime.services().get("sample.greeter").unwrap();
    let hello =
        |name: &str| greeter.transaction(1).call(|w| w.write(&name.to_owned()), |r| r.read::<String>());
    std::thread::scope(|scope| {
        for n in 0..8 {
            let name = format!("number {n}");
            scope.spawn(move || {
                assert!(hello(&name).unwrap().starts_with(&format!("Hello {name} (user ")));
            });
        }
    });
    assert!(matches!(hello("").unwrap_err(),
        Error::Status(status) if status.exception() == ExceptionCode::IllegalArgument));
    assert!(matches!(
        greeter.transaction(9).call(|_| Ok(()), |_| Ok(())),
        Err(Error::UnknownTransaction { .. })
    ));
    let said = run(example(&["greet", "Ada"]).env(SOCKET_VARIABLE, socket));
    assert!(said.contains("Hello Ada (user ") && said.contains("9 greeted so far"), "{said}");
    let refused = example(&["greet", ""]).env(SOCKET_VARIABLE, socket).output().unwrap();
    assert!(!refused.status.success() && self::said(&refused).contains("nobody has an empty name"));
}

#[test]
fn the_wheel_keeps_its_promises() {
    let python = require!(require_tool("python3"));
    let bin = require!(environment(&python));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let wheels = folder.path().join("wheels");
    run(Command::new(bin.join("maturin"))
        .args(["build", "--quiet", "--profile", "dev", "--auditwheel", "skip", "--interpreter"])
        .arg(bin.join("python"))
        .arg("--out")
        .arg(&wheels)
        .arg("--manifest-path")
        .arg(here.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", target()));
    let wheel = fs::read_dir(&wheels).unwrap().next().unwrap().unwrap().path();
    let name = wheel.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(
        name.starts_with("handoff_ipc-") && name.contains("-cp39-abi3-linux"),
        "any Python from 3.9 on: {name}"
    );

    // Beside the tools, not among them: a test must not see what an earlier one installed.
    let site = folder.path().join("site");
    run(Command::new(bin.join("pip"))
        .args(["install", "--quiet", "--no-deps", "--no-index", "--target"])
        .arg(&site)
        .arg(&wheel));
    let tool = |name: &str| {
        let mut command = Command::new(bin.join("python"));
        command
            .args(["-m", name])
            .env("PYTHONPATH", &site)
            .env("MYPYPATH", &site)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(folder.path());
        command
    };
    let tests = here.join("tests");
    let said = run(tool("pytest").args(["-q", "-p", "no:cacheprovider"]).arg(tests.join("test_handoff.py")));
    assert!(said.contains("5 passed"), "{said}");
    let example = |arguments: &[&str]| {
        let mut command = Command::new(bin.join("python"));
        command.arg(here.join("examples/greeter.py")).args(arguments).env("PYTHONPATH", &site);
        command
    };
    calls_work(&tests, &tool, &example);
    interfaces(&site);
    let program = |path: &Path| {
        let mut command = Command::new(bin.join("python"));
        command.arg(path).env("PYTHONPATH", &site);
        command
    };
    interfaces_work(&tests, &tool, &program);
    // The stubs say what the library has, and a program that obeys them passes the strictest check.
    let said = run(tool("mypy.stubtest").arg("handoff"));
    assert!(said.contains("no issues found"), "{said}");
    let modules = corpus_modules(&site);
    let names: Vec<_> = modules.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    run(Command::new(bin.join("python"))
        .args(["-c", &format!("import {}", names.join(", "))])
        .env("PYTHONPATH", &site));
    let strict = [tests.join("typed.py"), here.join("examples/greeter.py"), tests.join("everything.py")];
    let said = run(tool("mypy").args(["--strict", "--cache-dir=/dev/null"]).args(strict).args(modules));
    assert!(said.contains("no issues found"), "{said}");
}
