//! `handoff new`: a service of one's own to start from.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use serde::Serialize;

use crate::output::{Advice as _, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff new clock                           a project in ./clock, on the sources that this program is of
  handoff new clock --source ~/src/handoff    on other sources
  handoff new clock --git https://example.org/handoff.git
  cd clock && cargo test";

/// Write a small project to start from: an interface, a service, a client, a test.
///
/// Handoff's crates are not in a registry yet, so the project names their sources: a checkout or a Git repository.
/// A checkout around this program or around the current folder is found by itself.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The folder to make; its last part is the name of the package and of the service.
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// A checkout of Handoff.
    #[arg(long, value_name = "FOLDER", conflicts_with = "git")]
    source: Option<PathBuf>,
    /// A Git repository with Handoff, for people who have no checkout.
    #[arg(long, value_name = "URL")]
    git: Option<String>,
}

/// The project, as one for `hello`. A Cargo.toml by its own name would make a package of the template.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../../templates/hello/Cargo.toml.in")),
    ("build.rs", include_str!("../../templates/hello/build.rs")),
    ("aidl/hello/IHello.aidl", include_str!("../../templates/hello/aidl/hello/IHello.aidl")),
    ("src/lib.rs", include_str!("../../templates/hello/src/lib.rs")),
    ("src/main.rs", include_str!("../../templates/hello/src/main.rs")),
    ("tests/service.rs", include_str!("../../templates/hello/tests/service.rs")),
];

/// Names that Rust, Cargo, AIDL or this project have another use for.
const TAKEN: &str = "abstract alloc as async await become binder boolean box break build byte char const continue core \
     crate deps do double dyn else enum examples extern false final float fn for gen handoff_aidl handoff_ipc if \
     impl import in incremental inout int interface interfaces let long loop macro match mod move mut oneway out \
     override package parcelable priv proc_macro pub ref return self static std struct super test trait true try type \
     typeof union unsafe unsized use virtual void where while yield";

#[derive(Debug, Serialize)]
struct Made {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.folder.display())?;
        for file in &self.files {
            writeln!(f, "  {}", file.display())?;
        }
        write!(f, "Go on with: cd {} && cargo test", self.folder.display())
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let name = Name::of(&self.folder)?;
        let source = self.source()?;
        let is_free = match std::fs::read_dir(&self.folder) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory && !self.folder.exists() => {
                return Err(error)
                    .with_context(|| format!("cannot make the folder {}", self.folder.display()));
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        ensure!(is_free, "{} is there already, and not an empty folder", self.folder.display());
        let mut files = Vec::new();
        for (file, text) in FILES {
            let file = PathBuf::from(name.applied(file));
            let text = match file.extension() {
                Some(extension) if extension == "toml" => source.applied(&name.applied(text)),
                _ => name.applied(text),
            };
            crate::results::write(&self.folder.join(&file), text)?;
            files.push(file);
        }
        output.result(&Made { folder: self.folder.clone(), files })?;
        Ok(Verdict::Pass)
    }

    /// Where the crates are.
    fn source(&self) -> anyhow::Result<Source> {
        if let Some(url) = &self.git {
            ensure!(
                !url.is_empty(),
                "--git is empty: name a repository, as in --git https://example.org/handoff.git"
            );
            return Ok(Source::Git(url.clone()));
        }
        let checkout = match &self.source {
            Some(named) => {
                ensure!(is_checkout(named), "{} is no checkout of Handoff: crates/handoff-ipc is missing", named.display());
                named.clone()
            }
            None => found().context("the sources of Handoff are not around this program, nor around this folder").advise(
                "its crates are not in a registry yet: name a checkout with --source FOLDER, or a repository with --git URL",
            )?,
        };
        let checkout = checkout.canonicalize().context("cannot tell where the checkout is")?;
        let text = checkout.to_str().context("the path of the checkout is no text, and Cargo.toml is")?;
        Ok(Source::Checkout(text.to_owned()))
    }
}

/// Where Handoff's crates come from.
enum Source {
    Checkout(String),
    Git(String),
}

