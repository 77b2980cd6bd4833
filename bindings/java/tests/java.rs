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
    assert!(classes.contains(&"android/os/Parcel.class".to_owned()), "{classes:?}");
    let archive = listed(&jar, &target.join(format!("handoff-{version}.aar")));
    for file in
        ["AndroidManifest.xml", "R.txt", "classes.jar", "jni/x86_64/libhandoff_java.so", "proguard.txt"]
    {
        assert!(archive.contains(&file.to_owned()), "{file} is not in {archive:?}");
    }
}

/// What Debian's `aidl --lang=java` makes of the lamp's interfaces compiles unchanged against the `android.os` classes, and
/// calls and serves in two virtual machines.
#[test]
fn java_as_it_is_written_for_android_calls_and_serves() {
    let compiler = require!(require_tool("javac"));
    require!(require_tool("aidl"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interfaces = here.join("../../crates/handoff-ndk/tests/sample/aidl10");
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
        said
    };
    let mut sources = files(&here.join("java"));
    for name in ["ILampCallback", "LampState", "ILamp"] {
        let mut aidl = Command::new("aidl");
        aidl.args(["--lang=java", "--structured", "-I", ".", "-o"]).arg(folder.path());
        run(aidl.arg(format!("sample/hal/{name}.aidl")).current_dir(&interfaces));
        sources.push(folder.path().join("sample/hal").join(name).with_extension("java"));
    }
    let classes = folder.path().join("classes");
    run(Command::new(compiler)
        .args(["--release", "11", "-encoding", "UTF-8", "-d"])
        .arg(&classes)
        .args(sources)
        .arg(here.join("tests/android/Lamp.java")));
    fs::copy(built_library("handoff_java", ".so"), folder.path().join("libhandoff_java.so")).unwrap();
    let runtime = Runtime::private().unwrap();
    let lamp = |role: &str| {
        let mut command = Command::new("java");
        command
            .args(["-Xcheck:jni", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(&classes)
            .arg(format!("-Djava.library.path={}", folder.path().display()))
            .args(["Lamp", role])
            .env(SOCKET_VARIABLE, runtime.socket().unwrap());
        command
    };
    let mut serving = service::Running(lamp("serve").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    // From Rust: what a Java service answers has no name in front, and no exception.
    let object = runtime.services().get("sample.hal.ILamp/default").unwrap();
    assert_eq!(object.descriptor().unwrap(), "sample.hal.ILamp");
    let sum =
        object.transaction(1).call(|w| [40, 2].iter().try_for_each(|one| w.write(one)), |r| r.read::<i32>());
    assert_eq!(sum.unwrap(), 42);
    let refused = object.transaction(4).call(|w| w.write(&11), |_| Ok(())).unwrap_err();
    assert!(matches!(refused, Error::Status(status) if status.exception() == ExceptionCode::IllegalArgument));
    // Lengths that nothing stands behind, and objects that are none.
    for words in [vec![], vec![i32::MAX], vec![-2], vec![1, -5], vec![1, 1 << 30, 0, 7]] {
        for code in [2, 3, 6, 7, 8, 9, 10, 12, 13] {
            let answer = object
                .transaction(code)
                .call(|w| words.iter().try_for_each(|word| w.write(word)), |_| Ok(()));
            assert!(!matches!(answer, Err(Error::Dead)), "{code} {words:?}");
        }
    }
    let said = run(&mut lamp("call"));
    assert!(said.ends_with("all is well\n"), "{said}");
    assert!(serving.0.wait().unwrap().success());
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
