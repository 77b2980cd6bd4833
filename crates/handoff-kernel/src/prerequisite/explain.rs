//! What a compiler's error after a port means: which name lacks, what brought it in, what may go.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::history::{Commit, History};
use crate::build::Diagnostic;
use crate::patch::{Op, Series};

/// What a compiler does not find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Missing {
    /// A variable, function, macro, type or label.
    Name(String),
    /// A member of a struct or union.
    Member { of: String, member: String },
    /// A function that takes other arguments here.
    Arguments(String),
}

/// What can be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Advice {
    /// The tree has it in this header, which the file does not include.
    Include(String),
    /// This commit brought it in.
    Take { commit: Commit, file: String },
    /// The history at hand does not tell.
    Unknown,
}

/// A line of the series that uses what lacks: without it the error goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Use {
    /// The file of the patch.
    pub file: String,
    /// The hunk, from 1.
    pub hunk: usize,
    pub line: String,
}

/// An error with what it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub missing: Missing,
    /// What can be done.
    pub advice: Advice,
    /// The added lines of the series that use it.
    pub uses: Vec<Use>,
}

impl Missing {
    /// What an error of GCC or Clang says is missing.
    #[must_use]
    pub fn of(message: &str) -> Option<Self> {
        let plain = message.replace(['‘', '’', '`'], "'");
        let quoted: Vec<&str> = plain.split('\'').skip(1).step_by(2).collect();
        let first = || quoted.first().map(|name| (*name).to_owned());
        let is = |part: &str| plain.contains(part);
        if is("has no member named") || is("no member named") {
            // GCC names the type first, Clang the member.
            let (of, member) = if is("has no member named") {
                (quoted.first()?, quoted.get(1)?)
            } else {
                (quoted.get(1)?, quoted.first()?)
            };
            return Some(Self::Member { of: (*of).to_owned(), member: (*member).to_owned() });
        }
        if is("too few arguments to function") || is("too many arguments to function") {
            return first().map(Self::Arguments);
        }
        let named = [
            "undeclared",
            "implicit declaration of function",
            "unknown type name",
            "undefined reference to",
            "storage size of",
            "invalid use of undefined type",
            "dereferencing pointer to incomplete type",
        ];
        named.iter().any(|part| is(part)).then(first).flatten().map(Self::Name)
    }

    /// The word to look for, and the one that stands beside its definition.
    fn word(&self) -> &str {
        match self {
            Self::Name(name) | Self::Arguments(name) => name.rsplit(' ').next().unwrap_or(name),
            Self::Member { member, .. } => member,
        }
    }
}

/// Explains an error of the compiler after `series` was brought to the tree at `onto`.
///
/// `source` is the repository that the series was made for. `None` if the error is not about something
/// that lacks.
#[must_use]
pub fn explain(
    error: &Diagnostic,
    series: &Series,
    source: Option<&Path>,
    onto: &Path,
) -> Option<Explanation> {
    let missing = Missing::of(&error.message)?;
    let uses = uses(series, missing.word());
    let advice = here(&missing, onto).or_else(|| there(&missing, series, source?)).unwrap_or(Advice::Unknown);
    Some(Explanation { missing, advice, uses })
}

fn uses(series: &Series, word: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        for (index, hunk) in file.hunks.iter().enumerate() {
            let added = hunk.lines.iter().filter(|line| line.op == Op::Add && has_word(&line.text, word));
            uses.extend(added.map(|line| Use {
                file: file.path().to_string(),
                hunk: index + 1,
                line: line.text.trim().to_owned(),
            }));
        }
    }
    uses
}

/// A header of the tree itself that defines the name.
fn here(missing: &Missing, onto: &Path) -> Option<Advice> {
    let Missing::Name(_) = missing else { return None };
    let word = missing.word();
    let mut folders = vec![onto.join("include")];
    let mut headers = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| end == "h") => {
                    let text = std::fs::read(&path).unwrap_or_default();
                    if defines(&String::from_utf8_lossy(&text), word) {
                        headers.push(path.strip_prefix(onto).unwrap_or(&path).display().to_string());
                    }
                }
                _ => {}
            }
        }
    }
    headers.sort_by_key(|header| (header.len(), header.clone()));
    headers.into_iter().next().map(Advice::Include)
}

/// The commit of the source's history that brought it in.
fn there(missing: &Missing, series: &Series, source: &Path) -> Option<Advice> {
    let history = History::open(source).ok()?;
    let commit = series.patches.iter().rev().find_map(|patch| patch.commit.as_deref());
    let revision = history.before(commit)?;
    let word = missing.word();
    let defining = |file: &String| {
        history.file(&revision, file).is_some_and(|text| match missing {
            Missing::Member { of, .. } => {
                defines(&text, of.rsplit(' ').next().unwrap_or(of)) && has_word(&text, word)
            }
            _ => defines(&text, word),
        })
    };
    let mut files = history.files_with(&revision, word);
    // What is declared is in headers mostly, and there is only one such.
    files.sort_by_key(|file| (!file.ends_with(".h"), file.len(), file.clone()));
    let file = files.into_iter().take(200).find(defining)?;
    let commit = match missing {
        // The present form of the arguments came with the commit that changed the declaration last.
        Missing::Arguments(_) => {
            let text = history.file(&revision, &file)?;
            let line = text.lines().position(|line| defines(line, word))?;
            let origins = history.origins(&revision, &file, line + 1, 1).ok()?;
            let ids: Vec<String> = origins.into_iter().map(|(id, _)| id).collect();
            history.in_order(&ids).ok()?.into_iter().next()?
        }
        _ => history.introduced(&revision, &file, word)?,
    };
    Some(Advice::Take { commit, file })
}

