//! `handoff run`, shortened: every group has its floor, whole calls are measured beside it, and both files are
//! there. `handoff doctor` says the same of the machine as the results do.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_quick_run_measures_floors_and_calls_and_writes_both_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["run", "--quick", "--format", "json", "--output"])
        .arg(folder.path())
        .output()
        .expect("handoff runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let groups = result["groups"].as_array().expect("groups");
    assert!(!groups.is_empty(), "{}", result["skipped"]);
    for group in groups {
        let subjects = group["subjects"].as_array().expect("subjects");
        assert!(group["floor"].is_string(), "{} has no floor: {}", group["id"], result["skipped"]);
        let call = subjects.iter().find(|subject| subject["name"] == "call, shm engine");
        let row = &call.unwrap_or_else(|| panic!("no call in {}: {}", group["id"], result["skipped"]))["row"];
        let number = |value: &Value| value.as_f64().expect("a number");
        assert!(number(&row["ratio"]) > 0.0, "{row}");
        assert!(number(&row["ci95"][0]) <= number(&row["ci95"][1]), "{row}");
    }
    let engines: Vec<_> = result["sweeps"].as_array().expect("sweeps").iter().map(|s| &s["engine"]).collect();
    assert!(engines.contains(&&Value::from("shm")), "{engines:?}");
    assert_eq!(result["add_ints"][0]["engine"], "shm", "{}", result["skipped"]);
    assert!(result["before"]["findings"].as_array().is_some_and(|findings| findings.len() > 10));
    let page = std::fs::read_to_string(folder.path().join("handoff-run.html")).expect("the report");
    assert!(page.contains("By payload") && page.contains("call, shm engine"));
    let kept = std::fs::read_to_string(folder.path().join("handoff-run.json")).expect("the results");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(kept["groups"].as_array().map(Vec::len), Some(groups.len()));
}

#[test]
fn results_go_below_one_folder_and_nothing_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().join("here");
    std::fs::create_dir(&here).expect("a folder");
    let results = folder.path().join("results");
    let ab = || {
        let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["lab", "ab", "true", "true > f", "--rounds", "6", "--cgroup", "never"])
            .env("HANDOFF_RESULTS", &results)
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .current_dir(&here)
            .output()
            .expect("handoff runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = ab();
    assert!(said.contains("`true > f` is run without a shell: the command itself gets >;"), "{said}");
    ab();
    for file in ["lab.sqlite", "lab-1.html", "lab-2.html"] {
        assert!(results.join(file).is_file(), "{file} is missing: {said}");
    }
    assert_eq!(std::fs::read_dir(&here).expect("the folder").count(), 0, "something was left behind");
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let lab = |args: &[&str]| {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_handoff"));
        lab.arg("lab").args(args).env("HANDOFF_RESULTS", folder.path()).env("XDG_STATE_HOME", folder.path());
        lab.output().expect("handoff runs")
    };
    let refused = lab(&["aa", "/nowhere/no-such-program", "--cgroup", "never"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("cannot start"), "{said}");
    let kept: Value = serde_json::from_slice(&lab(&["history", "--format", "json"]).stdout).expect("JSON");
    assert_eq!(kept.as_array().map(Vec::len), Some(0), "{kept}");
}
