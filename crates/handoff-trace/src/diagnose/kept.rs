//! What is kept of a missed deadline: the trace, a time line around it, and why.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Diagnosis, FlightRecorder, Window, explain_in};
use crate::dat;
use crate::error::{Result, TraceError};
use crate::model::timeline::Timeline;
use crate::perfetto;
use crate::render::html::{View, around, html, title};
use crate::trace::{RawTrace, Slice};

/// A missed deadline, explained and on disk.
#[derive(Debug, Clone, Serialize)]
pub struct SavedDiagnosis {
    pub diagnosis: Diagnosis,
    /// The recording, which `handoff sched explain -i` and `trace-cmd report -i` read.
    pub trace: PathBuf,
    /// The time line around the transaction, for the browser.
    pub html: PathBuf,
    pub perfetto: PathBuf,
}

impl FlightRecorder {
    /// Stops, explains the transaction, and writes `NAME.dat`, `NAME.html` and `NAME.pftrace` into
    /// `folder`. `slices` are what the program noted of itself, such as each transaction.
    ///
    /// # Errors
    ///
    /// [`TraceError::Control`] if the buffers cannot be read, [`TraceError::NotInTrace`] if they do
    /// not reach back to the transaction, [`TraceError::File`] if a file cannot be written.
    pub fn keep(
        self,
        window: Window,
        slices: Vec<Slice>,
        folder: &Path,
        name: &str,
    ) -> Result<SavedDiagnosis> {
        keep(&self.freeze()?, window, slices, folder, name)
    }
}

/// [`FlightRecorder::keep`] for a trace that was taken already, such as a
/// [`FlightRecorder::snapshot`].
pub fn keep(
    raw: &RawTrace,
    window: Window,
    slices: Vec<Slice>,
    folder: &Path,
    name: &str,
) -> Result<SavedDiagnosis> {
    let file = |kind: &str| folder.join(format!("{name}.{kind}"));
    let (dat_file, html_file, perfetto_file) = (file("dat"), file("html"), file("pftrace"));
    dat::save(raw, &dat_file)?;
    let mut trace = raw.decode()?;
    trace.add_slices(slices);
    let timeline = Timeline::of(&trace);
    let diagnosis = explain_in(&trace, &timeline, window)?;
    let title = title(&diagnosis);
    let view = View {
        title: &title,
        window: Some(around(&diagnosis)),
        tasks: diagnosis.tasks(),
        diagnosis: Some(&diagnosis),
    };
    write(&html_file, html(&trace, &timeline, &view).as_bytes())?;
    write(&perfetto_file, &perfetto::to_bytes(&trace, &timeline, perfetto::Options::default()))?;
    Ok(SavedDiagnosis { diagnosis, trace: dat_file, html: html_file, perfetto: perfetto_file })
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|source| TraceError::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}
