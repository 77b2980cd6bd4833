//! A campaign for schedulers that other labs have: LAVA's job definitions and tradefed's configurations.
//!
//! A task stays what it is here: one whole interleaved experiment on one device, carried out there by
//! `handoff lab run`. What a foreign scheduler cannot say is left out with its reason, and what is lost is
//! written into each file as a comment: rounds that are kept when a link is lost, and tries.
//!
//! The forms are those of LAVA's own schema (`lava_common/schemas`) and of tradefed's documentation of XML
//! configurations (source.android.com, Tradefed architecture).

use std::fmt::Write as _;

use handoff_targets::{Address, quoted};
use serde::Serialize;

use crate::plan::{CampaignPlan, Point, Task};

/// What LAVA allows for a job's name.
const LONGEST_NAME: usize = 200;
/// Where tradefed puts what it needs on a phone.
const ON_PHONE: &str = "/data/local/tmp/handoff";
/// Fails where it is noticed: a scheduler knows only passed and failed.
const FAILS_ON: &str = "--fail-on regressed --fail-on withheld";

/// The files of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Export {
    /// Name and text of each.
    pub files: Vec<(String, String)>,
    /// Devices that the other scheduler cannot serve, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A job definition of LAVA for each task on a device behind ssh.
pub fn lava(plan: &CampaignPlan) -> Export {
    let mut export = Export::default();
    for (target, device) in plan.targets.iter().enumerate() {
        match device.address.parse() {
            Ok(Address::Ssh { .. }) => {
                for task in plan.tasks_of(target) {
                    export.files.push((format!("{:06}.yaml", task.number), job(plan, task)));
                }
            }
            Ok(Address::Local) => export.leave(
                &device.name,
                "LAVA has no device that is the machine of its worker: name it by ssh://",
            ),
            Ok(Address::Guest) => export.leave(
                &device.name,
                "LAVA boots a guest from images of its own, and ours is made for one session",
            ),
            Ok(Address::Adb { .. }) => export.leave(
                &device.name,
                "a phone needs deploy and boot actions that only its lab knows; `--as tradefed` serves it",
            ),
            Err(error) => export.leave(&device.name, &error.to_string()),
        }
    }
    export
}

/// A configuration of tradefed for each phone, and the experiments that it pushes there.
pub fn tradefed(plan: &CampaignPlan) -> Export {
    let mut export = Export::default();
    for (target, device) in plan.targets.iter().enumerate() {
        match device.address.parse() {
            Ok(Address::Adb { serial }) => {
                export
                    .files
                    .push((format!("device-{}.xml", target + 1), configuration(plan, target, &serial)));
            }
            Ok(_) => export.leave(&device.name, "tradefed serves Android devices, which adb:// names"),
            Err(error) => export.leave(&device.name, &error.to_string()),
        }
    }
    if !export.files.is_empty() {
        let texts = plan.points.iter().enumerate();
        export.files.extend(texts.map(|(index, point)| (experiment(index), point.text.clone())));
    }
    export
}

impl Export {
    fn leave(&mut self, device: &str, why: &str) {
        self.left_out.push((device.to_owned(), why.to_owned()));
    }
}

fn experiment(index: usize) -> String {
    format!("experiment-{}.toml", index + 1)
}

