//! `handoff config`: what the defaults are, and where each comes from.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum as _;
use serde::Serialize;

use crate::config::{self, Config, KEYS};
use crate::output::{Format, Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff config                    each default, and where it comes from
  handoff config --path             where the file is, or would be
  mkdir -p ~/.config/handoff && echo 'engine = \"binder\"' >> ~/.config/handoff/config.toml

A file may hold these keys:
  results = \"~/runs\"            the folder for results: --output, HANDOFF_RESULTS
  format = \"json\"               text or json: --format
  color = \"never\"               auto, always or never: --color, NO_COLOR
  quiet = true                  no progress and no notes: --quiet
  target = \"ssh://lab-7\"        where measuring commands run: --target
  engine = \"binder\"             local, shm or binder, of measuring commands with one engine: --engine
  context = \"binder\"            binder, hwbinder or vndbinder, of the same commands: --context
  socket = \"/run/a/names.sock\"  the service manager's: --socket, HANDOFF_SOCKET";

/// Show the defaults for options, and where each comes from.
///
/// An option is stronger than a variable of the environment, the variable than the configuration file. The file is
/// the one that HANDOFF_CONFIG names (none, if that is empty), else handoff/config.toml in XDG_CONFIG_HOME or
/// ~/.config. There root reads only a file that nobody else can write.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Print where the file is, or would be, and nothing else.
    #[arg(long)]
    path: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    key: &'static str,
    value: Option<String>,
    from: String,
}

#[derive(Debug, Serialize)]
struct Page {
    file: Option<PathBuf>,
    is_there: bool,
    defaults: Vec<Row>,
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) if self.is_there => writeln!(f, "The file is {}", file.display())?,
            Some(file) => writeln!(f, "There is no file {}", file.display())?,
            None => writeln!(f, "There is no file: {} is empty, or HOME is not set", config::VARIABLE)?,
        }
        let width = self.defaults.iter().filter_map(|row| row.value.as_deref().map(str::len)).max();
        let width = width.unwrap_or(0).clamp(5, 40);
        let title = format!("{:<8}  {:<width$}  FROM", "KEY", "VALUE");
        write!(f, "{}", style::paint(style::HEADING, title))?;
        for row in &self.defaults {
            let value = row.value.as_deref().unwrap_or("-");
            write!(f, "\n{:<8}  {value:<width$}  {}", row.key, row.from)?;
        }
        Ok(())
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let config = config::loaded();
        if self.path {
            match (&config.file, output.format()) {
                (file, Format::Json) => output.json(file)?,
                (Some(file), Format::Text) => output.line(format_args!("{}", file.display()))?,
                (None, Format::Text) => anyhow::bail!("there is no file: {} is empty", config::VARIABLE),
            }
            return Ok(Verdict::Pass);
        }
        let is_there = config.file.as_ref().is_some_and(|file| file.exists());
        let defaults = KEYS.iter().map(|key| row(key, config, output)).collect();
        output.result(&Page { file: config.file.clone(), is_there, defaults })?;
        Ok(Verdict::Pass)
    }
}

fn row(key: &'static config::Key, config: &Config, output: &Output) -> Row {
    let of = |value: String, from: String| Row { key: key.name, value: Some(value), from };
    if let Some((name, value)) = config::variable(key) {
        let value = if name == "NO_COLOR" { "never".to_owned() } else { value };
        return of(value, format!("the variable {name}"));
    }
    // This command takes three of the options itself.
    let typed = match key.name {
        "format" => output.format().to_possible_value().map(|value| value.get_name().to_owned()),
        "quiet" => Some(output.is_quiet().to_string()),
        _ => None,
    };
    let in_file = config.settings.iter().find(|setting| setting.key == key.name);
    let fallback = in_file.map_or(key.usual, |setting| setting.value.as_str());
    if let Some(value) = typed.filter(|value| value != fallback) {
        return of(value, format!("the option {}", key.option));
    }
    match in_file {
        Some(setting) => of(setting.value.clone(), format!("line {} of the file", setting.line)),
        None => Row { key: key.name, value: None, from: format!("nothing sets it: {}", key.usual) },
    }
}
