//! Java's archives: resolved by Maven from the repository that is packed, and used without a path to the library.

use std::fs;
use std::process::Command;

use handoff_testkit::{require, require_tool};

use super::built::{Manager, dist, run, source, target};

const PROJECT: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sample</groupId>
  <artifactId>consumer</artifactId>
  <version>1</version>
  <repositories><repository><id>packed</id><url>file://REPOSITORY</url></repository></repositories>
  <dependencies>
    <dependency>
      <groupId>dev.handoff</groupId><artifactId>handoff</artifactId><version>VERSION</version>
    </dependency>
    <dependency>
      <groupId>dev.handoff</groupId><artifactId>handoff</artifactId><version>VERSION</version>
      <classifier>linux-ARCH</classifier><scope>runtime</scope>
    </dependency>
  </dependencies>
</project>
"#;

#[test]
fn maven_finds_the_classes_and_they_find_their_library() {
    let maven = require!(require_tool("mvn"));
    let compiler = require!(require_tool("javac"));
    let files = dist("program,maven");
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new("tar").arg("-xzf").arg(&files[1]).arg("-C").arg(folder.path()));
    let repository = folder.path().join("repository");
    let version = env!("CARGO_PKG_VERSION");
    let artifacts = repository.join("dev/handoff/handoff").join(version);
    for kind in ["sources.jar", "javadoc.jar", &format!("linux-{}.jar", std::env::consts::ARCH)] {
        assert!(artifacts.join(format!("handoff-{version}-{kind}")).is_file(), "{kind} is not there");
    }

    let project = folder.path().join("project");
    fs::create_dir(&project).expect("made");
    let pom = PROJECT
        .replace("REPOSITORY", repository.to_str().expect("text"))
        .replace("VERSION", version)
        .replace("ARCH", std::env::consts::ARCH);
    fs::write(project.join("pom.xml"), pom).expect("written");
    // Of its own, so that nothing is found that an earlier build left; what Maven itself consists of is kept.
    let cache = target().join("maven-consumer");
    drop(fs::remove_dir_all(cache.join("dev/handoff")));
    run(Command::new(maven)
        .args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"])
        .arg(format!("-Dmaven.repo.local={}", cache.display()))
        .current_dir(&project));

    let example = source("bindings/java/examples/Greeter.java");
    run(Command::new(compiler).args(["-cp", "jars/*", "-d", "classes"]).arg(example).current_dir(&project));
    let java = |arguments: &[&str], more: &[&str]| {
        let mut command = Command::new("java");
        // Cargo's search path for libraries would lead to the one that it built.
        command.env_remove("LD_LIBRARY_PATH");
        command.args(more).args(["-cp", "classes:jars/*", "Greeter"]).args(arguments).current_dir(&project);
        command
    };
    let manager = Manager::start(&files[0]);
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("made");
    let temporary = format!("-Djava.io.tmpdir={}", temporary.display());
    manager.greets(&mut java(&["serve"], &[]), &mut java(&["greet", "Ada"], &[&temporary]));
    assert_eq!(
        fs::read_dir(folder.path().join("tmp")).expect("listed").flatten().count(),
        0,
        "a copy was left"
    );

    // Without the library's archive the error says which one to add.
    fs::remove_file(project.join(format!("jars/handoff-{version}-linux-{}.jar", std::env::consts::ARCH)))
        .expect("there");
    let output = java(&["serve"], &[]).output().expect("java runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let advice = format!("with the classifier linux-{}", std::env::consts::ARCH);
    assert!(!output.status.success() && said.contains(&advice), "{said}");
}
