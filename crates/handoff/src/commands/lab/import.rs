//! `handoff lab import`: results of other programs, kept beside our own.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use handoff_lab::import::{ImportedResults, parse};
use handoff_lab::store::Owner;

use super::kept::Where;
use super::labels::Labels;
use crate::output::{Format, Output, Verdict};
use crate::results;

/// Keep results of other programs in the store.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperfine --export-json old.json ./bench && handoff lab import old.json
  perf stat -j -o old.jsonl --append ./bench; handoff lab import old.jsonl --title 'before the patch'
  ./bench --benchmark_format=json --benchmark_repetitions=20 > old.json; handoff lab import old.json
  handoff lab compare i1 i2")]
pub(super) struct Import {
    /// JSON of Google Benchmark, of `perf stat -j` or of hyperfine; which one is told by what is in it.
    file: PathBuf,
    /// What to call it; the name of the file if nothing is given.
    #[arg(long)]
    title: Option<String>,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    place: Where,
}

impl Import {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let imported = read(&self.file)?;
        let title = self.title.clone().unwrap_or_else(|| self.file.display().to_string());
        let mut store = self.place.make()?;
        let id = store.keep_import(&title, &imported)?;
        store.label(Owner::Import(id), &self.labels.said())?;
        for left in &imported.left_out {
            output.warn(format_args!("left out: {left}"));
        }
        if output.format() == Format::Json {
            output.json(&serde_json::json!({ "id": id, "imported": imported }))?;
            return Ok(Verdict::Pass);
        }
        output.line(format_args!("i{id}: {} of {}", title, imported.format.name()))?;
        for series in &imported.series {
            output.line(format_args!(
                "  {:>5} values  {} {}",
                series.values.len(),
                series.name,
                series.unit
            ))?;
        }
        Ok(Verdict::Pass)
    }
}

pub(super) fn read(file: &Path) -> anyhow::Result<ImportedResults> {
    parse(&results::read(file)?).with_context(|| format!("cannot use {}", file.display()))
}
