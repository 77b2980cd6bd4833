//! `cargo xtask bench`: measures the figures that the book quotes, keeps them, writes the table again.
//!
//! A bench is a `[[bench]]` target of any crate with `harness = false`. It is run as `NAME --rows FILE`
//! and writes a JSON array of [`Row`]s to that file, or [`Written`] with tables of its own. They are kept in `benches/results/NAME.json`
//! together with the machine they are from; the one table in the book, and the figure above it,
//! are written from those files.
//!
//! The port corpus counts hunks instead: see [`corpus`]; [`instructions`] counts those of a call; and [`drivers`] has the lab
//! compare kernels.

mod against;
mod corpus;
mod drivers;
mod figure;
mod instructions;
mod page;
mod table;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::page::Table;
use crate::process::{cargo, find, root, run as run_command, target_dir};
use crate::tools;

/// Measure the figures that the book quotes, and write its table again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench                    everything; leave the machine alone meanwhile
  cargo xtask bench --list
  cargo xtask bench call               one bench
  cargo xtask bench call --against main~1   whether a change made a figure of it worse: both builds in turns
  cargo xtask bench instructions       what a call executes in user space; what else runs does not matter
  cargo xtask bench peers              our call beside other people's: builds them, then about 5 minutes
  cargo xtask bench sizes              calls of 8 bytes to 64 MiB, pinned and left to themselves
  cargo xtask bench crowd              one to 64 clients of a server, newcomers, names: some 6 minutes more
  cargo xtask bench realtime           our call beside other people's under PREEMPT_RT: 12 guests, a minute each
  cargo xtask bench ndk                C++ beside Rust, and Binder RPC beside its bytes over a socket: builds rsbinder, too
  cargo xtask bench port               how often each tool places a hunk rightly
  cargo xtask bench drivers            Binder in C beside Binder in Rust, only if named: 120 boots, 75 minutes at most, and
                                       before the first time 20 to build the kernels, much more beside other work
  cargo xtask bench --table            only write the table again from the kept results")]
pub(crate) struct Options {
    /// The benches to run; all of them but `drivers` if none is named.
    names: Vec<String>,
    /// Print the benches and their crates, and run nothing.
    #[arg(long)]
    list: bool,
    /// Only write the table in the book again.
    #[arg(long, conflicts_with = "names")]
    table: bool,
    /// Measure the named benches in turns with those of another revision, and keep nothing. Ends with status 1 if a
    /// figure is more than 3% worse.
    #[arg(long, value_name = "REVISION", requires = "names", conflicts_with_all = ["list", "table"])]
    against: Option<String>,
    /// How often both are run.
    #[arg(long, default_value_t = 20, requires = "against")]
    pairs: usize,
}

/// One figure: a subject against its floor, measured in turns in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// What is compared, such as `blocking call, one CPU, 8 B`.
    name: String,
    /// What was built, such as `shm call`.
    subject: String,
    /// The cheapest thing that could do the same, such as `futex ping-pong`.
    floor: String,
    /// Median of the subject in nanoseconds.
    subject_median_ns: f64,
    /// Median of the floor in nanoseconds.
    floor_median_ns: f64,
    /// Subject divided by floor.
    ratio: f64,
    /// The 95% interval of `ratio`.
    ci95: [f64; 2],
    /// How many rounds the interval is from.
    rounds: u64,
    /// The ratio that is asked for, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    goal: Option<f64>,
    /// The ratio that would be remarkable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moonshot: Option<f64>,
    /// What is left and why, where the goal is not reached; or what else a reader must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Row {
    /// A bench that prints nonsense is told so here, before the book quotes it.
    fn check(&self) -> Result<()> {
        let figures = [self.subject_median_ns, self.floor_median_ns, self.ratio, self.ci95[0], self.ci95[1]];
        ensure!(
            figures.iter().all(|figure| figure.is_finite() && *figure > 0.0),
            "`{}` has a figure that is not a positive number",
            self.name
        );
        ensure!(self.ci95[0] <= self.ci95[1], "`{}` has an interval that ends before it begins", self.name);
        ensure!(self.rounds > 0, "`{}` was never measured", self.name);
        Ok(())
    }
}

/// The rows of one bench, as they are kept.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    bench: String,
    machine: Machine,
    rows: Vec<Row>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Table>,
}

/// What a bench writes that has more to say than [`Row`]s.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rows: Vec<Row>,
    tables: Vec<Table>,
}

/// What the figures are from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    /// The processor's name, as the kernel prints it.
    cpu: String,
    /// How many CPUs are online.
    cpus: usize,
    kernel: String,
    /// Whether a hypervisor runs it.
    virtual_machine: bool,
}

