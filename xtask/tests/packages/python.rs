//! Python's wheel: installed into an environment that has nothing else.

use std::fs;
use std::process::Command;

use handoff_testkit::{require, require_tool};

use super::built::{Manager, dist, run, source};

#[test]
fn the_wheel_is_all_that_python_needs() {
    let python = require!(require_tool("python3"));
    let files = dist("program,wheel");
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new(python).args(["-m", "venv"]).arg(folder.path()));
    let program = |name: &str| Command::new(folder.path().join("bin").join(name));
    run(program("pip").args(["install", "--quiet", "--no-index"]).arg(&files[1]));
    let licence = "import importlib.metadata as m; print(m.metadata('handoff-ipc')['License-Expression'])";
    assert_eq!(run(program("python").args(["-c", licence])).trim(), "Apache-2.0 OR MIT");

    let manager = Manager::start(&files[0]);
    let example = source("bindings/python/examples/greeter.py");
    let mut serve = program("python");
    let mut greet = program("python");
    manager.greets(serve.arg(&example).arg("serve"), greet.arg(&example).args(["greet", "Ada"]));

    // What the package's page shows first.
    let page = fs::read_to_string(source("bindings/python/README.md")).expect("the page");
    let shown =
        page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let greeted = run(program("python").args(["-c", shown]).env("HANDOFF_SOCKET", manager.socket()));
    assert!(greeted.starts_with("Hello Ada (user "), "{greeted}");
}