impl Source {
    /// The template of Cargo.toml with what a dependency is. Cargo wants the path of each crate of a checkout, and finds
    /// crates of a repository by their names.
    fn applied(&self, template: &str) -> String {
        let quoted = |text: String| toml::Value::String(text).to_string();
        ["handoff-ipc", "handoff-aidl"].iter().fold(template.to_owned(), |text, name| {
            let dependency = match self {
                Source::Checkout(folder) => format!("path = {}", quoted(format!("{folder}/crates/{name}"))),
                Source::Git(url) => format!("git = {}", quoted(url.clone())),
            };
            text.replace(&format!("SOURCE/{name}"), &dependency)
        })
    }
}

/// The checkout around this program, or around the current folder.
fn found() -> Option<PathBuf> {
    let around = |start: PathBuf| start.ancestors().find(|folder| is_checkout(folder)).map(Path::to_owned);
    std::env::current_exe().ok().and_then(around).or_else(|| std::env::current_dir().ok().and_then(around))
}

fn is_checkout(folder: &Path) -> bool {
    ["handoff-ipc", "handoff-aidl"]
        .iter()
        .all(|name| folder.join("crates").join(name).join("Cargo.toml").is_file())
}

/// A name in the forms that the project needs.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    /// Of the package and the service: `wall-clock`.
    kebab: String,
    /// Of modules and the interface's package: `wall_clock`.
    snake: String,
    camel: String,
}

impl Name {
    fn of(folder: &Path) -> anyhow::Result<Self> {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
            return Err(anyhow!("{} names no folder to make", folder.display()))
                .advise("write a name, as in `handoff new wall-clock`");
        };
        let is_sound = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.len() <= 64
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
            && name.split(['-', '_']).all(|word| word.starts_with(|first: char| first.is_ascii_lowercase()));
        ensure!(
            is_sound,
            "{name:?} is no name of a package: write lower-case letters and digits, words with `-` between them, as in wall-clock"
        );
        let snake = name.replace('-', "_");
        ensure!(
            !TAKEN.split_whitespace().any(|taken| taken == snake),
            "{name:?} means something to Rust or to AIDL already: choose another name"
        );
        let camel = |word: &str| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_ascii_uppercase() + rest
        };
        let camel = snake.split('_').map(camel).collect();
        Ok(Self { kebab: name.to_owned(), snake, camel })
    }

    /// The template's text with this name for `hello`.
    fn applied(&self, text: &str) -> String {
        // In quotes it is the package's or the service's name; elsewhere it is one of a module.
        let named = |part: &str| part.replace("hello", &self.snake).replace("Hello", &self.camel);
        let parts: Vec<String> = text.split("\"hello\"").map(named).collect();
        parts.join(&format!("\"{}\"", self.kebab))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_forms_that_rust_and_aidl_want() {
        let name = Name::of(Path::new("a/wall-clock")).expect("sound");
        assert_eq!(
            (name.kebab.as_str(), name.snake.as_str(), name.camel.as_str()),
            ("wall-clock", "wall_clock", "WallClock")
        );
        assert_eq!(
            name.applied("name = \"hello\"; use hello::IHello"),
            "name = \"wall-clock\"; use wall_clock::IWallClock"
        );
        let name = Name::of(Path::new("hello-hello")).expect("sound");
        assert_eq!(name.applied("\"hello\" hello Hello"), "\"hello-hello\" hello_hello HelloHello");
        for wrong in [
            "", "/", "..", "a b", "Clock", "-a", "a-", "a--b", "9a", "a.b", "ü", "test", "int", "build",
            "self",
        ] {
            assert!(Name::of(Path::new(wrong)).is_err(), "{wrong}");
        }
        assert!(Name::of(Path::new(&"a".repeat(65))).is_err());
    }

    #[test]
    fn the_interface_is_sound_by_any_name() {
        for name in ["hello", "wall-clock", "s2", "string", "list", "map"] {
            let name = Name::of(Path::new(name)).expect("sound");
            let (file, text) = FILES[2];
            let file = PathBuf::from(name.applied(file));
            let texts = [(file.clone(), name.applied(text))].into();
            let options = handoff_aidl::Options { texts, ..Default::default() };
            let found = handoff_aidl::compile(&options, &[file]);
            assert!(!found.diagnostics.has_errors(), "{}", found.report(false));
        }
    }
}
