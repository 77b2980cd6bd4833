//! `handoff kernel analyse`: the feature document of patches.

use std::env;
use std::path::PathBuf;

use handoff_kernel::analyse::{Options as AnalyseOptions, analyse};
use handoff_kernel::patch::{Input, Limits, load};

use crate::output::{Format, Output, Verdict};
use crate::results;

const EXAMPLES: &str = "\
Examples:
  handoff kernel analyse autocorking.patch --tree linux
  handoff kernel analyse autocorking.patch --tree linux --html autocorking.html --svg flow.svg
  handoff kernel analyse v3.11..v3.12 --tree linux --also kernel/sched --depth 2
  handoff kernel analyse patches/ --tree linux --format json";

/// Describe patches in a document: interfaces, code, call flow, key functions, modules
///
/// The document goes to standard output as Markdown. What a machine cannot know is left as a
/// marked question.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A patch, a mailbox, a folder of patches, a quilt series file, or a range of the tree's commits.
    #[arg(value_name = "SERIES")]
    series: String,
    /// The tree that the patches apply to, or that already holds them.
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// Write the document here as one HTML file, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the call graph here, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Calls below a changed function that are shown.
    #[arg(long, value_name = "COUNT", default_value_t = AnalyseOptions::default().depth)]
    depth: usize,
    /// Show files instead when there are more functions than this.
    #[arg(long, value_name = "COUNT", default_value_t = AnalyseOptions::default().most)]
    most: usize,
    /// Look for callers and callees in this folder or file of the tree as well.
    #[arg(long, value_name = "PATH")]
    also: Vec<String>,
    /// Read all files again instead of remembering what they hold.
    #[arg(long)]
    no_cache: bool,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let limits = Limits { keep_going: true, ..Limits::default() };
        let series = load(&Input::guess(&self.series, &self.tree), &limits)?;
        let options = AnalyseOptions {
            depth: self.depth,
            most: self.most,
            cache: if self.no_cache { None } else { cache() },
            also: self.also.clone(),
        };
        let analysis = analyse(&series, &self.tree, &options)?;
        if let Some(path) = &self.html {
            results::write(path, analysis.html())?;
        }
        if let Some(path) = &self.svg {
            results::write(path, analysis.graph_svg())?;
        }
        match output.format() {
            Format::Json => output.json(&analysis)?,
            Format::Text => output.line(format_args!("{}", analysis.text().trim_end()))?,
        }
        Ok(Verdict::Pass)
    }
}

/// Where facts of files are kept.
fn cache() -> Option<PathBuf> {
    Some(cache_folder()?.join("analyse"))
}

/// Handoff's cache folder: the one that the environment names, or by the rules of the XDG base
/// directories.
pub(super) fn cache_folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os(handoff_guest::CACHE_DIR).filter(|folder| !folder.is_empty()) {
        return Some(folder.into());
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("handoff"))
}
