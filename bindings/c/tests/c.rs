//! The header is what the code says, and a C program that includes it is compiled, linked and run.

use handoff_ipc::parcel::Parcel;
use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ExceptionCode, ParcelService, Runtime, Status};
use handoff_testkit::{built_library, require, require_tool};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let source = here().join("src/lib.rs");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(source).generate().unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let header = here().join("include/handoff.h");
    if std::env::var_os("HANDOFF_BLESS").is_some() {
        fs::write(&header, &generated).unwrap();
    }
    let kept = fs::read(&header).unwrap_or_default();
    assert!(kept == generated, "run this test with HANDOFF_BLESS=1 to write {}", header.display());
}

/// A folder as `make install` would leave it: header, libraries, pkg-config file.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("include")).unwrap();
    fs::create_dir_all(at("lib/pkgconfig")).unwrap();
    fs::copy(here().join("include/handoff.h"), at("include/handoff.h")).unwrap();
    fs::copy(built_library("handoff_c", ".so"), at("lib/libhandoff_c.so.0")).unwrap();
    std::os::unix::fs::symlink("libhandoff_c.so.0", at("lib/libhandoff_c.so")).unwrap();
    fs::copy(built_library("handoff_c", ".a"), at("lib/libhandoff_c.a")).unwrap();
    let template = fs::read_to_string(here().join("handoff.pc.in")).unwrap();
    let filled = template
        .replace("@prefix@", folder.path().to_str().unwrap())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    fs::write(at("lib/pkgconfig/handoff.pc"), filled).unwrap();
    folder
}