impl Machine {
    fn this() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let value = |key: &str| {
            cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim().to_owned())
        };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: value("model name").or_else(|| value("CPU part")).unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            virtual_machine: value("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}

/// Runs the benches that were asked for, keeps their rows and writes the table.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if !options.table {
        let benches = benches()?;
        if options.list {
            benches.iter().for_each(|bench| println!("{:<24} {}", bench.name, bench.package));
            println!("{:<24} {}", corpus::NAME, corpus::PACKAGE);
            println!("{:<24} {}", instructions::NAME, instructions::PACKAGE);
            println!("{:<24} {}", drivers::NAME, drivers::PACKAGE);
            return Ok(true);
        }
        let mut known: Vec<_> = benches.iter().map(|bench| bench.name.as_str()).collect();
        known.extend([corpus::NAME, instructions::NAME, drivers::NAME]);
        if let Some(unknown) = options.names.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("there is no bench `{unknown}`; there are {}", known.join(", "));
        }
        let is_wanted =
            |name: &str| options.names.is_empty() || options.names.iter().any(|wanted| wanted == name);
        let wanted: Vec<_> = benches.iter().filter(|bench| is_wanted(&bench.name)).collect();
        if let Some(revision) = &options.against {
            return against::measure(&wanted, revision, options.pairs);
        }
        for bench in wanted {
            measure(bench)?;
        }
        if is_wanted(corpus::NAME) {
            corpus::measure()?;
        }
        if is_wanted(instructions::NAME) {
            let counted = instructions::measure()?;
            tell_changes(&counted)?;
            keep(instructions::NAME, Vec::new(), vec![counted])?;
        }
        // Kernels are built for it.
        if options.names.iter().any(|name| name == drivers::NAME) {
            keep(drivers::NAME, Vec::new(), drivers::measure()?)?;
        }
    }
    corpus::write_table()?;
    if options.names.iter().all(|name| name == corpus::NAME) && !options.names.is_empty() {
        return Ok(true);
    }
    let kept = kept()?;
    table::write(&kept)?;
    figure::write(&kept)?;
    kept.iter().flat_map(|results| &results.tables).try_for_each(Table::write)?;
    print!("\n{}", table::of(&kept));
    Ok(true)
}

/// Counts the instructions of calls, and tells where they are far from the kept ones.
pub(crate) fn check_instructions() -> Result<bool> {
    let unchanged = tell_changes(&instructions::measure()?)?;
    if !unchanged {
        println!("if that is meant, `cargo xtask bench instructions` keeps the new counts");
    }
    Ok(unchanged)
}

fn tell_changes(counted: &Table) -> Result<bool> {
    let kept = kept()?.into_iter().find(|results| results.bench == instructions::NAME);
    let table = kept.as_ref().and_then(|results| results.tables.first());
    let changes = table.map_or_else(Vec::new, |table| instructions::changes(table, counted));
    changes.iter().for_each(|change| println!("{change}"));
    Ok(changes.is_empty())
}

struct Bench {
    name: String,
    package: String,
    features: Vec<String>,
}

fn benches() -> Result<Vec<Bench>> {
    let mut benches = Vec::new();
    for package in tools::workspace()? {
        let targets = package.targets.into_iter().filter(|target| target.kind.iter().any(|k| k == "bench"));
        benches.extend(targets.map(|target| Bench {
            name: target.name,
            package: package.name.clone(),
            features: target.required_features,
        }));
    }
    benches.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!benches.is_empty(), "no crate has a [[bench]]");
    Ok(benches)
}

/// The compiler of C++23 that one of the peers needs.
const CXX23: &str = "clang++-19";

fn measure(bench: &Bench) -> Result<()> {
    let folder = target_dir();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(format!("rows-{}.json", bench.name));
    let mut command = cargo();
    command.args(["bench", "--package", &bench.package, "--bench", &bench.name]);
    let mut features = bench.features.clone();
    if features.iter().any(|feature| feature == "peers") {
        match find(CXX23) {
            Some(compiler) => {
                command.env("CXX", compiler);
                features.push("tachyon".to_owned());
            }
            None => {
                println!("tachyon is not measured: {CXX23} builds it (Debian's clang-19 and libclang-19-dev)")
            }
        }
    }
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    command.args(["--", "--rows"]).arg(&file);
    run_command(&mut command)?;

    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("the bench {} wrote no rows to {}", bench.name, file.display()))?;
    std::fs::remove_file(&file)?;
    let not_agreed = || format!("the rows of the bench {} are not as agreed", bench.name);
    let Written { mut rows, tables } = if text.trim_start().starts_with('[') {
        Written { rows: serde_json::from_str(&text).with_context(not_agreed)?, tables: Vec::new() }
    } else {
        serde_json::from_str(&text).with_context(not_agreed)?
    };
    rows.iter().try_for_each(Row::check)?;
    tables.iter().try_for_each(Table::check)?;
    if let Some(before) = kept()?.into_iter().find(|results| results.bench == bench.name) {
        keep_notes(&mut rows, &before.rows);
    }
    keep(&bench.name, rows, tables)
}

