//! A machine behind ssh: the system's OpenSSH, so that the user's configuration, agent, keys and jump
//! hosts are in force. One connection is kept for the session (`ControlMaster`).

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::address::Address;
use crate::command::quoted;
use crate::error::{Result, TargetError};
use crate::process::{EndStatus, run};
use crate::target::{Sink, Stream, Target};

/// The status with which ssh itself fails.
const SSH_FAILED: i32 = 255;

/// What is kept of what ssh says, to tell why it failed.
const KEPT: usize = 4096;

#[derive(Debug)]
pub(crate) struct Ssh {
    destination: String,
    port: Option<u16>,
    config: Option<PathBuf>,
    /// Holds the socket of the kept connection.
    control: TempDir,
}

impl Ssh {
    pub(crate) fn new(destination: &str, port: Option<u16>, config: Option<&Path>) -> Result<Self> {
        // A socket's path has room for about 100 characters, so the folder is as near as possible.
        let control = tempfile::Builder::new()
            .prefix("ho-")
            .tempdir_in("/tmp")
            .map_err(|error| TargetError::io("make a folder for ssh's socket", error))?;
        Ok(Ssh { destination: destination.to_owned(), port, config: config.map(Path::to_owned), control })
    }

    fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        let mut path = OsString::from("ControlPath=");
        path.push(self.control.path().join("s"));
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=15",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "ControlMaster=auto",
            "ControlPersist=120",
        ] {
            command.args(["-o", option]);
        }
        command.arg("-o").arg(path).arg("-T");
        if let Some(port) = self.port {
            command.args(["-p", &port.to_string()]);
        }
        command
    }

    /// Why ssh failed, from what it said.
    fn why(&self, said: &str) -> TargetError {
        let target = self.address().to_string();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let said = lines.join(" ");
        if has(&["IDENTIFICATION HAS CHANGED", "Host key verification failed", "host key is known"]) {
            TargetError::HostKey { target, said }
        } else if has(&["Permission denied", "Too many authentication failures"]) {
            TargetError::Refused { target, said }
        } else if has(&[
            "Could not resolve",
            "Connection refused",
            "No route to host",
            "Network is unreachable",
            "Connection timed out",
            "Operation timed out",
            "kex_exchange_identification",
            "banner exchange",
        ]) {
            TargetError::Unreachable { target, why: said }
        } else {
            TargetError::Lost { target, why: if said.is_empty() { "ssh ended".to_owned() } else { said } }
        }
    }
}

impl Target for Ssh {
    fn address(&self) -> Address {
        Address::Ssh { destination: self.destination.clone(), port: self.port }
    }

    fn shell(
        &mut self,
        script: &str,
        input: Option<&mut File>,
        limit: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32> {
        // The login shell may be any; and 255 is what ssh says when it fails itself.
        let script = format!("(\n{script}\n)\nstatus=$?; [ $status -ne 255 ] || status=254; exit $status");
        let mut command = self.ssh();
        command.arg("--").arg(&self.destination).arg(format!("exec sh -c {}", quoted(&script)));
        let mut last = Vec::new();
        let ended = run(command, input, limit, &mut |stream, bytes| {
            if stream == Stream::Stderr {
                last.extend_from_slice(bytes);
                let extra = last.len().saturating_sub(KEPT);
                last.drain(..extra);
            }
            sink(stream, bytes);
        });
        match ended.map_err(|error| TargetError::io("run ssh (the package openssh-client has it)", error))? {
            EndStatus::Status(SSH_FAILED) => Err(self.why(&String::from_utf8_lossy(&last))),
            EndStatus::Status(status) => Ok(status),
            EndStatus::TooLong => {
                let limit = limit.unwrap_or_default();
                Err(TargetError::Deadline { target: self.address().to_string(), limit })
            }
        }
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let mut command = self.ssh();
        command.args(["-O", "exit", "--"]).arg(&self.destination);
        // The connection may be gone already; then there is nothing to end.
        drop(command.output());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_is_understood() {
        let ssh = Ssh::new("lab", Some(2222), None).expect("a folder");
        let why = |said: &str| ssh.why(said).to_string();
        assert!(why("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n").contains("ssh-keygen -R"));
        assert!(why("me@lab: Permission denied (publickey).\r\n").contains("does not let us in"));
        assert!(
            why("ssh: connect to host lab port 2222: Connection refused")
                .starts_with("cannot reach ssh://lab:2222")
        );
        assert!(matches!(ssh.why("client_loop: send disconnect: Broken pipe"), TargetError::Lost { .. }));
        assert!(ssh.why("").is_link());
    }
}
