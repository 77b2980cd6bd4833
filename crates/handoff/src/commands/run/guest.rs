//! `handoff run --guest`: the same suite where the kernel has the Binder driver.

use handoff_guest::{Guest, GuestCommand, Stopper};

use super::{Options, absolute};
use crate::commands::guest::machine::explained;
use crate::commands::guest::run::{stream, until_interrupted};
use crate::output::{Format, Output, Verdict, style};

/// Where the guest keeps its results.
const FOLDER: &str = "/tmp/handoff-results";

/// Boots a guest, runs the suite there with this program, and brings report and results to the folder here.
pub(super) fn run(options: &Options, output: &Output) -> anyhow::Result<Verdict> {
    let stopper = Stopper::new();
    let builder = Guest::builder()
        .program(std::env::current_exe()?, "/bin/handoff")
        .stopper(&stopper)
        .on_progress(|what| eprintln!("{what}"));
    let mut command = GuestCommand::new("/bin/handoff");
    if output.format() == Format::Json {
        command = command.args(["--format", "json"]);
    }
    let words: Vec<String> = options.words();
    command = command.args(words.iter().flat_map(|words| words.split(' '))).args(["--output", FOLDER]);
    let status = until_interrupted(&stopper, || {
        let mut guest = builder.boot().map_err(explained)?;
        let facts = guest.facts().clone();
        output.note(style::paint(
            style::DIM,
            format_args!("{} on {} CPUs, {}", facts.release, facts.cpus, facts.acceleration),
        ));
        let result = stream(&mut guest, &command, output)?;
        for incident in &result.incidents {
            output.warn(format_args!("the guest's kernel reports a {incident}"));
        }
        if result.success() {
            for file in ["handoff-run.html", "handoff-run.json"] {
                guest.get(&format!("{FOLDER}/{file}"), &options.output.join(file))?;
            }
        }
        Ok(result.status)
    })?;
    if status != 0 {
        std::process::exit(status);
    }
    let page = absolute(&options.output.join("handoff-run.html"));
    output.note(format_args!("brought here: {}", page.display()));
    Ok(Verdict::Pass)
}
