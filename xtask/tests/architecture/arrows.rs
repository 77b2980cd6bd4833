//! No crate knows one above it.

use std::collections::BTreeMap;
use std::process::Command;

use super::tree::root;

/// Each crate, with those that it may depend on. A crate that is not here may depend on none, and
/// none may depend on it.
const ARROWS: [(&str, &[&str]); 23] = [
    ("handoff-aidl", &[]),
    ("handoff-sync", &[]),
    ("handoff-placement", &[]),
    ("handoff-policy", &["handoff-placement"]),
    ("handoff-ipc", &["handoff-placement", "handoff-sync"]),
    ("handoff-trace", &[]),
    ("handoff-workloads", &["handoff-aidl", "handoff-ipc", "handoff-placement", "handoff-trace"]),
    (
        "handoff-lab",
        &[
            "handoff-guest",
            "handoff-targets",
            "handoff-workloads",
            "handoff-ipc",
            "handoff-placement",
            "handoff-trace",
        ],
    ),
    // Of handoff-ipc it uses the driver's numbers alone.
    ("handoff-conformance", &["handoff-ipc", "handoff-placement"]),
    ("handoff-guest", &[]),
    ("handoff-kernel", &["handoff-guest", "handoff-lab", "handoff-targets", "handoff-workloads"]),
    ("handoff-targets", &["handoff-guest"]),
    ("handoff-campaign", &["handoff-lab", "handoff-targets"]),
    ("handoff-peers", &["handoff-workloads", "handoff-ipc", "handoff-placement"]),
    (
        "handoff-cli",
        &[
            "handoff-aidl",
            "handoff-campaign",
            "handoff-conformance",
            // Its tests call the examples' services.
            "handoff-examples",
            "handoff-lab",
            "handoff-peers",
            "handoff-workloads",
            "handoff-ipc",
            "handoff-trace",
            "handoff-placement",
            "handoff-policy",
            "handoff-guest",
            "handoff-kernel",
            "handoff-targets",
        ],
    ),
    (
        "handoff-benches",
        &[
            // It measures C++ of an interface.
            "handoff-aidl",
            "handoff-guest",
            "handoff-lab",
            "handoff-peers",
            "handoff-workloads",
            "handoff-ipc",
            "handoff-placement",
            "handoff-policy",
        ],
    ),
    ("handoff-c", &["handoff-ipc", "handoff-placement"]),
    // Its tests make C++ of interfaces, and have Python call it.
    (
        "handoff-ndk",
        &[
            "handoff-aidl",
            "handoff-examples",
            "handoff-ipc",
            "handoff-placement",
            "handoff-python",
            "handoff-sync",
        ],
    ),
    // Its tests make Java of the examples' interfaces.
    ("handoff-java", &["handoff-aidl", "handoff-examples", "handoff-ipc", "handoff-placement"]),
    // Its tests make Python of the examples' interfaces.
    ("handoff-python", &["handoff-aidl", "handoff-examples", "handoff-ipc", "handoff-placement"]),
    (
        "handoff-examples",
        &[
            "handoff-aidl",
            "handoff-ipc",
            // Its tests compile what the book shows of these.
            "handoff-guest",
            "handoff-lab",
            "handoff-placement",
            "handoff-targets",
            "handoff-trace",
            "handoff-workloads",
        ],
    ),
    ("handoff-testkit", &[]),
    ("xtask", &[]),
];

/// Tests of every crate may use this one, and nothing else may.
const FOR_TESTS: &str = "handoff-testkit";

#[test]
fn no_crate_knows_one_above_it() {
    let arrows: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    assert!(names.contains(&"handoff-ipc"), "{names:?}");

    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let Some(allowed) = arrows.get(name) else {
            wrong.push(format!("{name} is not in the table of crates in {}", file!()));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            let other = dependency["name"].as_str().expect("a dependency has a name");
            let for_tests = other == FOR_TESTS && dependency["kind"] == "dev";
            if names.contains(&other) && !allowed.contains(&other) && !for_tests {
                wrong.push(format!("{name} may not depend on {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "the crates' arrows run one way:\n{}", wrong.join("\n"));
}

pub(crate) fn metadata() -> serde_json::Value {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}
