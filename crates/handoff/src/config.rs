//! The configuration file: defaults for options that a person types again and again.
//!
//! An option of the command line is stronger than a variable of the environment, that is stronger than the file, and
//! that is stronger than what the program takes by itself. The values become defaults of the parser's options
//! ([`with_defaults`]), so a command need not know of the file.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use handoff_lab::experiment::file::FileError;
use handoff_placement::PrivateFolder;
use handoff_targets::Address;
use handoff_workloads::rpc::{Context, EngineKind};
use rustix::fs::OFlags;
use serde::Deserialize;
use toml::Spanned;

/// Names another file. Empty, there is none.
pub(crate) const VARIABLE: &str = "HANDOFF_CONFIG";

/// Names the folder for results.
pub(crate) const RESULTS_VARIABLE: &str = "HANDOFF_RESULTS";

/// What the file may set.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// The option that is stronger.
    pub(crate) option: &'static str,
    /// The variables of the environment that are stronger, too.
    pub(crate) variables: &'static [&'static str],
    /// What holds if nobody says anything.
    pub(crate) usual: &'static str,
}

/// All keys, in the order in which they are shown.
pub(crate) const KEYS: [Key; 8] = [
    key("results", "--output", &[RESULTS_VARIABLE], "handoff/results in the XDG state folder"),
    key("format", "--format", &[], "text"),
    key("color", "--color", &["NO_COLOR"], "auto"),
    key("quiet", "--quiet", &[], "false"),
    key("target", "--target", &[], "none: commands run here"),
    key("engine", "--engine", &[], "what each command takes"),
    key("context", "--context", &[], "what fits the engine"),
    key("socket", "--socket", &["HANDOFF_SOCKET"], "this user's manager, else the machine's"),
];

const fn key(
    name: &'static str,
    option: &'static str,
    variables: &'static [&'static str],
    usual: &'static str,
) -> Key {
    Key { name, option, variables, usual }
}

/// The commands with one engine. `run` and `transports` compare several: a default of one would hide the others.
const WITH_ENGINE: [&str; 4] = ["add-ints", "latency", "phases", "throughput"];

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    results: Option<Spanned<String>>,
    format: Option<Spanned<String>>,
    color: Option<Spanned<String>>,
    quiet: Option<Spanned<bool>>,
    target: Option<Spanned<String>>,
    engine: Option<Spanned<String>>,
    context: Option<Spanned<String>>,
    socket: Option<Spanned<String>>,
}

/// A value, and the line that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// What the file sets.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Vec<Setting>,
}

static LOADED: OnceLock<Config> = OnceLock::new();

/// Keeps what was read for the rest of the process.
pub(crate) fn keep(config: Config) -> &'static Config {
    LOADED.get_or_init(|| config)
}

/// What was read; nothing, if nothing was.
pub(crate) fn loaded() -> &'static Config {
    LOADED.get_or_init(Config::default)
}

/// The value of a key, if the file sets it and nothing in the environment is stronger.
pub(crate) fn value(key: &str) -> Option<&'static str> {
    loaded().get(key).map(|setting| setting.value.as_str())
}

impl Config {
    /// Reads the file of this user.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (Some(file), named) = place(variable) else { return Ok(Self::default()) };
        let text = match read(&file, named) {
            Ok(text) => text,
            // Nothing is there to be believed: a folder that others may write to matters only with a file in it.
            Err(_) if !named && file.symlink_metadata().is_err() => {
                return Ok(Self { file: Some(file), settings: Vec::new() });
            }
            Err(error) => {
                let what = format!("cannot read the configuration {}", file.display());
                return Err(error).context(what);
            }
        };
        let settings = parse(&file, &text, variable("HOME").as_deref())?;
        Ok(Self { file: Some(file), settings })
    }

    /// Tells where the defaults come from, for `--verbose`.
    pub(crate) fn log(&self) {
        match &self.file {
            Some(file) if file.exists() => tracing::debug!("the configuration is {}", file.display()),
            Some(file) => tracing::debug!("there is no configuration {}", file.display()),
            None => tracing::debug!("there is no configuration"),
        }
    }

    /// What the file says of a key, if no variable of the environment is stronger.
    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        let overruled = KEYS.iter().any(|known| known.name == key && variable(known).is_some());
        self.settings.iter().find(|setting| setting.key == key && !overruled)
    }
}

