//! Android's `task_profiles.json` as a policy.
//!
//! Reference: `system/core/libprocessgroup/profiles` in AOSP. A profile there is a list of actions;
//! those that move a task to a group or set what the kernel schedules by are translated, the rest is
//! named in a comment.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Profiles in the policy language. Rules are to be added: Android keeps them in its framework.
    pub toml: String,
    /// What could not be translated.
    pub left_out: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Attributes", default)]
    attributes: Vec<Attribute>,
    #[serde(rename = "Profiles", default)]
    profiles: Vec<Profile>,
    #[serde(rename = "AggregateProfiles", default)]
    aggregates: Vec<Aggregate>,
}

#[derive(Deserialize)]
struct Attribute {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "File")]
    file: String,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Actions", default)]
    actions: Vec<Action>,
}

#[derive(Deserialize)]
struct Action {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Params", default)]
    params: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Aggregate {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Profiles", default)]
    profiles: Vec<String>,
}

/// Translates a `task_profiles.json`.
pub fn import_task_profiles(text: &str) -> Result<Import, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("not a task_profiles.json: {e}");
    let json: serde_json::Value = serde_json::from_str(text).map_err(|e| wrong(&e))?;
    if !json.is_object() {
        return Err(wrong(&"it is not an object with `Profiles`"));
    }
    let file: File = serde_json::from_value(json).map_err(|e| wrong(&e))?;
    let mut left_out = Vec::new();
    let simple: BTreeMap<&str, &Profile> =
        file.profiles.iter().map(|profile| (profile.name.as_str(), profile)).collect();
    let mut toml = String::from(
        "# Translated from task_profiles.json. Add [[rule]] tables: who gets which, and when.\n",
    );
    // A name that is given again replaces the former, as there: a device overrides what the platform has.
    let mut all: Vec<(&str, Vec<&Profile>)> = Vec::new();
    let mut name = |name, parts: Vec<_>| match all.iter_mut().find(|(known, _)| *known == name) {
        Some(known) => known.1 = parts,
        None => all.push((name, parts)),
    };
    file.profiles.iter().for_each(|profile| name(&profile.name, vec![profile]));
    for aggregate in &file.aggregates {
        let parts = aggregate.profiles.iter().filter_map(|name| simple.get(name.as_str()).copied());
        name(&aggregate.name, parts.collect());
    }
    for (name, parts) in all {
        let mut profile = TranslatedProfile::default();
        for action in parts.iter().flat_map(|profile| &profile.actions) {
            if let Err(reason) = profile.add(action, &file.attributes) {
                let note = format!("{name}: {reason}");
                if !left_out.contains(&note) {
                    left_out.push(note);
                }
            }
        }
        let _ = write!(toml, "\n[profile.{}]\n{}", quoted(name), profile.toml());
    }
    Ok(Import { toml, left_out })
}

/// A TOML basic string, which may be a key, too: its escapes are those of JSON, and DEL needs one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[derive(Default)]
struct TranslatedProfile {
    policy: Option<String>,
    nice: Option<i64>,
    util_min: Option<i64>,
    util_max: Option<i64>,
    join: Vec<String>,
}

impl TranslatedProfile {
    fn add(&mut self, action: &Action, attributes: &[Attribute]) -> Result<(), String> {
        let text =
            |name: &str| action.params.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        let number = |name: &str| {
            let value = action.params.get(name)?;
            value.as_i64().or_else(|| value.as_str()?.parse().ok())
        };
        match action.name.as_str() {
            "JoinCgroup" => {
                let (controller, path) = (text("Controller"), text("Path"));
                let top = match controller {
                    "cpuset" => "/dev/cpuset",
                    "cpu" => "/dev/cpuctl",
                    "schedtune" => "/dev/stune",
                    "blkio" => "/dev/blkio",
                    "cgroup2" => "/sys/fs/cgroup",
                    _ => return Err(format!("JoinCgroup {controller} has no known mount point")),
                };
                if path.split('/').any(|part| part == "..") {
                    return Err(format!("JoinCgroup {controller} leads outside"));
                }
                let folder = if path.is_empty() { top.to_owned() } else { format!("{top}/{path}") };
                // A later one for the same controller replaces the former, as there.
                self.join.retain(|other| !(other == top || other.starts_with(&format!("{top}/"))));
                self.join.push(folder);
                Ok(())
            }
            "SetSchedulerPolicy" => {
                let policy = match text("Policy") {
                    "SCHED_OTHER" | "SCHED_NORMAL" => "other",
                    "SCHED_BATCH" => "batch",
                    "SCHED_IDLE" => "idle",
                    real_time @ ("SCHED_FIFO" | "SCHED_RR") => {
                        let name = if real_time == "SCHED_FIFO" { "fifo" } else { "rr" };
                        let priority = number("Priority").filter(|priority| (1..=99).contains(priority));
                        let priority =
                            priority.ok_or_else(|| format!("{real_time} without a priority of 1 to 99"))?;
                        self.policy = Some(format!("{name}:{priority}"));
                        self.nice = None;
                        return Ok(());
                    }
                    other => return Err(format!("SetSchedulerPolicy {other}")),
                };
                self.policy = Some(policy.to_owned());
                self.nice = number("Nice").filter(|nice| policy != "idle" && (-20..=19).contains(nice));
                Ok(())
            }
            "SetAttribute" => {
                let name = text("Name");
                let file = attributes
                    .iter()
                    .find(|attribute| attribute.name == name)
                    .map(|attribute| attribute.file.as_str());
                // Percent there, of 1024 here.
                let clamp = number("Value")
                    .filter(|value| (0..=100).contains(value))
                    .map(|percent| percent * 1024 / 100);
                match file {
                    Some("cpu.uclamp.min") => self.util_min = clamp,
                    Some("cpu.uclamp.max") => self.util_max = clamp,
                    _ => return Err(format!("SetAttribute {name}")),
                }
                Ok(())
            }
            other => Err(other.to_owned()),
        }
    }

