//! What distinguishes two arms, and what they have in common, in words: `link.sysctls.net.ipv4.tcp_autocorking: 0 -> 1`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::{Arm, Work};
use super::guest::Guests;
use super::setting::Setting;

/// Something that the arms do not have alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// A setting, a parameter of the workload, a variable of the environment and so on.
    pub what: String,
    /// Its value in the baseline and in the change; `None` if an arm says nothing of it.
    pub values: [Option<String>; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.values.each_ref().map(|value| value.as_deref().unwrap_or("not set"));
        write!(f, "{}: {before} -> {after}", self.what)
    }
}

/// What differs between the baseline and the change, in the guests that they run in, too; and what both have.
pub fn compare(arms: &[Arm; 2], guests: Option<&Guests>) -> (Vec<Difference>, Vec<String>) {
    let [mut before, mut after] = arms.each_ref().map(parts);
    if let Some(guests) = guests {
        for (parts, guest) in [&mut before, &mut after].into_iter().zip(&guests.arms) {
            parts.push(("guest".to_owned(), guest.to_string()));
        }
    }
    let of = |parts: &[(String, String)], what: &str| {
        parts.iter().find(|(name, _)| name == what).map(|(_, value)| value.clone())
    };
    let only_after = after.iter().filter(|(what, _)| of(&before, what).is_none());
    let (mut differences, mut common) = (Vec::new(), Vec::new());
    for (what, _) in before.iter().chain(only_after) {
        let values = [of(&before, what), of(&after, what)];
        match &values {
            [Some(one), Some(other)] if one == other => common.push(format!("{what}: {one}")),
            _ => differences.push(Difference { what: what.clone(), values }),
        }
    }
    (differences, common)
}

/// All of an arm but its name: each name once, with its value.
fn parts(arm: &Arm) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut add = |what: String, value: String| match parts.iter_mut().find(|(known, _)| *known == what) {
        Some((_, values)) => *values = format!("{values}, {value}"),
        None => parts.push((what, value)),
    };
    for setting in &arm.settings {
        match setting {
            Setting::Sysctl { name, value } => add(name.clone(), value.clone()),
            Setting::File { path, value } => add(path.display().to_string(), value.clone()),
            Setting::Feature { token } => add("scheduler feature".to_owned(), token.clone()),
        }
    }
    match &arm.work {
        Work::Command { argv, .. } => add("command".to_owned(), argv.join(" ")),
        Work::Workload(workload) => {
            let value = serde_json::to_value(workload).unwrap_or_default();
            add("workload".to_owned(), shown(&value["workload"]));
            flatten("", &value["parameters"], &mut add);
        }
    }
    if !arm.prefix.is_empty() {
        add("prefix".to_owned(), arm.prefix.join(" "));
    }
    for (name, value) in &arm.environment {
        add(format!("${name}"), value.clone());
    }
    if let Some(cpus) = &arm.cpus {
        add("CPUs".to_owned(), cpus.to_string());
    }
    if let Some(nice) = arm.nice {
        add("nice".to_owned(), nice.to_string());
    }
    if let Some(program) = &arm.program {
        add("program".to_owned(), program.display().to_string());
    }
    for proof in &arm.proofs {
        add("proof".to_owned(), proof.describe());
    }
    parts
}

/// Each value of a tree, by its path: `link.rate_mbit`.
fn flatten(path: &str, value: &Value, add: &mut impl FnMut(String, String)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, add);
            }
        }
        // What is not asked for.
        Value::Null => {}
        other => add(path.to_owned(), shown(other)),
    }
}

/// A value without the quotes of JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::file::Experiment;

    fn compared(text: &str) -> (Vec<String>, Vec<String>) {
        let experiments = Experiment::parse(std::path::Path::new("x.toml"), text).expect("an experiment");
        let (differences, common) = compare(&experiments[0].arms, None);
        (differences.iter().map(ToString::to_string).collect(), common)
    }

    #[test]
    fn a_parameter_that_differs_is_named_by_its_path_and_the_rest_once() {
        let text = "title = 'x'\n[workload]\nname = 'tcp-stream'\nparameters = { flows = 5, link = { path = 'namespaces' } }\n\
                    [baseline]\nname = 'off'\nproof = [{ counter = 'TcpExtTCPAutoCorking', expect = 'zero' }]\n\
                    parameters = { link = { sysctls = { 'net.ipv4.tcp_autocorking' = '0' } } }\n\
                    [change]\nname = 'on'\nparameters = { link = { sysctls = { 'net.ipv4.tcp_autocorking' = '1' } } }\n\
                    [metric]\nname = 'tcp-stream/throughput'\n";
        let (differences, common) = compared(text);
        assert_eq!(differences[0], "link.sysctls.net.ipv4.tcp_autocorking: 0 -> 1");
        assert_eq!(differences[1..], ["proof: TcpExtTCPAutoCorking zero -> not set"]);
        assert!(common.contains(&"workload: tcp-stream".to_owned()), "{common:?}");
        assert!(common.contains(&"flows: 5".to_owned()), "{common:?}");
    }

    #[test]
    fn what_only_one_arm_has_is_a_difference() {
        let text = "title = 'x'\n[workload]\ncommand = ['true']\n[baseline]\nname = 'a'\n\
                    [change]\nname = 'b'\nnice = 3\nenvironment = { LANG = 'C' }\n[metric]\nname = 'wall'\n";
        let (differences, common) = compared(text);
        assert_eq!(differences, ["$LANG: not set -> C", "nice: not set -> 3"]);
        assert_eq!(common, ["command: true"]);
    }
}
