//! Raises the limit of open files for a workload, and puts it back.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};

/// Keeps the limit raised until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    before: Option<Rlimit>,
}

impl OpenFiles {
    /// Makes room for `more` files beside those that are open now.
    pub(crate) fn allow(workload: &'static str, more: usize) -> Result<Self> {
        let open = std::fs::read_dir("/proc/self/fd").map_or(64, Iterator::count);
        let wanted = (open + more) as u64;
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_none_or(|soft| wanted <= soft) {
            return Ok(OpenFiles { before: None });
        }
        if let Some(hard) = limit.maximum.filter(|&hard| wanted > hard) {
            let reason = format!(
                "it opens {wanted} files and the hard limit is {hard}; raise it (`ulimit -Hn {wanted}` as root, \
                 LimitNOFILE= of a systemd unit, or /etc/security/limits.conf), or ask for fewer readers or groups"
            );
            return Err(Error::NotSupported { workload, reason });
        }
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
            .map_err(|error| Error::io(format!("cannot raise the limit of open files to {wanted}"), error))?;
        Ok(OpenFiles { before: Some(limit) })
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // Lowering the soft limit back is always allowed.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_hard_limit_says_how_to_raise_it() {
        let Some(hard) = getrlimit(Resource::Nofile).maximum else { return };
        let more = usize::try_from(hard).expect("fits");
        let error = OpenFiles::allow("hackbench", more).expect_err("too many").to_string();
        assert!(error.contains("ulimit -Hn") && error.contains(&hard.to_string()), "{error}");
    }
}
