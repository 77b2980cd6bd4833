//! The configuration file, as a person uses it.

use std::process::{Command, Output};

struct Home(tempfile::TempDir);

impl Home {
    fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("handoff")).expect("made");
        std::fs::write(folder.path().join("handoff/config.toml"), config).expect("written");
        Self(folder)
    }

    fn handoff(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(arguments)
            .env_remove("HANDOFF_CONFIG")
            .env_remove("HANDOFF_RESULTS")
            .env_remove("NO_COLOR")
            .env("XDG_CONFIG_HOME", self.0.path())
            .envs(variables.iter().copied())
            .output()
            .expect("it runs")
    }

    /// A default by its key: its value, and where it comes from.
    fn default(&self, key: &str, variables: &[(&str, &str)]) -> (String, String) {
        let output = self.handoff(&["config", "--format", "json"], variables);
        assert!(output.status.success(), "{output:?}");
        let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = page["defaults"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["key"] == key).expect("a key");
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        (text("value"), text("from"))
    }
}

#[test]
fn the_file_gives_way_to_variables_and_options() {
    let home = Home::with("results = \"/runs\"\ncolor = \"always\"\nformat = \"json\"\n");
    assert_eq!(home.default("results", &[]), ("/runs".into(), "line 1 of the file".into()));
    let variables = [("HANDOFF_RESULTS", "/others"), ("NO_COLOR", "1")];
    assert_eq!(
        home.default("results", &variables),
        ("/others".into(), "the variable HANDOFF_RESULTS".into())
    );
    assert_eq!(home.default("color", &variables), ("never".into(), "the variable NO_COLOR".into()));
    assert_eq!(home.default("format", &[]), ("json".into(), "line 3 of the file".into()));

    let version = home.handoff(&["version"], &[]);
    assert!(version.stdout.starts_with(b"{"), "{version:?}");
    let version = home.handoff(&["version", "--format", "text"], &[]);
    assert!(version.stdout.starts_with(b"handoff "), "{version:?}");
    let version = home.handoff(&["version"], &[("HANDOFF_CONFIG", "")]);
    assert!(version.stdout.starts_with(b"handoff "), "{version:?}");
}

#[test]
fn a_measuring_command_takes_the_engine_from_the_file() {
    let home = Home::with("engine = \"local\"\nformat = \"json\"\n");
    let output = home.handoff(&["measure", "add-ints", "-n", "3"], &[]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["parameters"]["engine"], "local", "{report}");
    let output = home.handoff(&["add-ints", "-n", "3", "--engine", "shm"], &[]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["parameters"]["engine"], "shm", "{report}");
}

#[test]
fn a_file_with_a_mistake_stops_commands_and_not_the_help() {
    let home = Home::with("# mine\nresult = \"/runs\"\n");
    let output = home.handoff(&["cores"], &[]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("config.toml:2:1: unknown field `result`"), "{told}");
    assert!(told.contains("2 | result = "), "{told}");
    assert!(home.handoff(&["cores", "--help"], &[]).status.success());
    let output = home.handoff(&["cores"], &[("HANDOFF_CONFIG", "/no/such/file")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Root with the HOME of somebody else.
#[test]
fn root_believes_no_file_that_another_user_wrote() {
    handoff_testkit::require!(handoff_testkit::require_root());
    let home = Home::with("format = \"json\"\n");
    let (folder, file) = (home.0.path().join("handoff"), home.0.path().join("handoff/config.toml"));
    assert!(home.handoff(&["version"], &[]).stdout.starts_with(b"{"));
    let refused = |why: &str| {
        let output = home.handoff(&["version"], &[]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why) && told.contains("HANDOFF_CONFIG"), "{told}");
        assert!(home.handoff(&["version"], &[("HANDOFF_CONFIG", "")]).status.success());
    };
    std::os::unix::fs::chown(&file, Some(1000), Some(1000)).expect("root may");
    refused("belongs to user 1000");
    std::os::unix::fs::chown(&file, Some(0), Some(0)).expect("root may");
    std::os::unix::fs::chown(&folder, Some(1000), Some(1000)).expect("root may");
    refused("belongs to user 1000");
    std::os::unix::fs::chown(&folder, Some(0), Some(0)).expect("root may");
    // Without a file there is nothing to believe: whoever may write there stops no command.
    std::fs::remove_file(&file).expect("removed");
    std::os::unix::fs::chown(&folder, Some(1000), Some(1000)).expect("root may");
    let output = home.handoff(&["version"], &[]);
    assert!(output.status.success(), "{output:?}");
    std::os::unix::fs::chown(&folder, Some(0), Some(0)).expect("root may");
    // It would be waited for without an end.
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).expect("made");
    refused("is not a plain file");
}
