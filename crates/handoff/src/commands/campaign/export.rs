//! `handoff campaign export`: for schedulers that other labs have.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::bail;
use handoff_campaign::export::{lava, tradefed};
use handoff_campaign::file::Campaign;
use handoff_campaign::plan::CampaignPlan;
use serde::Serialize;

use crate::output::{Output, Verdict};
use crate::results;

/// Write a campaign for LAVA or tradefed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign export rack.toml --as lava --to jobs         a job for each task on a device behind ssh
  handoff campaign export rack.toml --as tradefed --to phones   a configuration for each phone

Devices that the other scheduler cannot serve are named with the reason; each file says what is lost.")]
pub(super) struct Export {
    /// The campaign file.
    file: PathBuf,
    /// Whose form it is.
    #[arg(long = "as", value_enum)]
    form: Form,
    /// The folder for the files; it is made if it is not there.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// Job definitions of LAVA, which `lavacli jobs submit` takes
    Lava,
    /// Configurations of Android's tradefed
    Tradefed,
}

impl Export {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let plan = CampaignPlan::of(&Campaign::read(&self.file)?, &self.file)?;
        let export = match self.form {
            Form::Lava => lava(&plan),
            Form::Tradefed => tradefed(&plan),
        };
        for (device, why) in &export.left_out {
            output.warn(format_args!("{device} is left out: {why}"));
        }
        if export.files.is_empty() {
            bail!("no device of this campaign can be served");
        }
        for (name, text) in &export.files {
            results::write(&self.to.join(name), text)?;
        }
        let files = export.files.iter().map(|(name, _)| name.as_str()).collect();
        output.result(&Page { folder: &self.to, files, left_out: &export.left_out })?;
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
struct Page<'a> {
    folder: &'a Path,
    files: Vec<&'a str>,
    /// Each with the reason.
    left_out: &'a [(String, String)],
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files in {}", self.files.len(), self.folder.display())?;
        self.files.iter().try_for_each(|file| write!(f, "\n  {file}"))
    }
}
