//! `handoff doctor`: what could spoil a figure on this machine.

use std::fmt;
use std::path::PathBuf;

use handoff_lab::doctor::{Diagnosis, Finding, Level, Machine};

use crate::output::{Format, Output, Verdict, style};
use crate::width::{columns, wrapped};

const EXAMPLES: &str = "\
Examples:
  handoff doctor                    what to know and to change before measuring
  handoff doctor --all              also what was checked and found fine
  handoff doctor --format json      for programs; every result of `handoff run` holds the same
  handoff doctor --root ./recorded  another machine, from a copy of its /proc, /sys and /boot";

/// Say what could spoil a figure on this machine, what it does to it, and how to change it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Also list what was found fine.
    #[arg(long)]
    all: bool,
    /// Diagnose the machine whose /proc, /sys and /boot were copied to this folder.
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let machine = match &self.root {
            None => Machine::here(),
            Some(root) => {
                let has_tree = ["proc", "sys"].iter().any(|part| root.join(part).is_dir());
                anyhow::ensure!(
                    has_tree,
                    "{} holds neither a proc nor a sys folder: give the folder that they were copied to",
                    root.display()
                );
                Machine::recorded(root)
            }
        };
        let diagnosis = machine.diagnose();
        match output.format() {
            Format::Json => output.json(&diagnosis)?,
            Format::Text => output.line(format_args!("{}", Page { diagnosis: &diagnosis, all: self.all }))?,
        }
        Ok(Verdict::Pass)
    }
}

struct Page<'a> {
    diagnosis: &'a Diagnosis,
    all: bool,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fact in &self.diagnosis.machine {
            writeln!(f, "{:<13} {}", fact.name, wrapped(&fact.value, 14, 14, columns()))?;
        }
        for finding in self.diagnosis.at_least(Level::Note) {
            writeln!(f)?;
            self.finding(f, finding)?;
        }
        let (fine, unknown) = (self.diagnosis.count(Level::Fine), self.diagnosis.count(Level::Unknown));
        writeln!(f)?;
        if self.all {
            for finding in self.diagnosis.findings.iter().filter(|finding| finding.level < Level::Note) {
                let observed = format!("{}: {}", finding.topic, finding.observed);
                writeln!(f, "{:<8} {}", finding.level.word(), wrapped(&observed, 9, 9, columns()))?;
            }
            writeln!(f)?;
        }
        write!(f, "{}", summary(self.diagnosis))?;
        if !self.all {
            write!(f, ", {fine} fine and {unknown} unknown (--all shows them)")?;
        }
        Ok(())
    }
}

impl Page<'_> {
    fn finding(&self, f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
        let how = match finding.level {
            Level::Serious => style::BAD,
            Level::Warning => style::WARNING,
            _ => style::HEADING,
        };
        let (level, columns) = (finding.level.word(), columns());
        let observed = format!("{}: {}", finding.topic, finding.observed);
        writeln!(f, "{how}{level}{how:#} {}", wrapped(&observed, level.len() + 1, 4, columns))?;
        writeln!(f, "    effect: {}", wrapped(&finding.effect, 12, 12, columns))?;
        if !finding.remedy.is_empty() {
            writeln!(f, "    change: {}", wrapped(&finding.remedy, 12, 12, columns))?;
        }
        Ok(())
    }
}

/// `1 serious, 2 warnings, 3 notes`.
pub(super) fn summary(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for (level, one, many) in [
        (Level::Serious, "serious finding", "serious findings"),
        (Level::Warning, "warning", "warnings"),
        (Level::Note, "note", "notes"),
    ] {
        let count = diagnosis.count(level);
        let comma = if text.is_empty() { "" } else { ", " };
        let noun = if count == 1 { one } else { many };
        text.push_str(&format!("{comma}{count} {noun}"));
    }
    text
}
