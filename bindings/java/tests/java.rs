//! Builds the package with Maven and runs its tests, in Java with JUnit and from Kotlin, in a virtual
//! machine that loads the library of this build.

#[path = "../../tests/service.rs"]
mod service;

use handoff_ipc::runtime::{Runtime, SOCKET_VARIABLE};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Error, ExceptionCode};
use handoff_testkit::{built_library, require, require_tool};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
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
        [("dev.handoff.ThreadAffinityTest", 6), ("dev.handoff.ConnectionTest", 10), ("StudyCallersTest", 4)]
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
    let archive = listed(&jar, &target.join(format!("handoff-{version}.aar")));
    for file in
        ["AndroidManifest.xml", "R.txt", "classes.jar", "jni/x86_64/libhandoff_java.so", "proguard.txt"]
    {
        assert!(archive.contains(&file.to_owned()), "{file} is not in {archive:?}");
    }
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