/// True if a text defines or declares a word in the ways that C has, judged line by line.
fn defines(text: &str, word: &str) -> bool {
    text.lines().any(|line| {
        let Some(at) = find_word(line, word) else { return false };
        let (before, after) = (line[..at].trim(), line[at + word.len()..].trim_start());
        let declared = !before.is_empty()
            && !before.contains(['(', '=', ';', '"', '.', '>'])
            && !before.starts_with("return")
            && !before.starts_with("goto")
            && !before.starts_with(['*', '/'])
            && !line.starts_with(char::is_whitespace)
            && (after.starts_with(['(', ';', '[', '=', ',', '{']) || after.is_empty());
        let macro_name = before == "#define" || before == "# define";
        let enumerator =
            before.is_empty() && line.starts_with(char::is_whitespace) && after.starts_with([',', '=']);
        declared || macro_name || enumerator
    })
}

fn has_word(text: &str, word: &str) -> bool {
    find_word(text, word).is_some()
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        !word.is_empty()
            && !text[..at].chars().next_back().is_some_and(part)
            && !text[at + word.len()..].chars().next().is_some_and(part)
    })
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "this tree has no `{name}`, as far as that file sees"),
            Self::Member { of, member } => write!(f, "`{of}` has no member `{member}` in this tree"),
            Self::Arguments(name) => write!(f, "`{name}` takes other arguments in this tree"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.missing)?;
        match &self.advice {
            Advice::Include(header) => {
                write!(f, "\n  {header} has it: include that, which is one line of your own")?;
            }
            Advice::Take { commit, file } => {
                let id = commit.id.get(..12).unwrap_or(&commit.id);
                write!(
                    f,
                    "\n  it came into {file} with {id} (\"{}\"): bring that commit here first, as `{id}^!`",
                    commit.subject
                )?;
            }
            Advice::Unknown => {
                f.write_str(
                    "\n  no history at hand tells where it came from: name a repository with --source",
                )?;
            }
        }
        if !self.uses.is_empty() {
            f.write_str("\n  or do without: these lines of the series use it")?;
        }
        self.uses.iter().try_for_each(|one| write!(f, "\n    {} hunk {}: {}", one.file, one.hunk, one.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_of_both_compilers_say_what_lacks() {
        let name = |text: &str| Some(Missing::Name(text.to_owned()));
        let member =
            |of: &str, member: &str| Some(Missing::Member { of: of.to_owned(), member: member.to_owned() });
        for (message, missing) in [
            ("'nope' undeclared (first use in this function)", name("nope")),
            ("‘nope’ undeclared here (not in a function)", name("nope")),
            ("use of undeclared identifier 'nope'", name("nope")),
            ("implicit declaration of function 'f' [-Werror=implicit-function-declaration]", name("f")),
            ("unknown type name 'my_t'", name("my_t")),
            ("'struct tcp_sock' has no member named 'corked'", member("struct tcp_sock", "corked")),
            ("no member named 'corked' in 'struct tcp_sock'", member("struct tcp_sock", "corked")),
            ("too few arguments to function 'tcp_push'", Some(Missing::Arguments("tcp_push".to_owned()))),
            ("expected ';' before '}' token", None),
            ("undeclared", None),
        ] {
            assert_eq!(Missing::of(message), missing, "{message}");
        }
    }

    #[test]
    fn definitions_are_told_from_uses() {
        for text in [
            "int tcp_push(struct sock *sk);",
            "extern int tcp_push;",
            "#define tcp_push(x) (x)",
            "\ttcp_push,",
            "\ttcp_push = 3,",
            "struct tcp_push {",
            "static inline bool\ntcp_pushes(void);\nbool tcp_push(void)\n{",
        ] {
            assert!(defines(text, "tcp_push"), "{text}");
        }
        for text in [
            "\ttcp_push(sk);",
            "\treturn tcp_push;",
            "x = tcp_push;",
            " * tcp_push, of old",
            "int tcp_pusher;",
        ] {
            assert!(!defines(text, "tcp_push"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_message_is_survived(message in "(undeclared|has no member named|no member named|too few arguments to function|'|‘|’|[a-z ]){0,12}") {
            if let Some(missing) = Missing::of(&message) {
                prop_assert!(!missing.to_string().is_empty());
            }
            let _ = defines(&message, "a");
        }
    }
}
