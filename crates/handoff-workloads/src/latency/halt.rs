//! Stops the kernel's trace when a deadline is missed, so that it ends with what went wrong.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where tracefs is mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A trace that is running.
#[derive(Debug)]
pub(super) struct RunningTrace {
    folder: PathBuf,
}

impl RunningTrace {
    /// The machine's trace.
    ///
    /// # Errors
    ///
    /// If tracefs is not mounted or may not be read, or the trace is not running.
    pub(super) fn find() -> Result<Self> {
        let mounted = MOUNTS.into_iter().find(|mount| Path::new(mount).join("tracing_on").exists());
        let Some(mounted) = mounted else {
            let reason = "trace is not running: tracefs is not mounted; as root: mount -t tracefs tracefs \
                          /sys/kernel/tracing";
            return Err(Error::NotSupported { workload: "-trace", reason: reason.into() });
        };
        Self::at(Path::new(mounted))
    }

    fn at(folder: &Path) -> Result<Self> {
        let file = folder.join("tracing_on");
        let state = fs::read_to_string(&file)
            .map_err(|error| Error::io(format!("cannot read {}", file.display()), error))?;
        if state.trim() != "1" {
            let reason = format!("trace is not running: {} is {}", file.display(), state.trim());
            return Err(Error::NotSupported { workload: "-trace", reason });
        }
        Ok(RunningTrace { folder: folder.to_owned() })
    }

    /// Stops it, and gives the file that holds it.
    pub(super) fn halt(&self) -> Result<PathBuf> {
        let file = self.folder.join("tracing_on");
        fs::write(&file, "0")
            .map_err(|error| Error::io(format!("cannot write {}", file.display()), error))?;
        Ok(self.folder.join("trace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_trace_can_be_halted() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tracing_on");
        let error = RunningTrace::at(folder.path()).expect_err("no such file").to_string();
        assert!(error.contains("tracing_on"), "{error}");
        fs::write(&file, "0\n").expect("written");
        let error = RunningTrace::at(folder.path()).expect_err("stopped").to_string();
        assert!(error.contains("trace is not running"), "{error}");
        fs::write(&file, "1\n").expect("written");
        let trace = RunningTrace::at(folder.path()).expect("it runs");
        assert_eq!(trace.halt().expect("halted"), folder.path().join("trace"));
        assert_eq!(fs::read_to_string(&file).expect("read"), "0");
    }
}
