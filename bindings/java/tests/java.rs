//! Builds the package with Maven and runs its tests, in Java with JUnit and from Kotlin, in a virtual
//! machine that loads the library of this build.

use handoff_testkit::{built_library, require, require_tool};
use std::fs;
use std::path::Path;
use std::process::Command;

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
    let output = Command::new(maven)
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
    for (class, tests) in [("dev.handoff.ThreadAffinityTest", 6), ("SeedCallersTest", 4)] {
        let report = fs::read_to_string(target.join(format!("surefire-reports/{class}.txt"))).unwrap();
        assert!(
            report.contains(&format!("Tests run: {tests}, Failures: 0, Errors: 0, Skipped: 0")),
            "{report}"
        );
        assert!(!said.contains("WARNING in native method"), "-Xcheck:jni: {said}");
    }
    let version = env!("CARGO_PKG_VERSION");
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
