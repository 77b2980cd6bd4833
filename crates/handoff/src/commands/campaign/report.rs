//! `handoff campaign report`: all devices together.

use handoff_campaign::report::report;

use super::CampaignFile;
use crate::output::{Format, Output, Verdict};
use crate::results;

/// Combine the devices, and show those that disagree.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign report rack.toml                    text, and an HTML file beside the campaign
  handoff campaign report rack.toml --as markdown      for a pull request
  handoff campaign report rack.toml --as html > rack.html
  handoff campaign report rack.toml --format json")]
pub(super) struct Report {
    #[command(flatten)]
    named: CampaignFile,
    /// The form to print it in.
    #[arg(long = "as", value_enum, default_value = "text")]
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For a terminal
    Text,
    /// For a pull request
    Markdown,
    /// One file that opens offline
    Html,
}

impl Report {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let (plan, folder) = self.named.submitted()?;
        let report = report(&plan, &folder)?;
        match (output.format(), self.form) {
            (Format::Json, _) => output.json(&report)?,
            (_, Form::Markdown) => output.bytes(report.markdown().as_bytes())?,
            (_, Form::Html) => output.bytes(report.html()?.as_bytes())?,
            (_, Form::Text) => {
                let page = folder.path().join("report.html");
                results::write(&page, report.html()?)?;
                output.line(format_args!("{}", report.text()))?;
                let page = std::path::absolute(&page).unwrap_or(page);
                output.note(format_args!("report: {}", page.display()));
            }
        }
        Ok(Verdict::Pass)
    }
}
