//! Kernel configurations: what was asked for, what came of it, and why something did not.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::KernelArch;

/// A setting of one symbol; `n` and absence are the same.
pub type Value = String;

/// What fragments and single settings ask for, the later before the earlier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedConfig {
    settings: BTreeMap<String, (Value, String)>,
    overridden: Vec<Overridden>,
}

/// A symbol that was asked for twice, differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overridden {
    /// The symbol, with `CONFIG_`.
    pub symbol: String,
    /// The value that does not count any more.
    pub before: Value,
    /// The value that counts.
    pub now: Value,
    pub origin: String,
}

/// A symbol that the finished configuration does not have as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The symbol, with `CONFIG_`.
    pub symbol: String,
    pub asked: Value,
    /// What the configuration has; `n` if nothing.
    pub got: Value,
    pub origin: String,
    /// Why, as far as the tree's Kconfig files say.
    pub reason: String,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { symbol, asked, got, origin, reason } = self;
        write!(f, "{symbol}={asked} ({origin}) became {got}: {reason}")
    }
}

/// A line of a configuration that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: `{text}` does not set a symbol: write CONFIG_NAME=value")]
pub struct BadLine {
    pub origin: String,
    /// Its line, from 1.
    pub line: usize,
    pub text: String,
}

impl RequestedConfig {
    /// Adds the settings of a fragment; `origin` is its name for messages.
    pub fn add(&mut self, text: &str, origin: &str) -> Result<(), BadLine> {
        for (index, line) in text.lines().enumerate() {
            match parse_line(line) {
                Line::Setting(symbol, value) => {
                    self.set(&symbol, value, format!("{origin}:{}", index + 1));
                }
                Line::Nothing => {}
                Line::Bad => {
                    let shown = line.trim().chars().take(80).collect();
                    return Err(BadLine { origin: origin.to_owned(), line: index + 1, text: shown });
                }
            }
        }
        Ok(())
    }

    /// What was asked for twice.
    #[must_use]
    pub fn overridden(&self) -> &[Overridden] {
        &self.overridden
    }

    /// Whether a symbol is asked for as built in.
    pub(crate) fn is_set(&self, symbol: &str) -> bool {
        self.settings.get(symbol).is_some_and(|(value, _)| value == "y")
    }

    /// How many symbols are asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.settings.len()
    }

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// The settings as the lines of a configuration.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |(symbol, (value, _)): (&String, &(Value, String))| match value.as_str() {
            "n" => format!("# {symbol} is not set\n"),
            value => format!("{symbol}={value}\n"),
        };
        self.settings.iter().map(line).collect()
    }

    /// Which symbols the finished configuration does not have as asked, each with the reason.
    #[must_use]
    pub fn unmet(&self, finished: &str, tree: &Path, arch: KernelArch) -> Vec<Unmet> {
        let got = settings(finished);
        let value = |symbol: &str| got.get(symbol).cloned().unwrap_or_else(|| "n".to_owned());
        let mut unmet: Vec<Unmet> = self
            .settings
            .iter()
            .filter(|(symbol, (asked, _))| value(symbol) != *asked)
            .map(|(symbol, (asked, origin))| Unmet {
                symbol: symbol.clone(),
                asked: asked.clone(),
                got: value(symbol),
                origin: origin.clone(),
                reason: String::new(),
            })
            .collect();
        if !unmet.is_empty() {
            let kconfig = super::kconfig::Kconfig::read(tree, arch);
            for one in &mut unmet {
                one.reason = kconfig.explain(&one.symbol, &value);
            }
        }
        unmet
    }

    fn set(&mut self, symbol: &str, value: Value, origin: String) {
        let old = self.settings.insert(symbol.to_owned(), (value.clone(), origin.clone()));
        if let Some((before, _)) = old.filter(|(before, _)| *before != value) {
            self.overridden.push(Overridden { symbol: symbol.to_owned(), before, now: value, origin });
        }
    }
}

/// All settings of a configuration.
pub(crate) fn settings(text: &str) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    for line in text.lines() {
        if let Line::Setting(symbol, value) = parse_line(line) {
            settings.insert(symbol, value);
        }
    }
    settings
}

