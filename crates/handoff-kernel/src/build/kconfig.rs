//! Looks in a tree's Kconfig files for why a symbol could not be set.
//!
//! This is not an evaluation: conditions of enclosing menus and `if` blocks are not looked at. It
//! answers the usual cases, a dependency that is off and a name that does not exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::KernelArch;

/// Folders that hold no Kconfig files and many others.
const BARREN: [&str; 3] = ["Documentation", ".git", "tools"];

/// The symbols of a tree.
#[derive(Debug, Default)]
pub(crate) struct Kconfig {
    symbols: BTreeMap<String, Symbol>,
}

#[derive(Debug, Default)]
struct Symbol {
    depends: Vec<String>,
    has_prompt: bool,
    place: String,
}

impl Kconfig {
    /// Reads the Kconfig files of a tree but those of other architectures; what cannot be read is
    /// passed over.
    pub(crate) fn read(tree: &Path, arch: KernelArch) -> Self {
        let all_architectures = tree.join("arch");
        let mut kconfig = Self::default();
        let mut folders = vec![tree.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    let foreign = folder == all_architectures && name != arch.folder();
                    if !foreign && !BARREN.contains(&name.as_str()) {
                        folders.push(entry.path());
                    }
                } else if kind.is_file() && name.starts_with("Kconfig") {
                    kconfig.read_file(tree, &entry.path());
                }
            }
        }
        kconfig
    }

    /// Why a symbol does not have the value that was asked for, with the values that others have.
    pub(crate) fn explain(&self, symbol: &str, value: &impl Fn(&str) -> String) -> String {
        let name = symbol.strip_prefix("CONFIG_").unwrap_or(symbol);
        let Some(found) = self.symbols.get(name) else {
            return "no Kconfig file for this architecture has it: it is misspelt, or of another version"
                .to_owned();
        };
        for depends in &found.depends {
            let off: Vec<String> = names(depends)
                .filter(|other| value(&format!("CONFIG_{other}")) == "n")
                .map(|other| format!("{other} is n"))
                .collect();
            if !off.is_empty() {
                return format!("it depends on {depends} ({}); see {}", off.join(", "), found.place);
            }
        }
        if !found.has_prompt {
            return format!("it cannot be set by hand, other symbols select it; see {}", found.place);
        }
        format!("a condition around it or another symbol's choice decides; see {}", found.place)
    }

    fn read_file(&mut self, tree: &Path, path: &PathBuf) {
        let Ok(bytes) = std::fs::read(path) else { return };
        let text = String::from_utf8_lossy(&bytes).replace("\\\n", " ");
        let mut current: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let indented = line.starts_with([' ', '\t']);
            match (words.next(), words.next()) {
                (Some("config" | "menuconfig"), Some(name)) if !indented => {
                    let file = path.strip_prefix(tree).unwrap_or(path).display();
                    let symbol = self.symbols.entry(name.to_owned()).or_default();
                    if symbol.place.is_empty() {
                        symbol.place = format!("{file}:{}", index + 1);
                    }
                    current = Some(name.to_owned());
                }
                (Some(_), _) if !indented => current = None,
                (Some(word), second) => {
                    let Some(symbol) = current.as_ref().and_then(|name| self.symbols.get_mut(name)) else {
                        continue;
                    };
                    if word == "depends" && second == Some("on") {
                        let condition: Vec<&str> = line.split_whitespace().skip(2).collect();
                        symbol.depends.push(condition.join(" "));
                    }
                    let asks = matches!(word, "bool" | "tristate" | "string" | "int" | "hex" | "prompt");
                    symbol.has_prompt |= asks && second.is_some_and(|next| next.starts_with(['"', '\'']));
                }
                (None, _) => {}
            }
        }
    }
}

/// The symbols that a condition wants to be on: those without a `!` before them.
fn names(condition: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + condition[from..].find(word)?;
            let end = condition[start..].find(|c| !word(c)).map_or(condition.len(), |length| start + length);
            from = end;
            let name = &condition[start..end];
            let negated = condition[..start].trim_end().ends_with('!');
            let constant = matches!(name, "y" | "n" | "m") || name.starts_with(|c: char| c.is_ascii_digit());
            if !negated && !constant {
                return Some(name);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_that_must_be_on() {
        let found: Vec<&str> = names("(NET && !UML) || X86_64 = y && 64BIT").collect();
        assert_eq!(found, ["NET", "X86_64"]);
        assert_eq!(names("").count(), 0);
    }

    #[test]
    fn a_symbol_without_a_prompt_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "config HELPER\n\tbool\n\nconfig CHOSEN\n\tbool \"Chosen\"\n\tdepends on \\\n\t\tHELPER\n";
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        std::fs::write(folder.path().join("sub/Kconfig.x"), text).expect("written");
        let foreign = folder.path().join("arch/arm");
        std::fs::create_dir_all(&foreign).expect("made");
        std::fs::write(foreign.join("Kconfig"), "config FOREIGN\n\tbool \"f\"\n").expect("written");
        let kconfig = Kconfig::read(folder.path(), KernelArch::Arm64);
        let off = |_: &str| "n".to_owned();
        assert!(kconfig.explain("CONFIG_HELPER", &off).contains("select"));
        assert!(kconfig.explain("CONFIG_CHOSEN", &off).contains("HELPER is n"));
        assert!(kconfig.explain("CONFIG_CHOSEN", &off).contains("sub/Kconfig.x:4"));
        assert!(kconfig.explain("CONFIG_FOREIGN", &off).contains("no Kconfig file"));
        let on = |_: &str| "y".to_owned();
        assert!(kconfig.explain("CONFIG_CHOSEN", &on).contains("decides"));
    }

    proptest! {
        #[test]
        fn any_condition_is_read(text in "\\PC{0,40}") {
            prop_assert!(names(&text).all(|name| !name.is_empty()));
        }
    }
}
