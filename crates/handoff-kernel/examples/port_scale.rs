//! Ports one large input onto a tree without writing, and says what it took.
//!
//! `cargo run --release -p handoff-kernel --example port_scale -- PATCH TREE`

use std::path::Path;
use std::process::ExitCode;

use handoff_kernel::patch::{Input, Limits, load};
use handoff_kernel::port::{Options, port};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [patch, tree] = words.as_slice() else {
        eprintln!("usage: port_scale PATCH TREE");
        return ExitCode::from(2);
    };
    let limits = Limits { keep_going: true, ..Limits::default() };
    let options = Options { dry_run: true, ..Options::default() };
    let report = load(&Input::Path(patch.into()), &limits)
        .map_err(|error| error.to_string())
        .and_then(|series| port(&series, Path::new(tree), &options).map_err(|error| error.to_string()));
    match report {
        Ok(report) => {
            println!("{:?} of {} hunks", report.counts, report.counts.total());
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