    fn toml(&self) -> String {
        let mut text = String::new();
        if let Some(policy) = &self.policy {
            let _ = writeln!(text, "policy = \"{policy}\"");
        }
        for (key, value) in [("nice", self.nice), ("util_min", self.util_min), ("util_max", self.util_max)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        if !self.join.is_empty() {
            let folders: Vec<String> = self.join.iter().map(|folder| quoted(folder)).collect();
            let _ = writeln!(text, "join = [{}]", folders.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use proptest::prelude::*;

    const FILE: &str = r#"{
      "Attributes": [
        { "Name": "UClampMin", "Controller": "cpu", "File": "cpu.uclamp.min" },
        { "Name": "LowCapacityCPUs", "Controller": "cpuset", "File": "background/cpus" }
      ],
      "Profiles": [
        { "Name": "HighPerformance", "Actions": [
          { "Name": "JoinCgroup", "Params": { "Controller": "cpu", "Path": "foreground" } } ] },
        { "Name": "ProcessCapacityLow", "Actions": [
          { "Name": "JoinCgroup", "Params": { "Controller": "cpuset", "Path": "background" } } ] },
        { "Name": "Boost", "Actions": [
          { "Name": "SetAttribute", "Params": { "Name": "UClampMin", "Value": "50" } } ] },
        { "Name": "Audio", "Actions": [
          { "Name": "SetSchedulerPolicy", "Params": { "Policy": "SCHED_FIFO", "Priority": "3" } },
          { "Name": "SetTimerSlack", "Params": { "Slack": "50000" } } ] }
      ],
      "AggregateProfiles": [
        { "Name": "SCHED_SP_BACKGROUND", "Profiles": [ "HighPerformance", "ProcessCapacityLow", "Boost" ] }
      ]
    }"#;

    #[test]
    fn profiles_and_aggregates_are_translated() {
        let import = import_task_profiles(FILE).unwrap();
        let rule = "[[rule]]\nmatch = { comm = \"x\" }\nprofile = \"SCHED_SP_BACKGROUND\"\n";
        let policy = Policy::parse(&format!("{}\n{rule}", import.toml))
            .unwrap_or_else(|e| panic!("{e}\n{}", import.toml));
        let background = &policy.profiles["SCHED_SP_BACKGROUND"];
        assert_eq!(
            background.join,
            [std::path::Path::new("/dev/cpuctl/foreground"), std::path::Path::new("/dev/cpuset/background")]
        );
        assert_eq!(background.placement.scheduling.util_min, Some(512));
        assert_eq!(policy.profiles["Audio"].placement.scheduling.priority.unwrap().to_string(), "fifo:3");
        assert_eq!(import.left_out, ["Audio: SetTimerSlack"]);
    }

    #[test]
    fn a_profile_that_is_given_again_replaces_the_former() {
        let nice = |nice: i32| {
            format!(
                r#"{{ "Name": "P", "Actions": [
                    {{ "Name": "SetSchedulerPolicy", "Params": {{ "Policy": "SCHED_OTHER", "Nice": {nice} }} }}
                ] }}"#
            )
        };
        let import =
            import_task_profiles(&format!(r#"{{ "Profiles": [{}, {}] }}"#, nice(3), nice(7))).unwrap();
        assert_eq!(import.toml.matches("[profile.").count(), 1, "{}", import.toml);
        assert!(import.toml.contains('7') && !import.toml.contains('3'), "{}", import.toml);
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "[]", "{\"Profiles\": 3}", "{\"Profiles\": [{}]}"] {
            assert!(import_task_profiles(text).unwrap_err().contains("not a task_profiles.json"), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_is_named_gives_a_policy_that_parses(name in "\\PC{1,10}", path in "\\PC{0,10}", value in any::<i64>()) {
            let file = serde_json::json!({ "Profiles": [{ "Name": name, "Actions": [
                { "Name": "JoinCgroup", "Params": { "Controller": "cpuset", "Path": path } },
                { "Name": "SetSchedulerPolicy", "Params": { "Policy": "SCHED_OTHER", "Nice": value } },
            ] }] });
            let import = import_task_profiles(&file.to_string()).unwrap();
            let rule = format!("[[rule]]\nmatch = {{ comm = \"x\" }}\nprofile = {}\n", quoted(&name));
            let text = format!("{}\n{rule}", import.toml);
            prop_assert!(Policy::parse(&text).is_ok(), "{text}");
        }
    }
}
