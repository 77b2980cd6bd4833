//! This machine.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use crate::address::Address;
use crate::error::{Result, TargetError};
use crate::process::{EndStatus, run};
use crate::target::{Sink, Target};

/// Names another folder for programs and the lock of this machine.
const FOLDER: &str = "HANDOFF_LOCAL_FOLDER";

#[derive(Debug)]
pub(crate) struct Local;

impl Target for Local {
    fn address(&self) -> Address {
        Address::Local
    }

    fn folder(&self) -> Option<String> {
        std::env::var(FOLDER).ok().filter(|folder| folder.starts_with('/'))
    }

    fn shell(
        &mut self,
        script: &str,
        input: Option<&mut File>,
        limit: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        match run(command, input, limit, sink).map_err(|error| TargetError::io("run sh", error))? {
            EndStatus::Status(status) => Ok(status),
            EndStatus::TooLong => {
                let limit = limit.unwrap_or_default();
                Err(TargetError::Deadline { target: self.address().to_string(), limit })
            }
        }
    }
}
