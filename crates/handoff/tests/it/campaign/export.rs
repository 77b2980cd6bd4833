//! What is written for other schedulers, read by LAVA's own schema and by an XML parser.

use std::path::Path;
use std::process::Command;

use handoff_testkit::{require, require_file};

use super::rack::{Rack, Shape, text};

/// Debian's: the module of LAVA is installed for it.
const PYTHON: &str = "/usr/bin/python3";

/// Each job and the definition inside of it by their schemas.
const CHECK: &str = "
import sys, yaml
from lava_common.schemas import validate
from lava_common.schemas.test import testdef
for path in sys.argv[1:]:
    job = yaml.safe_load(open(path))
    validate(job, strict=True)
    [test] = [action['test'] for action in job['actions'] if 'test' in action]
    [definition] = test['definitions']
    testdef.validate(definition['repository'])
    print(job['job_name'], job.get('tags'))
";

/// The elements of a configuration, and its command lines.
const ELEMENTS: &str = "
import sys, xml.etree.ElementTree as tree
top = tree.parse(sys.argv[1]).getroot()
print(top.tag, sorted({child.tag for child in top}))
for option in top.iter('option'):
    assert {'name', 'value'} <= set(option.keys()) <= {'name', 'key', 'value'}, option.attrib
    if option.get('name') == 'test-command-line':
        print(option.get('key'), '|', option.get('value'))
";

fn rack() -> Rack {
    let target = |address: &str, more: &str| format!("address = {address:?}\n{more}");
    let targets = vec![
        target("ssh://board", "name = \"board\"\nnode = \"b1\"\nfeatures = [\"arm64\"]"),
        target("adb://emulator-5554", "name = \"phone\""),
        target("local", ""),
    ];
    Rack::new(&Shape { experiments: 2, targets, seconds: 0.0 })
}

fn export(rack: &Rack, form: &str) -> String {
    let output = rack.command("export").args(["--as", form, "--to", form]).output().expect("handoff runs");
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("local is left out: "), "{}", text(&output));
    text(&output)
}

fn python(arguments: &[&str], files: &[&Path]) -> String {
    let output = Command::new(PYTHON).args(arguments).args(files).output().expect("python runs");
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn jobs_for_lava_are_sound_by_its_own_schema() {
    require!(require_file(PYTHON));
    require!(require_file("/usr/lib/python3/dist-packages/lava_common/schemas/__init__.py"));
    let rack = rack();
    let said = export(&rack, "lava");
    assert!(said.contains("2 files in lava") && said.contains("phone is left out"), "{said}");
    let jobs = [rack.path("lava/000001.yaml"), rack.path("lava/000004.yaml")];
    let jobs = [jobs[0].as_path(), jobs[1].as_path()];
    assert_eq!(
        python(&["-c", CHECK], &jobs),
        "rack 1: Count to 1 on board ['b1', 'arm64']\nrack 4: Count to 2 on board ['b1', 'arm64']\n"
    );
    // The schema would have found a mistake.
    let broken = std::fs::read_to_string(jobs[0]).expect("written").replace("to: ssh", "to: nowhere");
    std::fs::write(jobs[0], broken).expect("written");
    let output = Command::new(PYTHON).args(["-c", CHECK]).arg(jobs[0]).output().expect("python runs");
    assert!(!output.status.success() && text(&output).contains("unknown action type"), "{}", text(&output));
}

#[test]
fn configurations_for_tradefed_have_its_elements() {
    require!(require_file(PYTHON));
    let rack = rack();
    let said = export(&rack, "tradefed");
    assert!(said.contains("3 files in tradefed") && said.contains("board is left out"), "{said}");
    let read = python(&["-c", ELEMENTS], &[&rack.path("tradefed/device-2.xml")]);
    let mut lines = read.lines();
    assert_eq!(lines.next(), Some("configuration ['metrics_collector', 'target_preparer', 'test']"));
    let mut commands: Vec<&str> = lines.collect();
    commands.sort_unstable();
    assert_eq!(commands.len(), 2);
    let first = "task 2: Count to 1 | /data/local/tmp/handoff/handoff lab run \
                 /data/local/tmp/handoff/experiment-1.toml --output /data/local/tmp/handoff/results ";
    assert!(commands[0].starts_with(first), "{read}");
    let there = std::fs::read_to_string(rack.path("tradefed/experiment-1.toml")).expect("written");
    assert_eq!(there, std::fs::read_to_string(rack.path("e1.toml")).expect("ours"));
}
