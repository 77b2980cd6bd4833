//! Proof that a feature is executed in a running kernel, and that it has an effect.
//!
//! A kernel that was built with a feature need not run it, and a function that is called need not do
//! anything: on a bare loopback the test for automatic corking runs sixty thousand times and corks
//! nothing. So a proof names what the feature is for (a counter that must move, a return value, a
//! branch) beside the call. [`prove`] arms the [`Probe`]s in a guest, runs a load, and says for each
//! what was counted, by which means, and whether that is what was expected.
//!
//! Functions are counted by the function profiler, or by a probe where the kernel has none. Probes
//! count into small ring buffers that overwrite themselves: nothing is printed, so a probe in a hot
//! place cannot flood the console and stop the boot.
//!
//! ```no_run
//! use handoff_guest::{Guest, GuestCommand};
//! use handoff_kernel::prove::{Probe, prove};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let probes: Vec<Probe> = vec!["function:tcp_push, >= 10".parse()?];
//! let mut guest = Guest::builder().boot()?;
//! let proof = prove(&mut guest, &GuestCommand::shell("wget -O- 127.0.0.1"), &probes, None)?;
//! println!("{proof}");
//! # Ok(())
//! # }
//! ```

mod counters;
mod gcov;
mod probe;
mod session;

pub use gcov::Branch;
pub use probe::{BadProbe, Counted, Expectation, Probe};

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use handoff_guest::{Guest, GuestCommand, GuestError};
use session::Session;

/// What came of a load under probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    pub release: String,
    /// The exit status of the load.
    pub status: i32,
    /// How long the load took, in seconds.
    pub seconds: f64,
    /// What each probe counted.
    pub findings: Vec<Finding>,
    /// Trouble that the kernel reported meanwhile, in words.
    pub incidents: Vec<String>,
    /// What the load printed, the end of it.
    pub output: String,
}

/// What a probe counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub probe: Probe,
    /// By which means it was counted.
    pub means: String,
    /// The count; `None` if this kernel cannot tell.
    pub count: Option<f64>,
    /// Whether it is what was expected.
    pub holds: bool,
    /// What else a reader must know, such as why there is no count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The function's branches, for a probe that counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
}

impl Proof {
    /// True if the load ended well, every count is what was expected, and the kernel reports no trouble.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.status == 0 && self.incidents.is_empty() && self.findings.iter().all(|finding| finding.holds)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "proved" } else { "NOT proved" };
        write!(f, "{verdict} on {} in {:.1} s", self.release, self.seconds)?;
        if self.status != 0 {
            write!(f, "; the load ended with status {}", self.status)?;
        }
        for finding in &self.findings {
            write!(f, "\n{finding}")?;
        }
        self.incidents.iter().try_for_each(|incident| write!(f, "\n{incident}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "holds" } else { "FAILS" };
        write!(f, "  {word}  {}: ", self.probe)?;
        match self.count {
            Some(count) => write!(f, "{count} by the {}", self.means)?,
            None => f.write_str("not counted")?,
        }
        if let Some(note) = &self.note {
            write!(f, " ({note})")?;
        }
        for branch in &self.branches {
            write!(f, "\n           {branch}")?;
        }
        Ok(())
    }
}

/// Why nothing could be proved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    #[error(transparent)]
    Guest(#[from] GuestError),
    #[error("cannot set up tracing in the guest: {0}")]
    Tracing(String),
    #[error("cannot read the branch counts: {0}")]
    Gcov(String),
}

/// Runs a load in a guest and counts what the probes name.
///
/// `build` is the folder in which the guest's kernel was built; only probes of branches need it.
///
/// # Errors
///
/// If the guest fails, or tracing cannot be set up at all. A single thing that cannot be counted is
/// a [`Finding`] that does not hold.
pub fn prove(
    guest: &mut Guest,
    load: &GuestCommand,
    probes: &[Probe],
    build: Option<&Path>,
) -> Result<Proof, ProveError> {
    let mut session = Session::arm(guest, probes, build)?;
    let output = guest.run(load)?;
    let seconds = output.elapsed.as_secs_f64();
    session.disarm(guest)?;
    let stdout = output.stdout_text();
    let findings = session.findings(guest, &stdout, seconds)?;
    session.clear(guest)?;
    let printed = format!("{stdout}{}", output.stderr_text());
    Ok(Proof {
        release: guest.facts().release.clone(),
        status: output.status,
        seconds,
        findings,
        incidents: output.incidents.iter().map(ToString::to_string).collect(),
        output: end(&printed).to_owned(),
    })
}

/// The last few thousand bytes of a text.
fn end(text: &str) -> &str {
    const KEPT: usize = 4000;
    let start = text.len().saturating_sub(KEPT);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[start..]
}
