//! Ports pairs with each tool and counts what came of them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use handoff_kernel::port::{HunkOutcome, PortReport};

use super::Pair;
use super::tools::{OTHERS, Verdict, handoff, judged, ported, with_base};

/// How pairs are ported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judging {
    /// Run the other tools, too.
    pub(crate) tools: bool,
    /// Port all hunks of a file together, as in a patch, and judge each.
    pub(crate) whole: bool,
    /// Print each hunk that is not right, and those that are right with doubt.
    pub(crate) verbose: bool,
}

impl Judging {
    /// The flags that an example was called with; `None` if one is none of these.
    #[allow(dead_code, reason = "tests set the flags themselves")]
    pub(crate) fn of(flags: &[String]) -> Option<Self> {
        let mut judging = Self::default();
        for flag in flags {
            match flag.as_str() {
                "--tools" => judging.tools = true,
                "--whole" => judging.whole = true,
                "--verbose" => judging.verbose = true,
                _ => return None,
            }
        }
        (!(judging.tools && judging.whole)).then_some(judging)
    }
}

/// Ours, with the file that a hunk was made for.
const WITH_SOURCE: &str = "handoff --source";

/// Verdicts of one tool: on all hunks, and on those that `git apply` refuses.
type Row = BTreeMap<(bool, Verdict), usize>;

/// Verdicts of each tool.
#[derive(Default)]
pub(crate) struct PairTally {
    hunks: usize,
    rows: BTreeMap<&'static str, Row>,
}

impl PairTally {
    /// Ports the pairs of one tree, and prints what `judging` asks for.
    pub(crate) fn judge(&mut self, pairs: &[Pair], tree: &Path, judging: Judging) {
        let Judging { tools, whole, verbose } = judging;
        let mut last: Option<(Rc<[u8]>, PortReport)> = None;
        for pair in pairs {
            let mut verdicts: Vec<(&str, Verdict)> = Vec::new();
            let count = if tools { OTHERS.len() } else { 1 };
            for (name, tool) in &OTHERS[..count] {
                let folder = tempfile::tempdir().expect("a folder");
                verdicts.extend(tool(pair, folder.path()).map(|verdict| (*name, verdict)));
            }
            let hard = verdicts[0].1 == Verdict::GaveUp;
            let number = if whole { pair.whole.1 } else { 0 };
            let (verdict, report) = if whole {
                let (_, report) = match last.take() {
                    Some(same) if Rc::ptr_eq(&same.0, &pair.whole.0) => last.insert(same),
                    _ => last.insert((Rc::clone(&pair.whole.0), ported(&pair.whole.0, tree, None))),
                };
                (judged(pair, report, number), report.clone())
            } else {
                handoff(pair, tree)
            };
            verdicts.push(("handoff", verdict));
            if !whole {
                verdicts.extend(with_base(pair, tree).map(|verdict| (WITH_SOURCE, verdict)));
            }
            self.hunks += 1;
            for (name, verdict) in &verdicts {
                for hard in [false, true].into_iter().take(1 + usize::from(hard)) {
                    *self.rows.entry(name).or_default().entry((hard, *verdict)).or_default() += 1;
                }
            }
            if verbose {
                tell(pair, &verdicts, verdict, &report, number);
            }
        }
    }

    /// How many hunks a tool got this verdict for.
    #[allow(dead_code, reason = "not every user of the pairs asks")]
    pub(crate) fn of(&self, name: &str, verdict: Verdict) -> usize {
        self.rows.get(name).and_then(|row| row.get(&(false, verdict))).copied().unwrap_or(0)
    }
}

fn tell(pair: &Pair, verdicts: &[(&str, Verdict)], verdict: Verdict, report: &PortReport, number: usize) {
    let hunk = report.hunks().nth(number);
    let with_source = verdicts.iter().find(|(name, _)| *name == WITH_SOURCE).map(|(_, verdict)| *verdict);
    if let (Verdict::Right, Some(other)) = (verdict, with_source)
        && other != Verdict::Right
    {
        let patch = String::from_utf8_lossy(&pair.patch);
        println!("=== {other:?}, with its source: {}\n{report}\n{patch}", pair.name);
    } else if verdict != Verdict::Right {
        let better = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Right);
        let better: Vec<&str> = better.map(|(name, _)| *name).collect();
        let patch = String::from_utf8_lossy(&pair.patch);
        println!("=== {verdict:?} {} (right: {})\n{report}\n{patch}", pair.name, better.join(", "));
    } else if let Some(hunk) = hunk.filter(|hunk| hunk.outcome == HunkOutcome::Fuzzy) {
        println!("--- {verdict:?}, with doubt: {}: {}", pair.name, hunk.differences.join("; "));
    }
}

impl fmt::Display for PairTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} hunks\n", self.hunks)?;
        writeln!(
            f,
            "| tool | right | wrong, said | wrong, unsaid | gave up | hard: right | wrong | gave up |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for (name, row) in &self.rows {
            let of = |hard, verdict| row.get(&(hard, verdict)).copied().unwrap_or(0);
            writeln!(
                f,
                "| {name} | {} | {} | {} | {} | {} | {} | {} |",
                of(false, Verdict::Right),
                of(false, Verdict::WrongSaid),
                of(false, Verdict::WrongUnsaid),
                of(false, Verdict::GaveUp),
                of(true, Verdict::Right),
                of(true, Verdict::WrongSaid) + of(true, Verdict::WrongUnsaid),
                of(true, Verdict::GaveUp),
            )?;
        }
        Ok(())
    }
}