/// The variable of the environment that decides a key, if one does.
pub(crate) fn variable(key: &Key) -> Option<(&'static str, String)> {
    let set = |name: &&'static str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        Some((*name, value.to_string_lossy().into_owned()))
    };
    key.variables.iter().find_map(set)
}

/// Root may have another user's HOME: what is found there is looked at before it is believed. A file that was named is
/// taken as it is.
fn read(file: &Path, named: bool) -> std::io::Result<String> {
    match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) if !named && rustix::process::geteuid().is_root() => {
            let file = PrivateFolder::open(folder)?.file(name, OFlags::RDONLY)?;
            std::io::read_to_string(file)
        }
        _ => std::fs::read_to_string(file),
    }
}

/// Where the file is, and whether somebody named it.
fn place(variable: impl Fn(&str) -> Option<PathBuf>) -> (Option<PathBuf>, bool) {
    if let Some(named) = variable(VARIABLE) {
        return (Some(named).filter(|file| !file.as_os_str().is_empty()), true);
    }
    // The XDG specification has relative paths ignored.
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    (folder.map(|folder| folder.join("handoff/config.toml")), false)
}

/// The settings of a file's text.
fn parse(file: &Path, text: &str, home: Option<&Path>) -> Result<Vec<Setting>, FileError> {
    let wrong = |span, message: String| FileError::at(file, text, span, message);
    let written: ConfigFile = toml::from_str(text)
        .map_err(|error| wrong(error.span().unwrap_or(0..0), error.message().to_owned()))?;
    let mut settings = Vec::new();
    let mut set = |key, written: Option<Spanned<String>>, check: &dyn Fn(&str) -> Result<String, String>| {
        let Some(written) = written else { return Ok(()) };
        let value =
            check(written.get_ref()).map_err(|problem| wrong(written.span(), format!("{key}: {problem}")))?;
        let line = text[..written.span().start].matches('\n').count() + 1;
        settings.push(Setting { key, value, line });
        Ok(())
    };
    let path = |text: &str| match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Ok(home.join(rest).display().to_string()),
        _ if text.starts_with('/') => Ok(text.to_owned()),
        _ => Err(format!("{text:?} depends on where a command runs: write a path from / or ~/")),
    };
    set("results", written.results, &path)?;
    set("format", written.format, &|text| one_of(text, &["text", "json"]))?;
    set("color", written.color, &|text| one_of(text, &["auto", "always", "never"]))?;
    let quiet = written.quiet.map(|quiet| Spanned::new(quiet.span(), quiet.get_ref().to_string()));
    set("quiet", quiet, &|text| Ok(text.to_owned()))?;
    set("target", written.target, &|text| {
        text.parse::<Address>().map(|address| address.to_string()).map_err(|error| error.to_string())
    })?;
    set("engine", written.engine, &|text| one_of(text, &EngineKind::ALL.map(|engine| engine.name())))?;
    set("context", written.context, &|text| one_of(text, &Context::ALL.map(Context::device)))?;
    set("socket", written.socket, &path)?;
    Ok(settings)
}

fn one_of(text: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not known; one of these is: {}", known.join(", ")))
}

