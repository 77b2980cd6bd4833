//! What bash offers at Tab: it asks the program, which knows the services, the runs and the machines.

use std::path::Path;
use std::process::Command;

use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Runtime};

use crate::services::{Adder, Manager, OPEN};

const PROGRAM: &str = env!("CARGO_BIN_EXE_handoff");

/// The words that bash offers for the last one of `typed`.
fn offered(typed: &str, variables: &[(&str, &Path)]) -> Vec<String> {
    // Options may follow anywhere.
    all_offered(typed, variables).into_iter().filter(|word| !word.starts_with('-')).collect()
}

/// The same, with options.
fn all_offered(typed: &str, variables: &[(&str, &Path)]) -> Vec<String> {
    let script = "eval \"$(handoff completions bash)\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
                  _clap_complete_handoff handoff \"${COMP_WORDS[COMP_CWORD]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path = format!("{}:{}", Path::new(PROGRAM).parent().expect("a folder").display(), env!("PATH"));
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).args(typed.split(' ')).env("PATH", path).env("HANDOFF_CONFIG", "");
    bash.envs(variables.iter().copied());
    let output = bash.output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words = String::from_utf8(output.stdout).expect("text");
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn options_are_offered_with_googles_underscores_once_these_are_typed() {
    let offered = |typed: &str| all_offered(typed, &[]);
    assert_eq!(
        offered("handoff measure throughput --benchmark_out"),
        ["--benchmark_out", "--benchmark_out_format"]
    );
    let dashes = offered("handoff measure throughput --benchmark");
    assert!(dashes.contains(&"--benchmark-filter".to_owned()), "{dashes:?}");
    assert!(!dashes.iter().any(|word| word.contains('_')), "{dashes:?}");
}

#[test]
fn values_are_offered_and_what_is_hidden_is_not() {
    assert_eq!(offered("handoff measure latency --engine ", &[]), ["local", "shm", "binder"]);
    assert_eq!(offered("handoff la", &[]), ["lab"]);
    assert_eq!(offered("handoff exec --cpus li", &[]), ["little"]);
    assert_eq!(offered("handoff cores bi", &[]), ["big"]);
    assert_eq!(offered("handoff pin 1 --policy fi", &[]), ["fifo:1"]);
    assert_eq!(offered("handoff guest run --arch a", &[]), ["arm64"]);
    assert_eq!(offered("handoff measure phases --placement t", &[]), ["two-cpus"]);
    assert!(!offered("handoff ", &[]).contains(&"agent".to_owned()));
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join(".ssh")).expect("made");
    std::fs::write(home.path().join(".ssh/config"), "Host lab-7\n").expect("written");
    let machines = offered("handoff cores --target ", &[("HOME", home.path())]);
    for known in ["local", "guest", "ssh://lab-7"] {
        assert!(machines.contains(&known.to_owned()), "{machines:?}");
    }
}

#[test]
fn services_are_offered_by_their_names() {
    let manager = Manager::start(OPEN);
    let socket = manager.socket();
    let runtime = Runtime::builder().socket(&socket).connect().expect("connected");
    runtime.services().add("test/adder", Binder::new(Adder), ServiceOptions::default()).expect("added");
    assert_eq!(offered("handoff service check test/", &[("HANDOFF_SOCKET", &socket)]), ["test/adder"]);
    // No manager answers: nothing is offered, and nothing is said.
    let nowhere = socket.with_extension("not");
    assert_eq!(offered("handoff service check test/", &[("HANDOFF_SOCKET", &nowhere)]), [""; 0]);
}

#[test]
fn runs_are_offered_by_their_numbers() {
    let results = tempfile::tempdir().expect("a folder");
    let here = [("HANDOFF_RESULTS", results.path())];
    assert_eq!(offered("handoff lab show ", &here), [""; 0]);
    assert!(!results.path().join("lab.sqlite").exists(), "a store was made by looking for one");
    let ran = Command::new(PROGRAM)
        .args(["lab", "aa", "true", "--rounds", "6", "--quiet", "--output"])
        .arg(results.path())
        .output()
        .expect("handoff runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(offered("handoff lab show ", &here), ["1"]);
    assert_eq!(offered("handoff lab rm ", &here), ["1"]);
}