fn keep(bench: &str, rows: Vec<Row>, tables: Vec<Table>) -> Result<()> {
    let results = Results { bench: bench.to_owned(), machine: Machine::this(), rows, tables };
    let mut json = serde_json::to_string_pretty(&results)?;
    json.push('\n');
    let kept = results_folder().join(format!("{bench}.json"));
    std::fs::create_dir_all(results_folder())?;
    std::fs::write(&kept, json).with_context(|| format!("cannot write {}", kept.display()))
}

/// What a person wrote beside a figure stays there, and is shown, since the figure may have changed.
fn keep_notes(rows: &mut [Row], before: &[Row]) {
    for row in rows.iter_mut().filter(|row| row.note.is_none()) {
        row.note = before.iter().find(|old| old.name == row.name).and_then(|old| old.note.clone());
        if let Some(note) = &row.note {
            println!("note kept, see whether it still holds: {}: {note}", row.name);
        }
    }
}

fn results_folder() -> PathBuf {
    root().join("benches/results")
}

/// Everything that is kept, by the name of the bench.
fn kept() -> Result<Vec<Results>> {
    let folder = results_folder();
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&file)?;
            let results: Results = serde_json::from_str(&text)
                .with_context(|| format!("{} is not as agreed", file.display()))?;
            results.rows.iter().try_for_each(Row::check)?;
            kept.push(results);
        }
    }
    kept.sort_by(|a, b| a.bench.cmp(&b.bench));
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn machine() -> Machine {
        Machine { cpu: "A CPU".into(), cpus: 2, kernel: "6.1.0".into(), virtual_machine: true }
    }

    pub(super) fn row(name: &str, ratio: f64) -> Row {
        Row {
            name: name.into(),
            subject: "shm call".into(),
            floor: "futex ping-pong".into(),
            subject_median_ns: 2000.0 * ratio,
            floor_median_ns: 2000.0,
            ratio,
            ci95: [ratio - 0.01, ratio + 0.01],
            rounds: 40,
            goal: Some(1.25),
            moonshot: Some(1.05),
            note: None,
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(row("a", 1.2).check().is_ok());
        assert!(Row { ratio: f64::NAN, ..row("a", 1.2) }.check().is_err());
        assert!(Row { ci95: [2.0, 1.0], ..row("a", 1.2) }.check().is_err());
        assert!(Row { rounds: 0, ..row("a", 1.2) }.check().is_err());
        assert!(Row { floor_median_ns: 0.0, ..row("a", 1.2) }.check().is_err());
    }

    #[test]
    fn rows_need_only_what_was_agreed() {
        let text = r#"[{"name": "a", "subject": "s", "floor": "f", "subject_median_ns": 2, "floor_median_ns": 1,
            "ratio": 2, "ci95": [1.9, 2.1], "rounds": 3}]"#;
        let rows: Vec<Row> = serde_json::from_str(text).expect("agreed");
        assert_eq!((rows[0].ratio, rows[0].goal), (2.0, None));
        assert!(serde_json::from_str::<Vec<Row>>(&text.replace("ratio", "ration")).is_err());
    }

    #[test]
    fn a_note_stays_with_its_figure() {
        let old = [Row { note: Some("because".into()), ..row("a", 2.0) }, row("b", 1.0)];
        let mut new = [row("a", 1.5), row("b", 1.0), row("c", 1.0)];
        keep_notes(&mut new, &old);
        assert_eq!(new.map(|row| row.note), [Some("because".to_owned()), None, None]);
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::this();
        assert!(machine.cpus > 0);
        assert!(!machine.kernel.is_empty());
    }

    /// The book must show what is kept: `cargo xtask bench --table` writes it again.
    #[test]
    fn the_table_in_the_book_is_that_of_the_kept_results() {
        let kept = kept().expect("the kept results can be read");
        let page = std::fs::read_to_string(table::page()).expect("the page is there");
        let shown = table::between_marks(&page).expect("the page has both marks").trim();
        assert!(
            shown == table::of(&kept).trim(),
            "the table is out of date: `cargo xtask bench --table` writes it again"
        );
        if !kept.is_empty() {
            let drawn = std::fs::read_to_string(figure::file()).expect("the figure is there");
            assert!(drawn == figure::of(&kept), "the figure is out of date: as above");
        }
        for table in kept.iter().flat_map(|results| &results.tables) {
            assert!(
                table.is_shown().expect("the page has both marks"),
                "{} is out of date: as above",
                table.mark
            );
        }
    }
}
