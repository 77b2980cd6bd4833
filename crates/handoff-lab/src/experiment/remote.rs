//! An order for a machine that is not this one, and its answer: what `handoff lab arm` there reads and writes.

use serde::{Deserialize, Serialize};

use super::ArmId;
use super::target::{Here, Order, Replicate, Target as _, TargetError};
use super::task::TaskError;

/// What came of an order on the other machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was carried out.
    Done(Replicate),
    /// The run was killed because it took longer than it may: the arm's fault, or that of a machine that
    /// stood still for a while.
    Late(String),
    /// It was not carried out.
    Failed(String),
}

impl Answer {
    /// Carries an order out on this machine.
    #[must_use]
    pub fn to(order: &Order, here: &mut Here<'_>) -> Self {
        match here.carry_out(ArmId::A, order) {
            Ok(replicate) => Self::Done(replicate),
            Err(error @ TargetError::Task(TaskError::Late { .. })) => Self::Late(error.to_string()),
            Err(error) => Self::Failed(with_causes(&error)),
        }
    }

    /// From what the program there printed, and how it ended.
    ///
    /// # Errors
    ///
    /// If that is no answer: the program did not start, or is another version.
    pub fn read(succeeded: bool, stdout: &[u8], stderr: &[u8]) -> Result<Self, TargetError> {
        if !succeeded {
            let said = String::from_utf8_lossy(stderr);
            let said = said.trim().trim_start_matches("error: ");
            let said = if said.is_empty() { "the program there ended without a word" } else { said };
            return Err(TargetError::Elsewhere(said.to_owned()));
        }
        serde_json::from_slice(stdout)
            .map_err(|error| TargetError::Elsewhere(format!("the answer cannot be used: {error}")))
    }

    /// What was measured.
    ///
    /// # Errors
    ///
    /// Why nothing was.
    pub fn replicate(self) -> Result<Replicate, TargetError> {
        match self {
            Self::Done(replicate) => Ok(replicate),
            Self::Late(why) | Self::Failed(why) => Err(TargetError::Elsewhere(why)),
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::file::Experiment;

    fn answer(command: &str, limit: &str) -> Answer {
        let text = format!(
            "title = \"t\"\n[workload]\ncommand = {command}\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n\
             [metric]\nname = \"wall\"\n[rounds]\nrounds = 6\n{limit}\n"
        );
        let experiment = Experiment::parse(Path::new("x.toml"), &text).expect("a good file").remove(0);
        let folder = tempfile::tempdir().expect("a folder");
        let mut here = Here::new("handoff", folder.path(), None).expect("a journal");
        // As it travels.
        let order = serde_json::to_string(&experiment.order(0, Path::new("handoff"))).expect("it serialises");
        let order: Order = serde_json::from_str(&order).expect("it parses");
        let answer = serde_json::to_vec(&Answer::to(&order, &mut here)).expect("it serialises");
        Answer::read(true, &answer, b"").expect("an answer")
    }

    #[test]
    fn an_order_is_answered_with_what_was_measured() {
        let replicate = answer("\"true\"", "").replicate().expect("it ran");
        assert!(replicate.run.values["wall"] > 0.0, "{replicate:?}");
    }

    #[test]
    fn a_run_that_takes_too_long_is_told_from_one_that_fails() {
        assert!(matches!(answer("\"sleep 60\"", "limit_seconds = 1"), Answer::Late(_)));
        let failed = answer("[\"sh\", \"-c\", \"echo alas >&2; exit 3\"]", "");
        assert!(matches!(&failed, Answer::Failed(why) if why.contains("alas")), "{failed:?}");
        assert!(
            matches!(answer("\"/no/such/program\"", ""), Answer::Failed(why) if why.contains("No such file"))
        );
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let error = Answer::read(false, b"", b"error: no lab here\n").expect_err("failed").to_string();
        assert_eq!(error, "no lab here");
        assert!(Answer::read(true, b"hello", b"").is_err());
        assert!(Answer::read(false, b"", b"").expect_err("failed").to_string().contains("without a word"));
    }
}