/// Text as YAML has it: as JSON, of which YAML is a superset.
fn yaml(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

fn seconds(plan: &CampaignPlan, point: &Point) -> u64 {
    point.budget_seconds.min(plan.deadline_seconds).ceil() as u64
}

fn job(plan: &CampaignPlan, task: Task) -> String {
    let (point, device) = (&plan.points[task.point], &plan.targets[task.target]);
    let name: String = format!("{} {}: {} on {}", plan.name, task.number, point.title, device.name)
        .chars()
        .take(LONGEST_NAME)
        .collect();
    let test = seconds(plan, point);
    let tags: Vec<String> = device.node.iter().chain(&device.features).map(|tag| yaml(tag)).collect();
    let pinned = match &device.node {
        Some(node) => format!("the tag {node} has to be that of this device and of no other"),
        None => "LAVA chooses any device of the type: name `node`, and give the device that tag".to_owned(),
    };
    let mut text = format!(
        "# Task {} of the campaign {}: one whole experiment on one device ({}).\n\
         # {pinned}.\n\
         # Its handoff has to be installed there. What LAVA does not have: rounds that are kept when the link\n\
         # is lost (the job begins anew), and results in a store: they are in the job's log as JSON.\n\
         job_name: {}\ndevice_type: ssh\nvisibility: public\npriority: medium\n",
        task.number,
        comment(&plan.name),
        comment(&device.name),
        yaml(&name)
    );
    if !tags.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "tags: [{}]", tags.join(", "));
    }
    let steps = [
        "command -v handoff".to_owned(),
        format!("printf '%s' {} >experiment.toml", quoted(&point.text)),
        format!(
            "lava-test-case experiment --shell handoff lab run experiment.toml --output handoff-results {FAILS_ON} --format json"
        ),
    ];
    let steps: String = steps.iter().map(|step| format!("            - {}\n", yaml(step))).collect();
    let _ = write!(
        text,
        "timeouts:\n  job: {{seconds: {}}}\n  action: {{minutes: 10}}\n  connection: {{minutes: 2}}\n\
         metadata:\n  campaign: {}\n  task: \"{}\"\n  seed: \"{}\"\n\
         actions:\n\
         - deploy:\n    to: ssh\n    os: debian\n    timeout: {{minutes: 5}}\n\
         - boot:\n    method: ssh\n    connection: ssh\n    prompts: ['# ', '\\$ ']\n    timeout: {{minutes: 5}}\n\
         - test:\n    timeout: {{seconds: {test}}}\n    definitions:\n\
         {pad}- from: inline\n{pad}  name: handoff\n{pad}  path: inline/handoff.yaml\n{pad}  repository:\n\
         {pad}    metadata:\n{pad}      format: Lava-Test Test Definition 1.0\n{pad}      name: handoff\n\
         {pad}      description: {title}\n{pad}    run:\n{pad}      steps:\n{steps}",
        // For deploying, booting, and what LAVA does around.
        test + 1200,
        yaml(&plan.name),
        task.number,
        plan.seed,
        pad = "    ",
        title = yaml(&point.title),
    );
    text
}

fn configuration(plan: &CampaignPlan, target: usize, serial: &str) -> String {
    let device = &plan.targets[target];
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <!-- The campaign {} on {}, each experiment whole and in this device's order.\n     \
         tradefed.sh run commandAndExit FOLDER/device-{}.xml -s {}\n     \
         Put the static handoff for the device beside it. What tradefed does not have: rounds that are kept when\n     \
         the device is lost (an experiment begins anew); results are pulled as files, and `handoff campaign` does\n     \
         not collect them. -->\n\
         <configuration description=\"{}\">\n\
         \x20   <target_preparer class=\"com.android.tradefed.targetprep.RootTargetPreparer\" />\n\
         \x20   <target_preparer class=\"com.android.tradefed.targetprep.PushFilePreparer\">\n\
         \x20       <option name=\"cleanup\" value=\"true\" />\n\
         \x20       <option name=\"push-file\" key=\"handoff\" value=\"{ON_PHONE}/handoff\" />\n",
        comment(&plan.name),
        comment(&device.name),
        target + 1,
        comment(serial),
        xml(&format!("{} on {}", plan.name, device.name)),
    );
    // Writing to a String cannot fail.
    for index in 0..plan.points.len() {
        let name = experiment(index);
        let _ = writeln!(
            text,
            "        <option name=\"push-file\" key=\"{name}\" value=\"{ON_PHONE}/{name}\" />"
        );
    }
    text += "    </target_preparer>\n";
    for task in plan.tasks_of(target) {
        let point = &plan.points[task.point];
        let _ = writeln!(
            text,
            "    <test class=\"com.android.tradefed.testtype.binary.ExecutableTargetTest\">\n        \
             <option name=\"per-binary-timeout\" value=\"{}s\" />\n        \
             <option name=\"test-command-line\" key=\"{}\" value=\"{ON_PHONE}/handoff lab run {ON_PHONE}/{} \
             --output {ON_PHONE}/results {FAILS_ON}\" />\n    </test>",
            seconds(plan, point),
            xml(&format!("task {}: {}", task.number, point.title)),
            experiment(task.point)
        );
    }
    let _ = writeln!(
        text,
        "    <metrics_collector class=\"com.android.tradefed.device.metric.FilePullerLogCollector\">\n        \
         <option name=\"directory-keys\" value=\"{ON_PHONE}/results\" />\n        \
         <option name=\"collect-on-run-ended-only\" value=\"true\" />\n    </metrics_collector>\n</configuration>"
    );
    text
}