/// Makes the file's values the defaults of the options.
pub(crate) fn with_defaults(mut command: Command, config: &Config) -> Command {
    for setting in KEYS.iter().filter_map(|key| config.get(key.name)) {
        // The parser keeps defaults for as long as the program runs, and so they live as long.
        let value: &'static str = setting.value.clone().leak();
        let default = move |command: Command| with_default(command, setting.key, value);
        command = match setting.key {
            "format" | "color" | "quiet" => default(command),
            "target" => command.mut_subcommands(default),
            "engine" | "context" => command.mut_subcommand("measure", |measure| {
                WITH_ENGINE.into_iter().fold(measure, |measure, name| measure.mut_subcommand(name, default))
            }),
            "socket" => ["service", "servicemanager"]
                .into_iter()
                .fold(command, |command, name| command.mut_subcommand(name, default)),
            _ => command, // `results` is no default of an option: `results` asks for it.
        };
    }
    command
}

fn with_default(command: Command, long: &str, value: &'static str) -> Command {
    command.mut_args(|arg| if arg.get_long() == Some(long) { arg.default_value(value) } else { arg })
}

/// The options that the file stood in for, as they would be typed, for the same command on another machine.
pub(crate) fn as_options(matches: &ArgMatches) -> Vec<String> {
    let from_file = |name: &str| {
        let setting = loaded().get(name)?;
        // Where an option may be given several times its field has the plural.
        let ids = [name.to_owned(), format!("{name}s")];
        let is_default = |id: &String| {
            matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::DefaultValue)
        };
        ids.iter().any(is_default).then_some(setting)
    };
    let typed = |name: &str| match from_file(name)? {
        setting if name == "quiet" => (setting.value == "true").then(|| "--quiet".to_owned()),
        setting => Some(format!("--{name}={}", setting.value)),
    };
    ["format", "color", "quiet", "engine", "context"].into_iter().filter_map(typed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Setting>, FileError> {
        parse(Path::new("c.toml"), text, Some(Path::new("/home/a")))
    }

    #[test]
    fn the_file_is_named_or_in_the_folder_for_configurations() {
        let of = |variables: &[(&str, &str)]| {
            place(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            })
        };
        let (home, xdg) = (("HOME", "/home/a"), ("XDG_CONFIG_HOME", "/x"));
        assert_eq!(of(&[home]), (Some("/home/a/.config/handoff/config.toml".into()), false));
        assert_eq!(of(&[home, xdg]), (Some("/x/handoff/config.toml".into()), false));
        assert_eq!(
            of(&[home, ("XDG_CONFIG_HOME", "x")]).0,
            Some("/home/a/.config/handoff/config.toml".into())
        );
        assert_eq!(of(&[home, (VARIABLE, "mine.toml")]), (Some("mine.toml".into()), true));
        assert_eq!(of(&[home, (VARIABLE, "")]), (None, true));
        assert_eq!(of(&[]), (None, false));
    }

    #[test]
    fn values_are_read_with_their_lines() {
        let settings = read("engine = \"binder\"\n\nresults = \"~/runs\"\nquiet = true\n").expect("sound");
        let told: Vec<_> = settings.iter().map(|one| (one.key, one.value.as_str(), one.line)).collect();
        assert_eq!(told, [("results", "/home/a/runs", 3), ("quiet", "true", 4), ("engine", "binder", 1)]);
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_told_at_its_line() {
        for (text, line, told) in [
            ("\nformat = \"xml\"", 2, "format: \"xml\" is not known; one of these is: text, json"),
            ("engin = \"shm\"", 1, "unknown field `engin`, expected one of `results`"),
            ("quiet = 1", 1, "invalid type: integer `1`, expected a boolean"),
            ("results = \"runs\"", 1, "write a path from / or ~/"),
            ("target = \"lab-7\"", 1, "target: "),
            ("color = \"never\"\ncolor = \"auto\"", 2, "duplicate key"),
            ("engine =", 1, ""),
            ("[format]\nx = 1", 1, "invalid type: map, expected a string"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn the_parser_knows_the_same_keys() {
        let known = KEYS.map(|key| key.name).join("`, `");
        let message = read("x = 1").expect_err("unknown").message;
        assert!(message.contains(&known), "{message} and {known}");
    }
}
