//! Builds the package with Maven and runs its tests, in Java with JUnit and from Kotlin, in a virtual
//! machine that loads the library of this build.

#[path = "../../../examples/tests/it/everything/mod.rs"]
mod everything;
#[path = "../../../examples/tests/it/holds.rs"]
mod holds;
#[path = "../../tests/service.rs"]
mod service;

use handoff_aidl::ClassOptions;
use handoff_examples::interfaces::sample::everything::{EverythingProxy, EverythingStub};

use handoff_ipc::runtime::{Runtime, SOCKET_VARIABLE};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Error, ExceptionCode};
use handoff_testkit::{built_library, require, require_tool};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn define(name: &str, folder: &Path) -> String {
    format!("-Dhandoff.{name}={}", folder.display())
}

/// The names of the files in an archive.
fn listed(jar: &Path, archive: &Path) -> Vec<String> {
    let output = Command::new(jar).arg("tf").arg(archive).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn java_and_kotlin_are_given_what_they_are_promised() {
    let maven = require!(require_tool("mvn"));
    let jar = require!(require_tool("jar"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    // What cargo-ndk writes for a device is laid out so; that of this machine stands in for it.
    let natives = folder.path().join("natives");
    fs::create_dir_all(natives.join("x86_64")).unwrap();
    fs::copy(built_library("handoff_java", ".so"), natives.join("x86_64/libhandoff_java.so")).unwrap();
    // What its tests call.
    let runtime = Runtime::private().unwrap();
    runtime.services().add("test.rust", service::rust_service(), ServiceOptions::default()).unwrap();
    let _mortal = service::mortal(&runtime);
    let output = Command::new(maven)
        .env(SOCKET_VARIABLE, runtime.socket().unwrap())
        .args(["--batch-mode", "--no-transfer-progress", "--file"])
        .arg(here.join("pom.xml"))
        .arg(define("target", &target))
        .arg(define("natives", &natives))
        .arg(define("library", &natives.join("x86_64")))
        .arg("package")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for (class, tests) in
        [("dev.handoff.ThreadAffinityTest", 6), ("dev.handoff.ConnectionTest", 10), ("StudyCallersTest", 5)]
    {
        let report = fs::read_to_string(target.join(format!("surefire-reports/{class}.txt"))).unwrap();
        assert!(
            report.contains(&format!("Tests run: {tests}, Failures: 0, Errors: 0, Skipped: 0")),
            "{report}"
        );
        assert!(!said.contains("WARNING in native method"), "-Xcheck:jni: {said}");
    }
    let version = env!("CARGO_PKG_VERSION");
    example_works(&runtime, &target.join(format!("handoff-{version}.jar")), &natives.join("x86_64"));
    let classes = listed(&jar, &target.join(format!("handoff-{version}.jar")));
    assert!(classes.contains(&"dev/handoff/ThreadAffinity.class".to_owned()), "{classes:?}");
    assert!(!classes.iter().any(|name| name.contains("kotlin")), "it needs no Kotlin: {classes:?}");
    assert!(classes.contains(&"android/os/Parcel.class".to_owned()), "{classes:?}");
    let archive = listed(&jar, &target.join(format!("handoff-{version}.aar")));
    for file in
        ["AndroidManifest.xml", "R.txt", "classes.jar", "jni/x86_64/libhandoff_java.so", "proguard.txt"]
    {
        assert!(archive.contains(&file.to_owned()), "{file} is not in {archive:?}");
    }
}

/// A program that must succeed; gives what it said.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

/// Compiles a program of `tests/android` with the classes of the package and those that were made of interfaces; gives
/// how to start it.
fn program(name: &str, generated: &Path, runtime: &Runtime) -> impl Fn(&str) -> Command {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let classes = generated.with_extension("classes");
    let mut sources = files(&here.join("java"));
    sources.extend(files(generated));
    sources.push(here.join("tests/android").join(name).with_extension("java"));
    run(Command::new("javac")
        .args(["--release", "11", "-Xlint:all", "-Werror", "-encoding", "UTF-8", "-d"])
        .arg(&classes)
        .args(sources));
    fs::copy(built_library("handoff_java", ".so"), classes.join("libhandoff_java.so")).unwrap();
    let (name, socket) = (name.to_owned(), runtime.socket().unwrap().to_owned());
    move |role| {
        let mut command = Command::new("java");
        let library = format!("-Djava.library.path={}", classes.display());
        command.args(["-Xcheck:jni", "-XX:TieredStopAtLevel=1", &library, "-cp"]).arg(&classes);
        command.arg(&name).arg(role).env(SOCKET_VARIABLE, &socket);
        command
    }
}

/// What Debian's compiler makes of the lamp's interfaces.
fn debian(interfaces: &Path, out: &Path) {
    fs::create_dir(out).unwrap();
    for name in ["ILampCallback", "LampState", "ILamp"] {
        let mut aidl = Command::new("aidl");
        aidl.args(["--lang=java", "--structured", "-I", ".", "-o"]).arg(out);
        run(aidl.arg(format!("sample/hal/{name}.aidl")).current_dir(interfaces));
    }
}

/// What ours makes of every interface below a folder.
fn ours(interfaces: &Path, out: &Path, options: &ClassOptions) {
    let compilation = handoff_aidl::compile(&handoff_aidl::Options::default(), &[interfaces.to_owned()]);
    assert!(!compilation.diagnostics.has_errors(), "{}", compilation.report(false));
    let files = handoff_aidl::generate_java(&compilation, options)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render(&compilation.sources, false)));
    for file in files {
        let path = out.join(file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.text).unwrap();
    }
}

/// A lamp serves Rust, then a client in another virtual machine.
fn lamp_works(runtime: &Runtime, client: &dyn Fn(&str) -> Command, server: &dyn Fn(&str) -> Command) {
    let mut serving = service::Running(server("serve").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    // From Rust: what a Java service answers has no name in front, and no exception.
    let object = runtime.services().get("sample.hal.ILamp/default").unwrap();
    assert_eq!(object.descriptor().unwrap(), "sample.hal.ILamp");
    let call = |code: u32, words: &[i32]| {
        object
            .transaction(code)
            .call(|w| words.iter().try_for_each(|word| w.write(word)), |r| r.read::<i32>())
    };
    assert_eq!(call(1, &[40, 2]).unwrap(), 42);
    let refused = call(4, &[11]).unwrap_err();
    assert!(matches!(refused, Error::Status(status) if status.exception() == ExceptionCode::IllegalArgument));
    // Lengths that nothing stands behind, and objects that are none.
    for words in [&[][..], &[i32::MAX], &[-2], &[1, -5], &[1, 1 << 30, 0, 7]] {
        for code in [2, 3, 6, 7, 8, 9, 10, 12, 13] {
            assert!(!matches!(call(code, words), Err(Error::Dead)), "{code} {words:?}");
        }
    }
    let said = run(&mut client("call"));
    assert!(said.contains("all is well\n"), "{said}");
    assert!(serving.0.wait().unwrap().success());
}

/// The output of Debian's `aidl --lang=java` compiles unchanged against the `android.os` classes, ours does, and both mix.
#[test]
fn java_as_it_is_written_for_android_calls_and_serves() {
    require!(require_tool("javac"));
    require!(require_tool("aidl"));
    let interfaces =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/handoff-ndk/tests/sample/aidl10");
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::private().unwrap();
    let (theirs, own) = (folder.path().join("debian"), folder.path().join("ours"));
    debian(&interfaces, &theirs);
    ours(&interfaces, &own, &ClassOptions::default());
    let (theirs, own) = (program("Lamp", &theirs, &runtime), program("Lamp", &own, &runtime));
    lamp_works(&runtime, &theirs, &theirs);
    lamp_works(&runtime, &own, &theirs);
    lamp_works(&runtime, &theirs, &own);
}

/// Values of every type are the same to Java of our compiler and to Rust of our compiler.
#[test]
fn java_calls_a_service_in_rust_with_values_of_every_type() {
    require!(require_tool("javac"));
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::private().unwrap();
    everything::plain_interfaces(folder.path());
    let options = ClassOptions {
        version: Some(3),
        hash: Some(EverythingProxy::HASH.to_owned()),
        ..ClassOptions::default()
    };
    let generated = folder.path().join("java");
    ours(folder.path(), &generated, &options);
    let service = EverythingStub::new(everything::Everything).binder();
    runtime.services().add("rust.everything", service, ServiceOptions::default()).unwrap();
    let said = run(&mut program("Everything", &generated, &runtime)(""));
    assert!(said.contains("all is well\n"), "{said}");
}

/// Holders and bundles are the same bytes to Java and to Rust.
#[test]
fn java_has_holders_and_bundles() {
    require!(require_tool("javac"));
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::private().unwrap();
    let interfaces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/interfaces/holders");
    let generated = folder.path().join("java");
    ours(&interfaces, &generated, &ClassOptions::default());
    runtime.services().add("holds", holds::service(), ServiceOptions::default()).unwrap();
    let said = run(&mut program("Holds", &generated, &runtime)(""));
    assert!(said.contains("all is well\n"), "{said}");
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The example serves Rust and itself.
fn example_works(runtime: &Runtime, jar: &Path, library: &Path) {
    let greeter = |arguments: &[&str]| {
        let mut command = Command::new("java");
        command
            .arg(format!("-Djava.library.path={}", library.display()))
            .arg("-XX:TieredStopAtLevel=1")
            .arg("-cp")
            .arg(jar)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/Greeter.java"))
            .args(arguments)
            .env(SOCKET_VARIABLE, runtime.socket().unwrap());
        command
    };
    let serving = greeter(&["serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut serving = service::Running(serving);
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "sample.greeter is there");
    let object = runtime.services().get("sample.greeter").unwrap();
    assert_eq!(object.descriptor().unwrap(), "sample.IGreeter");
    let hello =
        |name: &str| object.transaction(1).call(|w| w.write(&name.to_owned()), |r| r.read::<String>());
    std::thread::scope(|scope| {
        for n in 0..8 {
            let name = format!("numéro {n}");
            scope.spawn(move || {
                assert!(hello(&name).unwrap().starts_with(&format!("Hello {name} (user ")));
            });
        }
    });
    assert!(matches!(hello("").unwrap_err(),
        Error::Status(status) if status.exception() == ExceptionCode::IllegalArgument
            && status.message() == Some("nobody has an empty name")));
    let bad = object.transaction(1).call(|w| w.write(&-5), |_| Ok(())).unwrap_err();
    assert!(matches!(bad, Error::Status(status) if status.exception() == ExceptionCode::BadParcelable));
    assert!(matches!(
        object.transaction(9).call(|_| Ok(()), |_| Ok(())),
        Err(Error::UnknownTransaction { .. })
    ));
    let output = greeter(&["greet", "Ada"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Hello Ada (user ") && said.contains("9 greeted so far"), "{said}");
    // Attached threads do not keep the machine from ending.
    drop(serving.0.stdin.take());
    assert!(serving.0.wait().unwrap().success());
}