/// Text in an attribute.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // XML has no way to write the others.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text in a comment of either: on one line, and without what ends one of XML's.
fn comment(text: &str) -> String {
    let line: String = xml(text);
    line.replace("--", "- -")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(title: &str, targets: &str) -> CampaignPlan {
        let experiment = format!(
            "title = {title:?}\n[workload]\ncommand = [\"echo\", \"it's\"]\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n\
             [metric]\nname = \"wall\"\n[rounds]\nrounds = 6\n"
        );
        let text = format!("name = \"x\"\nexperiments = [\"e.toml\", \"f.toml\"]\n{targets}");
        CampaignPlan::of_texts(&text, &experiment)
    }

    const ALL: &str = "targets = [\"local\", \"guest\", \"adb://emulator-5554\", \"ssh://a\"]\n[[target]]\n\
        address = \"ssh://b\"\nname = \"board\"\nnode = \"b1\"\nfeatures = [\"arm64\"]\n";

    #[test]
    fn each_form_has_the_devices_that_it_can_serve_and_names_the_others() {
        let plan = plan("t", ALL);
        let names =
            |export: &Export| -> Vec<String> { export.files.iter().map(|(name, _)| name.clone()).collect() };
        let jobs = lava(&plan);
        // Two experiments on each of two boards, named as the tasks are.
        assert_eq!(jobs.files.len(), 4);
        let left: Vec<&str> = jobs.left_out.iter().map(|(device, _)| device.as_str()).collect();
        assert_eq!(left, ["local", "guest", "adb://emulator-5554"]);
        let phones = tradefed(&plan);
        assert_eq!(names(&phones), ["device-3.xml", "experiment-1.toml", "experiment-2.toml"]);
        assert_eq!(phones.left_out.len(), 4);
        assert!(phones.files[1].1.contains("it's"));
        let pinned = jobs.files.iter().filter(|(_, text)| text.contains("tags: [\"b1\", \"arm64\"]")).count();
        let free = jobs.files.iter().filter(|(_, text)| text.contains("chooses any device")).count();
        assert_eq!((pinned, free), (2, 2));
    }

    #[test]
    fn nothing_to_export_is_an_empty_one_with_reasons() {
        let export = tradefed(&plan("t", "targets = [\"local\"]\n"));
        assert!(export.files.is_empty());
        assert_eq!(export.left_out.len(), 1);
    }

    proptest! {
        #[test]
        fn a_title_stays_where_it_is_put(title in "[ -~\n]{1,60}") {
            let plan = plan(&title, ALL);
            for (name, text) in tradefed(&plan).files.iter().filter(|(name, _)| name.ends_with(".xml")) {
                // Every tag and comment that is there is ours.
                prop_assert_eq!(text.matches("<!--").count(), 1, "{}", name);
                prop_assert_eq!(text.matches("-->").count(), 1, "{}", text);
                prop_assert_eq!(text.matches('<').count(), text.matches('>').count());
                prop_assert_eq!(text.matches("<test ").count(), 2);
            }
            for (_, text) in lava(&plan).files {
                prop_assert_eq!(text.lines().filter(|line| line.starts_with("job_name: ")).count(), 1);
                prop_assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), 3);
            }
        }
    }
}
