//! The lab's services of an agent (`handoff agent`): what [`super::remote`] asks, answered on the machine itself.

use handoff_targets::agent::{Reply, Request};
use serde::{Deserialize, Serialize};
use serde_json::to_value;

use super::executor::{ArmError, Executor as _, Local, Replicate, RunRequest};
use super::journal::restore;
use super::machine::MachineOptions;
use super::task::TaskError;
use super::{ArmId, with_causes};
use crate::doctor::Machine;

/// Runs an arm once: a [`RunRequest`] for a [`RunAnswer`].
pub const RUN: &str = "run";
/// Puts back what runs that are gone have left changed, for a [`super::journal::RestoreReport`].
pub const RESTORE: &str = "restore";
/// Says what could spoil a figure, with a [`crate::doctor::Diagnosis`].
pub const DIAGNOSE: &str = "diagnose";

/// What came of a [`RunRequest`] on the other machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunAnswer {
    Done(Replicate),
    /// The run was killed because it took longer than it may.
    Late(String),
    Failed(String),
}

impl RunAnswer {
    /// Runs it on this machine.
    #[must_use]
    pub fn to(request: &RunRequest, here: &mut Local<'_>) -> Self {
        match here.run(ArmId::A, request) {
            Ok(replicate) => Self::Done(replicate),
            Err(error @ ArmError::Task(TaskError::Late { .. })) => Self::Late(error.to_string()),
            Err(error) => Self::Failed(with_causes(&error)),
        }
    }
}

/// Answers a request, if it is one for the lab.
pub fn answer(request: &Request, machine: &MachineOptions<'_>) -> Option<Reply> {
    let reply = match request.ask.as_str() {
        RUN => run(request, machine),
        RESTORE => restore(&machine.state).map_err(cannot).and_then(reply),
        DIAGNOSE => reply(Machine::here().diagnose()),
        _ => return None,
    };
    Some(reply)
}

fn run(request: &Request, machine: &MachineOptions<'_>) -> Reply {
    let request = request.with().map_err(cannot)?;
    let mut here = Local::new(&machine.program, &machine.state, machine.stop).map_err(cannot)?;
    reply(RunAnswer::to(&request, &mut here))
}

fn reply(answer: impl Serialize) -> Reply {
    to_value(answer).map_err(cannot)
}

fn cannot(error: impl std::error::Error) -> String {
    with_causes(&error)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::experiment::file::Experiment;

    fn ask(what: &str, with: Value) -> Option<Reply> {
        let folder = tempfile::tempdir().expect("a folder");
        let request = json!({ "agent": 1, "ask": what, "alive": false, "with": with });
        let request = Request::read(request.to_string().into_bytes()).expect("a request");
        answer(&request, &MachineOptions::local("handoff", folder.path()))
    }

    fn run(command: &str, limit: &str) -> RunAnswer {
        let text = format!(
            "title = \"t\"\n[workload]\ncommand = {command}\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n\
             [metric]\nname = \"wall\"\n[rounds]\nrounds = 6\n{limit}\n"
        );
        let experiment = Experiment::parse(Path::new("x.toml"), &text).expect("a good file").remove(0);
        let request = to_value(experiment.request(0, Path::new("handoff"))).expect("it serialises");
        from_value(ask(RUN, request).expect("the lab's").expect("an answer")).expect("an answer")
    }

    #[test]
    fn a_request_is_answered_with_what_was_measured() {
        let answer = run("\"true\"", "");
        assert!(matches!(&answer, RunAnswer::Done(done) if done.run.values["wall"] > 0.0), "{answer:?}");
    }

    #[test]
    fn a_run_that_takes_too_long_is_told_from_one_that_fails() {
        assert!(matches!(run("\"sleep 60\"", "limit_seconds = 1"), RunAnswer::Late(_)));
        let failed = run("[\"sh\", \"-c\", \"echo alas >&2; exit 3\"]", "");
        assert!(matches!(&failed, RunAnswer::Failed(why) if why.contains("alas")), "{failed:?}");
        let missing = run("\"/no/such/program\"", "");
        assert!(matches!(&missing, RunAnswer::Failed(why) if why.contains("No such file")), "{missing:?}");
    }

    #[test]
    fn what_is_no_request_of_the_lab_is_not_answered_as_one() {
        assert!(ask("dance", json!(null)).is_none());
        let error = ask(RUN, json!({ "task": 5 })).expect("the lab's").expect_err("no request");
        assert!(error.contains("Task"), "{error}");
        let restored = ask(RESTORE, json!(null)).expect("the lab's").expect("restored");
        assert_eq!(restored["running"], 0);
        assert!(ask(DIAGNOSE, json!(null)).expect("the lab's").expect("diagnosed")["findings"].is_array());
    }
}