enum Line {
    Setting(String, Value),
    Nothing,
    Bad,
}

fn parse_line(line: &str) -> Line {
    let line = line.trim();
    if let Some(comment) = line.strip_prefix('#') {
        let symbol = comment.trim().strip_suffix(" is not set").filter(|symbol| is_symbol(symbol));
        return symbol.map_or(Line::Nothing, |symbol| Line::Setting(symbol.to_owned(), "n".to_owned()));
    }
    if line.is_empty() {
        return Line::Nothing;
    }
    match line.split_once('=') {
        Some((symbol, value)) if is_symbol(symbol) && is_value(value) => {
            Line::Setting(symbol.to_owned(), value.to_owned())
        }
        _ => Line::Bad,
    }
}

fn is_symbol(text: &str) -> bool {
    text.strip_prefix("CONFIG_")
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// `y`, `m`, `n`, a number, or a text in quotes.
fn is_value(text: &str) -> bool {
    let quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    let number = text.strip_prefix("0x").map_or_else(
        || text.strip_prefix('-').unwrap_or(text).chars().all(|c| c.is_ascii_digit()),
        |digits| digits.chars().all(|c| c.is_ascii_hexdigit()),
    );
    quoted || matches!(text, "y" | "m" | "n") || (number && !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(text: &str) -> RequestedConfig {
        let mut asked = RequestedConfig::default();
        asked.add(text, "f").expect("a good fragment");
        asked
    }

    #[test]
    fn the_later_setting_counts_and_the_clash_is_told() {
        let mut asked = asked("CONFIG_A=y\n# a comment\n\nCONFIG_B=\"x y\"\n# CONFIG_C is not set\n");
        asked.add("CONFIG_A=m\nCONFIG_C=n\n", "g").expect("a good fragment");
        assert_eq!(asked.to_text(), "CONFIG_A=m\nCONFIG_B=\"x y\"\n# CONFIG_C is not set\n");
        let clash = &asked.overridden()[0];
        assert_eq!((clash.before.as_str(), clash.now.as_str(), clash.origin.as_str()), ("y", "m", "g:1"));
        assert_eq!((asked.overridden().len(), asked.len()), (1, 3));
    }

    #[test]
    fn lines_that_set_nothing_are_refused() {
        for bad in ["A=y", "CONFIG_A", "CONFIG_=y", "CONFIG_A=yes", "CONFIG_A=$(reboot)", "CONFIG_A="] {
            let error = RequestedConfig::default().add(&format!("\n{bad}"), "f").expect_err(bad);
            assert_eq!((error.line, error.text.as_str()), (2, bad));
        }
    }

    #[test]
    fn what_did_not_survive_is_told_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let kconfig =
            "config BINDER\n\tbool \"Binder\"\n\tdepends on MMU && NET\n\nconfig MMU\n\tdef_bool y\n";
        std::fs::write(folder.path().join("Kconfig"), kconfig).expect("written");
        let asked = asked("CONFIG_BINDER=y\nCONFIG_MMU=y\nCONFIG_MISSPELT=y\nCONFIG_OFF=n\n");
        let unmet = asked.unmet("CONFIG_MMU=y\n# CONFIG_NET is not set\n", folder.path(), KernelArch::Arm64);
        let text: Vec<String> = unmet.iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 2, "{text:?}");
        assert!(text[0].contains("CONFIG_BINDER=y (f:1) became n"), "{text:?}");
        assert!(text[0].contains("depends on MMU && NET (NET is n)"), "{text:?}");
        assert!(text[1].contains("no Kconfig file"), "{text:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_text_is_read_or_refused(text in "(CONFIG_|[A-Z_]|=|y|n|\"|# | is not set|\n|\\PC){0,30}") {
            let mut asked = RequestedConfig::default();
            if asked.add(&text, "f").is_ok() {
                let again = super::settings(&asked.to_text());
                prop_assert_eq!(again.len(), asked.len());
            }
        }
    }
}
