//! `cargo xtask bench port`: how often each tool places the hunks of the port corpus rightly.
//!
//! Counts, not times: they are kept in `benches/results/corpus/port.json`, and the book's table is
//! written from there.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::packages;
use crate::process::{cargo, root, run as run_command, target_dir};

/// What the bench is called.
pub(super) const NAME: &str = "port";
/// The crate that has it, as an example.
pub(super) const PACKAGE: &str = "handoff-kernel";

const BEGIN: &str = "<!-- port corpus: begin -->";
const END: &str = "<!-- port corpus: end -->";

/// What the tools made of the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    cases: usize,
    tools: Vec<Tool>,
}

/// What one tool made of it: each case is in one of the counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    right: usize,
    gave_up: usize,
    doubtful: usize,
    wrong: usize,
}

impl Results {
    fn check(&self) -> Result<()> {
        for tool in &self.tools {
            let sum = tool.right + tool.gave_up + tool.doubtful + tool.wrong;
            ensure!(sum == self.cases, "{} has {sum} of {} cases", tool.name, self.cases);
        }
        ensure!(!self.tools.is_empty() && self.cases > 0, "nothing was ported");
        Ok(())
    }
}

/// Ports the corpus with every tool and keeps what came of it.
pub(super) fn measure() -> Result<()> {
    packages::ensure()?;
    let folder = target_dir();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join("port-corpus.json");
    let mut command = cargo();
    command.args(["run", "--package", PACKAGE, "--example", "port_bench", "--", "--json"]).arg(&file);
    run_command(&mut command)?;
    let results = read(&file)?;
    std::fs::remove_file(&file)?;
    let mut json = serde_json::to_string_pretty(&results)?;
    json.push('\n');
    let kept = kept();
    std::fs::create_dir_all(kept.parent().context("the kept file has a folder")?)?;
    std::fs::write(&kept, json).with_context(|| format!("cannot write {}", kept.display()))
}

/// Writes the book's table again.
pub(super) fn write_table() -> Result<()> {
    let page = page();
    let text = std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let old = between_marks(&text)
        .with_context(|| format!("{} lacks the marks {BEGIN} and {END}", page.display()))?;
    let new = text.replacen(
        &format!("{BEGIN}{old}{END}"),
        &format!("{BEGIN}\n\n{}\n{END}", table(&read(&kept())?)),
        1,
    );
    std::fs::write(&page, new).with_context(|| format!("cannot write {}", page.display()))
}

fn kept() -> PathBuf {
    root().join("benches/results/corpus/port.json")
}

fn page() -> PathBuf {
    root().join("docs/book/src/how-to/kernel-patches.md")
}

fn read(file: &std::path::Path) -> Result<Results> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let results: Results =
        serde_json::from_str(&text).with_context(|| format!("{} is not as agreed", file.display()))?;
    results.check()?;
    Ok(results)
}

fn between_marks(page: &str) -> Option<&str> {
    Some(page.split_once(BEGIN)?.1.split_once(END)?.0)
}

fn table(results: &Results) -> String {
    let mut text = format!(
        "| tool, on {} cases | right | gave up | doubtful, said so | wrong, unsaid |\n|---|---|---|---|---|\n",
        results.cases
    );
    for tool in &results.tools {
        let Tool { name, right, gave_up, doubtful, wrong } = tool;
        // Writing to a String cannot fail.
        _ = writeln!(text, "| `{name}` | {right} | {gave_up} | {doubtful} | {wrong} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_counted_once() {
        let tool = Tool { name: "t".into(), right: 2, gave_up: 1, doubtful: 0, wrong: 1 };
        assert!(Results { cases: 4, tools: vec![tool.clone()] }.check().is_ok());
        assert!(Results { cases: 5, tools: vec![tool] }.check().is_err());
        assert!(Results { cases: 5, tools: Vec::new() }.check().is_err());
    }

    /// The book must show what is kept, and what is kept that nothing was placed wrongly in silence.
    #[test]
    fn the_book_shows_the_kept_table() {
        let results = read(&kept()).expect("the kept results can be read");
        let page = std::fs::read_to_string(page()).expect("the page is there");
        let shown = between_marks(&page).expect("the page has both marks").trim();
        assert!(
            shown == table(&results).trim(),
            "the table is out of date: `cargo xtask bench port` writes it again"
        );
        let ours = results.tools.iter().find(|tool| tool.name == "handoff").expect("ours");
        assert_eq!(ours.wrong, 0);
        assert!(results.tools.iter().all(|tool| tool.name.starts_with("handoff") || tool.right < ours.right));
    }
}
