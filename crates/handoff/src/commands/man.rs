//! `handoff man DIR`: the manual pages, from the same text as `--help`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::output::{Output, Verdict};
use crate::{cli, results};

const EXAMPLES: &str = "\
Examples:
  handoff man ./man && man ./man/handoff.1
  sudo handoff man /usr/local/share/man/man1";

/// The variables of the environment that change what a command does.
const VARIABLES: [(&str, &str); 9] = [
    ("HANDOFF_CONFIG", "the configuration file; empty for none"),
    ("HANDOFF_RESULTS", "the folder for results, if --output does not name one"),
    ("HANDOFF_SOCKET", "the socket of the service manager"),
    ("HANDOFF_BINDERFS", "the folder with the devices of the Binder driver"),
    ("HANDOFF_POLICY", "the folder of the policy that runs"),
    ("HANDOFF_CACHE_DIR", "the folder for the packages that guests are made of"),
    ("HANDOFF_LOCAL_FOLDER", "the folder for programs and the lock of --target local"),
    ("HANDOFF_SSH_CONFIG", "another configuration for ssh"),
    ("NO_COLOR", "no colours, if it is set"),
];

const FILES: [(&str, &str); 5] = [
    ("~/.config/handoff/config.toml", "defaults for options: `handoff config`"),
    ("~/.local/state/handoff/results", "reports, recordings, and the store lab.sqlite"),
    ("~/.local/state/handoff", "what to put back after a run that was killed; /var/lib/handoff for root"),
    ("~/.cache/handoff", "packages and kernels of guests"),
    ("/run/handoff", "the sockets of the service manager and of the policy"),
];

const STATUS: [(&str, &str); 5] = [
    ("0", "it worked; a test that was run has passed"),
    ("1", "a test or a check that was run has failed"),
    ("2", "it could not be done: wrong options, a file that cannot be read, a missing privilege, an error"),
    ("3", "it worked, with doubts that a person should look at"),
    ("130", "it was interrupted and has put back what it changed"),
];

/// Write a manual page for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The folder to write to; it is made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let mut command = cli::command().disable_help_subcommand(true);
        command.build();
        write_all(&command, None, &self.folder)?;
        output.line(format_args!("The manual pages are in {}", self.folder.display()))?;
        Ok(Verdict::Pass)
    }
}

/// The page of a command, and those of the commands below it.
fn write_all(command: &clap::Command, above: Option<&str>, folder: &Path) -> anyhow::Result<()> {
    let name = page_name(command);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(inner, Some(&name), folder)?;
    }
    let mut page = Vec::new();
    render(command, above, &mut page)?;
    results::write(&folder.join(format!("{name}.1")), begun_once(&String::from_utf8_lossy(&page)))
}

/// Each section comes from the library with this in front of it, which a page needs once.
const BEGIN: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

fn begun_once(page: &str) -> String {
    format!("{BEGIN}{}", page.replace(BEGIN, ""))
}

fn page_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn render(command: &clap::Command, above: Option<&str>, page: &mut dyn Write) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    // The usage line has the values of options and arguments, which the library's synopsis leaves out.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    write!(page, ".SH SYNOPSIS\n.nf\n{}\n.fi\n", escaped(usage))?;
    man.render_description_section(page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(page)?;
    }
    let inner: Vec<&clap::Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).collect();
    if !inner.is_empty() {
        man.render_subcommands_section(page)?;
    }
    if command.get_after_long_help().or(command.get_after_help()).is_some() {
        man.render_extra_section(page)?;
    }
    section(page, "EXIT STATUS", &STATUS)?;
    section(page, "ENVIRONMENT", &VARIABLES)?;
    section(page, "FILES", &FILES)?;
    let mut others: Vec<String> = above.map(str::to_owned).into_iter().collect();
    others.extend(inner.iter().map(|inner| page_name(inner)));
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(|name| format!("\\fB{}\\fR(1)", escaped(name))).collect();
        write!(page, ".SH \"SEE ALSO\"\n{}\n", others.join(", "))?;
    }
    if command.get_version().is_some() {
        man.render_version_section(page)?;
    }
    Ok(())
}

/// A section of terms, each with what it means.
fn section(page: &mut dyn Write, heading: &str, terms: &[(&str, &str)]) -> io::Result<()> {
    writeln!(page, ".SH \"{heading}\"")?;
    for (term, meaning) in terms {
        write!(page, ".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(meaning))?;
    }
    Ok(())
}

/// Text that roff prints as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let line =
        |line: &str| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &[&str]) -> String {
        let mut command = cli::command().disable_help_subcommand(true);
        command.build();
        let mut chosen = &command;
        for name in path {
            chosen = chosen.find_subcommand(name).expect("a command");
        }
        let mut text = Vec::new();
        render(chosen, Some("handoff"), &mut text).expect("written");
        begun_once(&String::from_utf8(text).expect("text"))
    }

    #[test]
    fn a_page_says_how_to_call_it_and_what_else_there_is() {
        let text = page(&["lab"]);
        for heading in ["SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"] {
            assert_eq!(
                text.matches(&format!(".SH \"{heading}\"\n")).count()
                    + text.matches(&format!(".SH {heading}\n")).count(),
                1,
                "{heading}: {text}"
            );
        }
        assert!(text.contains("\\fBhandoff\\-lab\\-run\\fR(1)"), "{text}");
        assert_eq!((text.find(".ie"), text.matches(".ie").count()), (Some(0), 1), "{text}");
        assert!(page(&["sched", "export"]).contains("handoff sched export [OPTIONS] <FILE>"));
    }

    #[test]
    fn the_book_lists_the_same_variables() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reference/command-line.md");
        let book = std::fs::read_to_string(page).expect("the page");
        for (name, _) in VARIABLES {
            assert!(
                book.contains(&format!("| `{name}` |")),
                "{name} is not in the table of the command line's page"
            );
        }
    }

    #[test]
    fn text_is_no_request_of_roff() {
        assert_eq!(escaped(".TH a-b\n'c \\d"), "\\&.TH a\\-b\n\\&'c \\ed");
    }
}
