//! Paths that a patch names: only such as cannot leave the tree.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Problem;

/// A relative path inside a tree: no `..`, no empty component, nothing of `.git`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PatchPath(String);

impl PatchPath {
    /// Checks a path that is relative to the top of a tree.
    ///
    /// # Errors
    ///
    /// [`Problem::Path`] if it is absolute, leaves the tree or touches `.git`; [`Problem::Name`] if it holds characters
    /// with which a terminal or a shell could be fooled.
    pub fn new(path: &str) -> Result<Self, Problem> {
        let refuse = |why| Err(Problem::Path { path: path.escape_debug().to_string(), why });
        if path.is_empty() {
            return refuse("is empty");
        }
        if path.starts_with('/') {
            return refuse("is absolute: a patch names files relative to the top of the tree");
        }
        if path.as_bytes().get(1) == Some(&b':') {
            return refuse("looks like a path of another system");
        }
        if path.len() > 4096 {
            return refuse("is longer than any file system allows");
        }
        for component in path.split('/') {
            match component {
                "" => return refuse("has an empty component"),
                "." | ".." => return refuse("has a `.` or `..` component and could leave the tree"),
                _ if component.eq_ignore_ascii_case(".git") => {
                    return refuse("reaches into git's own folder");
                }
                _ if super::text::encode(component).len() > 255 => {
                    return refuse("has a component that is too long");
                }
                _ => {}
            }
        }
        let odd = |why| Err(Problem::Name { path: path.escape_debug().to_string(), why });
        if path.contains('\\') {
            return odd("holds a backslash, as a path of another system does");
        }
        if path.chars().any(char::is_control) {
            return odd("holds control characters");
        }
        Ok(Self(path.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as the file system has it: a name need not be UTF-8, see [`text`](super::text).
    pub fn on_disk(&self) -> PathBuf {
        super::text::to_path(&self.0)
    }

    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// Everything before the last component, without the slash; empty at the top of the tree.
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

impl TryFrom<String> for PatchPath {
    type Error = Problem;

    fn try_from(path: String) -> Result<Self, Problem> {
        Self::new(&path)
    }
}

impl From<PatchPath> for String {
    fn from(path: PatchPath) -> Self {
        path.0
    }
}

impl fmt::Display for PatchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a header line names: a file, or `/dev/null` for none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// `/dev/null`.
    Nothing,
    File(PatchPath),
}

/// A name without the time behind it: ` 2020-01-01 10:00:00`, where a mail program made a blank of the tab.
fn without_time(field: &str) -> &str {
    const TIME: &str = " 0000-00-00 00:00:00";
    let is_time = |at: &usize| {
        field.as_bytes().get(*at..*at + TIME.len()).is_some_and(|bytes| {
            bytes.iter().zip(TIME.bytes()).all(|(byte, like)| match like {
                b'0' => byte.is_ascii_digit(),
                _ => *byte == like,
            })
        })
    };
    let at = field.match_indices(' ').map(|(at, _)| at).find(is_time);
    at.map_or(field, |at| &field[..at])
}

/// Reads the path of a `---` or `+++` line, a rename line or half a `diff --git` line.
///
/// `strip` leading components are dropped first.
pub(super) fn named(field: &str, strip: usize) -> Result<Named, Problem> {
    // GNU diff puts a tab and the time behind the path; git does so only for paths with spaces.
    let field =
        if field.starts_with('"') { field } else { without_time(field.split('\t').next().unwrap_or("")) };
    let plain = unquote(field.trim_end_matches(' '))?;
    if plain == "/dev/null" {
        return Ok(Named::Nothing);
    }
    let mut rest = plain.as_str();
    if rest.starts_with('/') {
        // Stripping must not turn an absolute path into a harmless looking one.
        PatchPath::new(rest)?;
    }
    for _ in 0..strip {
        match rest.split_once('/') {
            Some((dropped, kept)) if !dropped.is_empty() && dropped != ".." => rest = kept,
            _ if rest.split('/').any(|part| part == "..") => break,
            _ => {
                return Err(Problem::Path {
                    path: plain.escape_debug().to_string(),
                    why: "has fewer leading components than are to be removed (see --strip)",
                });
            }
        }
    }
    PatchPath::new(rest).map(Named::File)
}

/// Undoes git's C-style quotes around unusual paths.
fn unquote(field: &str) -> Result<String, Problem> {
    let Some(inner) = field.strip_prefix('"') else { return Ok(field.to_owned()) };
    let bad = || Problem::Path { path: field.to_owned(), why: "has quotes that do not end" };
    let inner = inner.trim_end().strip_suffix('"').ok_or_else(bad)?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().ok_or_else(bad)? {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            first @ b'0'..=b'3' => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    match rest.next() {
                        Some(digit @ b'0'..=b'7') => value = value * 8 + (digit - b'0'),
                        _ => return Err(bad()),
                    }
                }
                bytes.push(value);
            }
            other => bytes.push(other),
        }
    }
    Ok(super::text::decode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_tree_are_refused() {
        for path in [
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//b",
            "",
            "a/./b",
            ".git/config",
            "x/.GIT/hooks/y",
            "a\\..\\b",
            "C:/x",
            "a/\u{7}b",
        ] {
            assert!(PatchPath::new(path).is_err(), "{path:?}");
        }
        assert_eq!(PatchPath::new("net/ipv4/tcp.c").unwrap().folder(), "net/ipv4");
    }

    #[test]
    fn stripping_cannot_hide_an_absolute_path() {
        assert!(named("/etc/passwd", 1).is_err());
        assert!(named("//etc/passwd", 1).is_err());
        assert!(named("../../etc/passwd", 1).is_err());
        assert!(named("a/../etc/passwd", 1).is_err());
        assert!(named("a//etc/passwd", 1).is_err());
        assert!(named("\"a/..\\057x\"", 1).is_err());
    }

    #[test]
    fn quotes_and_times_are_undone() {
        assert_eq!(
            named("\"a/na\\303\\257ve.c\"", 1).unwrap(),
            Named::File(PatchPath::new("naïve.c").unwrap())
        );
        let latin = named("\"a/na\\357ve.c\"", 1).unwrap();
        let Named::File(latin) = latin else { panic!("{latin:?}") };
        assert_eq!(latin.on_disk().as_os_str().as_encoded_bytes(), b"na\xefve.c");
        assert!(matches!(named("\"a/x\\a.c\"", 1), Err(Problem::Name { .. })));
        assert!(matches!(named("\"a/x\\\\y.c\"", 1), Err(Problem::Name { .. })));
        assert_eq!(
            named("a/x.c\t2014-01-01 00:00:00", 1).unwrap(),
            Named::File(PatchPath::new("x.c").unwrap())
        );
        assert_eq!(named("/dev/null\t1970-01-01", 1).unwrap(), Named::Nothing);
    }
}
