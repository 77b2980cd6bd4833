//! The table of figures in the book, between two marks of its page.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::{Machine, Results, Row};
use crate::process::root;

const BEGIN: &str = "<!-- figures: begin -->";
const END: &str = "<!-- figures: end -->";

/// The page that has the table.
pub(super) fn page() -> PathBuf {
    root().join("docs/book/src/reference/benchmarks.md")
}

/// Writes the table into its page again.
pub(super) fn write(kept: &[Results]) -> Result<()> {
    let file = page();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let old = between_marks(&text)
        .with_context(|| format!("{} lacks the marks {BEGIN} and {END}", file.display()))?;
    let new = text.replacen(old, &format!("\n\n{}\n", of(kept)), 1);
    std::fs::write(&file, new).with_context(|| format!("cannot write {}", file.display()))
}

/// What stands between the marks of `page`.
pub(super) fn between_marks(page: &str) -> Option<&str> {
    let (_, after) = page.split_once(BEGIN)?;
    Some(after.split_once(END)?.0)
}

/// The figures of every bench as Markdown, each machine named once.
pub(super) fn of(kept: &[Results]) -> String {
    if kept.iter().all(|results| results.rows.is_empty()) {
        return "No figure has been kept yet.\n".to_owned();
    }
    let mut tables = String::new();
    let mut machines: Vec<&Machine> = Vec::new();
    for results in kept.iter().filter(|results| !results.rows.is_empty()) {
        if !machines.contains(&&results.machine) {
            machines.push(&results.machine);
        }
    }
    for machine in machines {
        let rows =
            kept.iter().filter(|results| results.machine == *machine).flat_map(|results| &results.rows);
        of_machine(&mut tables, machine, &rows.collect::<Vec<_>>());
    }
    format!("![Time of each call as a multiple of its floor](figures.svg)\n\n{tables}")
}

fn of_machine(text: &mut String, machine: &Machine, rows: &[&Row]) {
    let kind = if machine.virtual_machine { "virtual machine" } else { "machine" };
    let Machine { cpu, cpus, kernel, .. } = machine;
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing to a String cannot fail.
    _ = writeln!(text, "Measured on a {kind} with {cpus} CPUs ({cpu}), Linux {kernel}.\n");
    text.push_str("| figure | subject | floor | ratio | 95% | goal | |\n|---|---|---|---|---|---|---|\n");
    for row in rows {
        _ = writeln!(
            text,
            "| {} | {} {} | {} {} | {} | {} .. {} | {} | {} |",
            row.name,
            row.subject,
            duration(row.subject_median_ns),
            row.floor,
            duration(row.floor_median_ns),
            significant(row.ratio),
            significant(row.ci95[0]),
            significant(row.ci95[1]),
            row.goal.map(|goal| format!("<= {goal}")).unwrap_or_default(),
            verdict(row),
        );
    }
    for row in rows.iter().filter(|row| row.note.is_some()) {
        _ = writeln!(text, "\n*{}*: {}", row.name, row.note.as_deref().unwrap_or_default());
    }
}

/// Whether the goal is reached, as far as the interval lets one say.
fn verdict(row: &Row) -> &'static str {
    let reached = |limit: Option<f64>| limit.is_some_and(|limit| row.ratio <= limit);
    match row.goal {
        None => "",
        Some(_) if reached(row.moonshot) => "reached, and the far goal",
        Some(goal) if row.ratio <= goal && row.ci95[1] > goal => "reached, the interval includes the goal",
        Some(_) if reached(row.goal) => "reached",
        Some(_) => "not reached",
    }
}

/// Three significant digits, with the unit that a person would choose.
fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{} ns", significant(ns)),
        ns if ns < 1e6 => format!("{} us", significant(ns / 1e3)),
        ns => format!("{} ms", significant(ns / 1e6)),
    }
}

fn significant(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{machine, row};
    use super::*;

    #[test]
    fn the_table_names_the_machine_and_every_row() {
        let mut late = row("late", 1.4);
        late.note = Some("two more system calls".into());
        let kept = Results {
            bench: "call".into(),
            machine: machine(),
            rows: vec![row("early", 1.01), late],
            tables: vec![],
        };
        assert_eq!(
            of(&[kept]),
            "![Time of each call as a multiple of its floor](figures.svg)\n\
             \n\
             Measured on a virtual machine with 2 CPUs (A CPU), Linux 6.1.0.\n\
             \n\
             | figure | subject | floor | ratio | 95% | goal | |\n\
             |---|---|---|---|---|---|---|\n\
             | early | shm call 2.02 us | futex ping-pong 2.00 us | 1.01 | 1.00 .. 1.02 | <= 1.25 | reached, and the far goal |\n\
             | late | shm call 2.80 us | futex ping-pong 2.00 us | 1.40 | 1.39 .. 1.41 | <= 1.25 | not reached |\n\
             \n\
             *late*: two more system calls\n"
        );
    }

    #[test]
    fn a_goal_inside_the_interval_is_said_to_be() {
        let near = Row { ci95: [1.2, 1.3], ..row("near", 1.24) };
        assert_eq!(verdict(&near), "reached, the interval includes the goal");
        assert_eq!(verdict(&Row { goal: None, ..near }), "");
    }

    #[test]
    fn two_machines_are_two_tables() {
        let results =
            |machine| Results { bench: "call".into(), machine, rows: vec![row("a", 1.2)], tables: vec![] };
        let other = Machine { kernel: "6.18.0".into(), ..machine() };
        let text = of(&[results(machine()), results(other)]);
        assert_eq!(text.matches("Measured on").count(), 2);
        assert_eq!(text.matches("| a |").count(), 2);
    }

    #[test]
    fn durations_have_the_unit_of_people() {
        assert_eq!(duration(250.0), "250 ns");
        assert_eq!(duration(2_345.0), "2.35 us");
        assert_eq!(duration(68_400.0), "68.4 us");
        assert_eq!(duration(1_500_000.0), "1.50 ms");
    }
}
