//! `handoff campaign`: experiments on many devices, and what they say together.

mod collect;
mod export;
mod plan;
mod report;
mod simulate;
mod submit;
mod work;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use handoff_campaign::collect::{CollectCounts, collect as into_store};
use handoff_campaign::file::Campaign;
use handoff_campaign::plan::CampaignPlan;
use handoff_campaign::record::Folder;
use handoff_lab::store::Store;

use crate::output::{Advice as _, Output, Verdict};
use crate::results::Results;

const EXAMPLES: &str = "\
Examples:
  handoff campaign plan rack.toml                     the tasks, and how long they take at most
  handoff campaign submit rack.toml                   carry it out from here; Ctrl-C, then again: goes on
  handoff campaign submit rack.toml --engine slurm    leave it to Slurm
  handoff campaign status rack.toml
  handoff campaign report rack.toml                   devices combined, and those that disagree
  handoff campaign export rack.toml --as lava --to jobs
  handoff campaign simulate rack.toml --devices 10000 --workers 200 --noise noise.jsonl";

group! {
    /// Run experiments on many devices, and combine the results.
    #[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
    {
        Collect(collect::Collect),
        Export(export::Export),
        Plan(plan::Plan),
        Report(report::Report),
        Simulate(simulate::Simulate),
        Status(collect::Status),
        Submit(submit::Submit),
        #[command(hide = true)]
        Task(work::Task),
    }
}

// Which campaign, and where it is kept.
#[derive(Debug, Clone, clap::Args)]
struct CampaignFile {
    /// The campaign file.
    file: PathBuf,
    #[command(flatten)]
    results: Results,
}

impl CampaignFile {
    fn campaign(&self) -> anyhow::Result<Campaign> {
        Ok(Campaign::read(&self.file)?)
    }

    /// The plan as the file is now.
    fn plan(&self) -> anyhow::Result<CampaignPlan> {
        Ok(CampaignPlan::of(&self.campaign()?, &self.file)?)
    }

    fn submitted(&self) -> anyhow::Result<(CampaignPlan, Folder)> {
        let folder = Folder::open(&Folder::at(&self.results.folder()?, &self.campaign()?.name))?;
        Ok((folder.plan()?, folder))
    }

    fn store(&self) -> anyhow::Result<Store> {
        Store::open(&self.results.made()?.join("lab.sqlite")).advise("name another folder with --output")
    }

    fn collect(&self, plan: &CampaignPlan, folder: &Folder) -> anyhow::Result<CollectCounts> {
        Ok(into_store(plan, folder, &mut self.store()?)?)
    }

    /// The folder that paths in the file are found from.
    fn base(&self) -> anyhow::Result<PathBuf> {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
            .context("cannot tell the working folder")
    }
}

/// Seconds for people.
fn people(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        minutes if minutes < 7200.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 172_800.0 => format!("{:.1} h", hours / 3600.0),
        days => format!("{:.1} days", days / 86_400.0),
    }
}