/// Compiles an example with more arguments; gives the program.
fn compile(compiler: &Path, folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(here().join("examples").join(source))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run_and_check(program: &Path, libraries: &Path) {
    let output = Command::new(program).env("LD_LIBRARY_PATH", libraries).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for line in ["placed on 1, runs on 1", "restored: 1", "did you mean `big`?"] {
        assert!(said.contains(line), "{line} is missing:\n{said}");
    }
}

#[test]
fn a_c_program_links_the_shared_library() {
    let compiler = require!(require_tool("cc"));
    let folder = installed();
    let (include, lib) = (folder.path().join("include"), folder.path().join("lib"));
    let flags = [format!("-I{}", include.display()), format!("-L{}", lib.display())];
    let program =
        compile(&compiler, folder.path(), "shared", "place.c", &[&flags[0], &flags[1], "-lhandoff_c"]);
    run_and_check(&program, &lib);
}

#[test]
fn a_c_program_links_the_static_library_by_pkg_config() {
    let compiler = require!(require_tool("cc"));
    let pkg_config = require!(require_tool("pkg-config"));
    let folder = installed();
    let lib = folder.path().join("lib");
    fs::remove_file(lib.join("libhandoff_c.so")).unwrap();
    let output = Command::new(pkg_config)
        .args(["--cflags", "--libs", "--static", "handoff"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let flags = String::from_utf8(output.stdout).unwrap();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let program = compile(&compiler, folder.path(), "static", "place.c", &flags);
    run_and_check(&program, &lib);
}

/// A child that does not outlive its test; its standard input is open until then.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The calls example, compiled against the shared library, and a manager that its processes find.
struct Greeter {
    folder: tempfile::TempDir,
    program: PathBuf,
    manager: Runtime,
}

impl Greeter {
    fn new(compiler: &Path) -> Self {
        Greeter::of(compiler, "greeter.c")
    }

    /// Another example in the place of the greeter.
    fn of(compiler: &Path, source: &str) -> Self {
        let folder = installed();
        let (include, lib) = (folder.path().join("include"), folder.path().join("lib"));
        let flags = [format!("-I{}", include.display()), format!("-L{}", lib.display())];
        let arguments = [&*flags[0], &flags[1], "-lhandoff_c", "-pthread"];
        let program = compile(compiler, folder.path(), "example", source, &arguments);
        Greeter { folder, program, manager: Runtime::private().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.folder.path().join("lib"))
            .env(SOCKET_VARIABLE, self.manager.socket().unwrap());
        command
    }

    /// Starts a process and waits for its first line.
    fn start(&self, arguments: &[&str], says: &str) -> (Running, BufReader<ChildStdout>) {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let running = Running(child);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), says);
        (running, lines)
    }

    fn greet(&self, name: &str) -> (bool, String) {
        let output = self.command(&["greet", name]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

/// The service of the tutorial, by its bytes.
fn rust_greeter(greeted: Arc<AtomicI32>) -> Binder {
    Binder::new(ParcelService::new("sample.IGreeter", move |call, mut request: Parcel| {
        let mut reply = Parcel::new();
        match call.code() {
            1 => {
                let name: String = request.read(|from| from.read())?;
                if name.is_empty() {
                    return Err(Status::service_specific(7, "nobody has an empty name").into());
                }
                greeted.fetch_add(1, Ordering::Relaxed);
                reply.write(|to| to.write(&format!("Hello {name} from Rust")))?;
            }
            2 => reply.write(|to| to.write(&greeted.load(Ordering::Relaxed)))?,
            _ => return Ok(None),
        }
        Ok(Some(reply))
    }))
}

#[test]
fn a_c_client_calls_a_rust_service() {
    let compiler = require!(require_tool("cc"));
    let greeter = Greeter::new(&compiler);
    let service = rust_greeter(Arc::default());
    greeter.manager.services().add("sample.greeter", service, ServiceOptions::default()).unwrap();
    let (ok, said) = greeter.greet("Ada Łovelace");
    assert!(ok && said == "Hello Ada Łovelace from Rust\n1 greeted so far\n", "{said}");
    let (ok, said) = greeter.greet("");
    assert!(!ok && said.starts_with("kind 3, exception -8: service-specific error 7"), "{said}");
}

#[test]
fn a_c_client_refuses_a_service_of_another_interface() {
    let compiler = require!(require_tool("cc"));
    let greeter = Greeter::new(&compiler);
    let other = Binder::new(ParcelService::new("sample.IOther", |_, _: Parcel| panic!("it was called")));
    greeter.manager.services().add("sample.greeter", other, ServiceOptions::default()).unwrap();
    let (ok, said) = greeter.greet("Ada");
    // 6 is HANDOFF_KIND_WRONG_INTERFACE.
    let both = "kind 6, exception 0: the object has the interface sample.IOther, not sample.IGreeter\n";
    assert_eq!((ok, &*said), (false, both));
}

#[test]
fn a_rust_client_calls_a_c_service() {
    let compiler = require!(require_tool("cc"));
    let greeter = Greeter::new(&compiler);
    let (server, _lines) = greeter.start(&["serve"], "sample.greeter is there");
    let service = greeter.manager.services().get("sample.greeter").unwrap();
    assert_eq!(service.descriptor().unwrap(), "sample.IGreeter");
    let hello =
        |name: &str| service.transaction(1).call(|w| w.write(&name.to_owned()), |r| r.read::<String>());
    let calls: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || hello(&format!("number {n}")))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    for (n, said) in calls.iter().enumerate() {
        assert!(said.starts_with(&format!("Hello number {n} (user ")), "{said}");
    }
    assert_eq!(service.transaction(2).call(|_| Ok(()), |r| r.read::<i32>()).unwrap(), 8);
    let refused = hello("").unwrap_err();
    assert!(
        matches!(&refused, Error::Status(status) if status.exception() == ExceptionCode::IllegalArgument
            && status.message() == Some("nobody has an empty name")),
        "{refused:?}"
    );
    let unknown = service.transaction(9).call(|_| Ok(()), |_| Ok(())).unwrap_err();
    assert!(matches!(unknown, Error::UnknownTransaction { .. }), "{unknown:?}");
    // An argument that is none is an exception, and nothing worse.
    let bad = service.transaction(1).call(|w| w.write(&-5), |_| Ok(())).unwrap_err();
    assert!(
        matches!(&bad, Error::Status(status) if status.exception() == ExceptionCode::BadParcelable),
        "{bad:?}"
    );
    // C calls C, and hears of its death.
    assert!(greeter.greet("Ada").1.starts_with("Hello Ada (user "));
    let (mut watcher, mut lines) = greeter.start(&["watch", "-"], "watching");
    drop(server);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "the service has died\n");
    drop(watcher.0.stdin.take());
    line.clear();
    lines.read_to_string(&mut line).unwrap();
    assert_eq!(line, "alive: 0\n");
}

/// What became of a letter.
fn send(example: &Greeter, arguments: &[&str]) -> (bool, String) {
    let output = example.command(&[&["send"], arguments].concat()).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn objects_and_descriptors_cross_from_c_to_c_and_to_rust() {
    let compiler = require!(require_tool("cc"));
    let postbox = Greeter::of(&compiler, "postbox.c");
    let (server, _lines) = postbox.start(&["serve"], "sample.postbox is there");
    let sent = (true, "they read: hello; the same receipt: 1\n".to_owned());
    assert_eq!(send(&postbox, &["hello"]), sent);
    // The service says why it refused an object of another interface, and both names.
    let (ok, said) = send(&postbox, &["hello", "sample.IOther"]);
    let why = "the service failed: the object has the interface sample.IOther, not sample.IReceipt";
    assert!(!ok && said.starts_with("kind 3: IllegalState exception: ") && said.contains(why), "{said}");

    // The object and the descriptor that a client in Rust gives.
    let (send_news, heard) = std::sync::mpsc::channel();
    let receipt = Binder::new(ParcelService::new("sample.IReceipt", move |call, mut request: Parcel| {
        assert!(call.is_oneway());
        send_news.send(request.read(|from| from.read::<String>())?).unwrap();
        Ok(Some(Parcel::new()))
    }));
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all("from Rust".as_bytes()).unwrap();
    drop(write);
    let service = postbox.manager.services().get("sample.postbox").unwrap();
    let back: Binder = service
        .transaction(1)
        .call(
            |to| {
                to.write(&receipt)?;
                to.write(&OwnedFd::from(read))
            },
            |reply| reply.read(),
        )
        .unwrap();
    assert_eq!(back, receipt);
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)).unwrap(), "from Rust");

    // A second start is refused, and says who has the name.
    let refused = postbox.command(&["serve"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let holder = format!("is taken by process {} of user", server.0.id());
    assert!(!refused.status.success() && said.starts_with("kind 7: ") && said.contains(&holder), "{said}");
}

#[test]
fn a_handler_that_fails_tells_its_caller_why() {
    let compiler = require!(require_tool("cc"));
    let postbox = Greeter::of(&compiler, "postbox.c");
    let (_server, _lines) = postbox.start(&["serve"], "sample.postbox is there");
    let service = postbox.manager.services().get("sample.postbox").unwrap();
    let refused = service.transaction(1).call(|to| to.write(&None::<Binder>), |_| Ok(())).unwrap_err();
    assert!(
        matches!(&refused, Error::Status(status) if status.exception() == ExceptionCode::IllegalState
        && status.message() == Some("the service failed: the object is missing")),
        "{refused:?}"
    );
    service.ping().unwrap();
}

#[test]
fn the_header_is_cpp_too() {
    let compiler = require!(require_tool("c++"));
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"])
        .arg(here().join("include/handoff.h"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
