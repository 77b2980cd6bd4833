//! The action of GitHub (`.github/actions/compare`): its commands, run as GitHub runs them.

use std::path::Path;
use std::process::{Command, Output};

const ACTION: &str = include_str!("../../../../.github/actions/compare/action.yml");

/// Each point of a sweep is a run.
const EXPERIMENT: &str = r#"
title = "a spin"
[workload]
name = "spin"
[sweep]
parameter = "steps"
values = [100000, 50000]
[baseline]
name = "short"
parameters = { items = 1 }
[change]
name = "long"
parameters = { items = 200 }
[metric]
name = "cpu"
[rounds]
rounds = 6
"#;

/// Each step's command.
fn commands() -> Vec<&'static str> {
    ACTION.lines().filter_map(|line| line.trim().strip_prefix("run: ")).collect()
}

fn step(command: &str, fail_on: &str, folder: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_handoff")).parent().expect("a folder").display();
    Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", command])
        .current_dir(folder)
        .env("PATH", format!("{program}:{}", env!("PATH")))
        .env("HANDOFF_CONFIG", "")
        .env("EXPERIMENT", "spin.toml")
        .env("FAIL_ON", fail_on)
        .env("RESULTS", "results of a job")
        .env("GITHUB_STEP_SUMMARY", "summary.md")
        .output()
        .expect("bash runs")
}

#[test]
fn the_action_measures_fails_what_regressed_and_tells_it() {
    let [build, measure, tell, keep] = commands()[..] else { panic!("{:?}", commands()) };
    // The steps use the program that was built here; what builds it there names a folder.
    let (_, path) = build.split_once("--path \"$GITHUB_ACTION_PATH/../../../").expect("cargo install --path");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path.trim_matches('"'));
    assert!(manifest.join("Cargo.toml").is_file(), "{build}");

    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("spin.toml"), EXPERIMENT).expect("written");
    for (fail_on, status) in [("regressed", 1), ("", 0)] {
        let measured = step(measure, fail_on, folder);
        assert_eq!(measured.status.code(), Some(status), "{measured:?}");
    }
    for command in [tell, keep] {
        let told = step(command, "", folder);
        assert!(told.status.success(), "{told:?}");
    }
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a file");
    let (summary, xml) = (read("summary.md"), read("results of a job/lab.xml"));
    for point in ["steps = 100000", "steps = 50000"] {
        // Two commands ran, and each point was a run.
        assert_eq!(summary.matches(&format!("### a spin, {point}: regressed\n")).count(), 2, "{summary}");
        assert_eq!(xml.matches(&format!("<testsuite name=\"a spin, {point}\"")).count(), 2, "{xml}");
    }
    assert_eq!(xml.matches("<failure message=").count(), 4, "{xml}");
}
