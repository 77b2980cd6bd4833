//! Several workloads, one after the other in one run, so that one boot of a guest gives the figures of all.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::Workload;
use crate::error::{Error, Result};
use crate::outcome::{Counter, Outcome};
use crate::rpc;

/// The workloads, each under a name that stands before those of its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub parts: BTreeMap<String, Workload>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            parts: BTreeMap::from([("call".to_owned(), Workload::Call(rpc::Parameters::default()))]),
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before anything is started.
    pub fn check(&self) -> Result<()> {
        if self.parts.is_empty() {
            return Err(Error::parameter("parts", "there are none"));
        }
        if let Some(name) = self.parts.keys().find(|name| name.is_empty() || name.contains(['/', ':'])) {
            let problem = format!("{name:?}; a name is some letters without / and :");
            return Err(Error::parameter("parts", problem));
        }
        self.parts.values().try_for_each(Workload::check)
    }
}

/// Runs them in the order of their names. What `call` measures as the part `small` is `small/call/round_trip`.
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let mut all = Outcome::of("several", BTreeMap::new());
    for (part, workload) in &parameters.parts {
        let one = workload.run()?;
        let named = |name: &str| format!("{part}/{name}");
        all.parameters.extend(one.parameters.into_iter().map(|(key, value)| (named(&key), value)));
        all.measurements.extend(one.measurements.into_iter().map(|measured| {
            let name = named(measured.name());
            measured.renamed(name)
        }));
        let counters = one.counters.into_iter();
        all.counters.extend(counters.map(|counter| Counter { name: named(&counter.name), ..counter }));
        all.notes.extend(one.notes.iter().map(|note| format!("{part}: {note}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Parameters {
        serde_json::from_str(text).expect("parameters")
    }

    #[test]
    fn parts_are_run_under_their_names() {
        let outcome = run(&read(
            r#"{"parts": {"a": {"workload": "spin", "parameters": {"items": 3, "steps": 100}},
                "b": {"workload": "sched-pipe", "parameters": {"loops": 20}}}}"#,
        ))
        .expect("it runs");
        let names: Vec<&str> = outcome.measurements.iter().map(|one| one.name()).collect();
        assert!(names.contains(&"a/spin/time") && names.contains(&"b/sched-pipe/operations"), "{names:?}");
        assert!(outcome.parameters.contains_key("a/items"), "{:?}", outcome.parameters);
    }

    #[test]
    fn a_part_that_cannot_be_run_is_refused_before_any_is() {
        let refused = |text: &str| read(text).check().expect_err("refused").to_string();
        assert!(refused(r#"{"parts": {}}"#).contains("none"));
        assert!(refused(r#"{"parts": {"a/b": {"workload": "spin", "parameters": {}}}}"#).contains("a/b"));
        let bad = r#"{"parts": {"a": {"workload": "call", "parameters": {"samples": 0}}}}"#;
        assert!(refused(bad).contains("samples"));
    }
}
