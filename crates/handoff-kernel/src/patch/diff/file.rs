//! One file of a patch: `diff --git`, its extended header, and the names and modes that must agree.

use super::super::path::{Named, PatchPath, named};
use super::super::{ChangeKind, FilePatch, PatchError, Problem};
use super::Parser;

impl Parser<'_> {
    /// `diff --git` and what follows it.
    pub(super) fn git_file(&mut self) -> Result<(), PatchError> {
        self.finish_message();
        let start = self.at;
        let line = self.lines[start];
        self.no_cr(line)?;
        let (strip, both) = split_git_names(&line["diff --git ".len()..]);
        let mut file = begun(start);
        self.at += 1;
        let mut from = None;
        let mut to = None;
        while let Some(line) = self.peek() {
            if line.starts_with("--- ") || line.starts_with("@@ -") || line.starts_with("diff --git ") {
                break;
            }
            if !self.extended_header(line, &mut file, &mut from, &mut to)? {
                break;
            }
            self.at += 1;
        }
        if let Some(line) = self.peek()
            && (line.starts_with("Binary files ") || line.starts_with("GIT binary patch"))
        {
            return self.error(Problem::Binary);
        }
        let (mut old, mut new) = (None, None);
        if self.peek().is_some_and(|line| line.starts_with("--- ")) {
            if !self.next_is_plus() {
                return self.error(Problem::NoPlus);
            }
            (old, new) = self.file_lines(strip)?;
        } else if self.peek().is_some_and(|line| line.starts_with("@@ -")) {
            return self.error(Problem::NoFile);
        }
        let named = match both {
            Some((old, new)) => Some((self.path_at(start, old, strip)?, self.path_at(start, new, strip)?)),
            None => None,
        };
        self.set_paths(start, &mut file, from.zip(to), old.zip(new), named)?;
        self.hunks(&mut file)?;
        if is_submodule(&file) {
            return self.error_at(start, Problem::Submodule);
        }
        self.check_kind(&file)?;
        self.patch().files.push(file);
        Ok(())
    }

    /// One line between `diff --git` and `---`; false if it is none.
    fn extended_header(
        &self,
        line: &str,
        file: &mut FilePatch,
        from: &mut Option<PatchPath>,
        to: &mut Option<PatchPath>,
    ) -> Result<bool, PatchError> {
        const KEYS: [&str; 11] = [
            "old mode ",
            "new mode ",
            "deleted file mode ",
            "new file mode ",
            "copy from ",
            "copy to ",
            "rename from ",
            "rename to ",
            "similarity index ",
            "dissimilarity index ",
            "index ",
        ];
        let Some(key) = KEYS.iter().find(|key| line.starts_with(**key)) else { return Ok(false) };
        self.no_cr(line)?;
        let value = &line[key.len()..];
        match *key {
            "old mode " => file.old_mode = Some(self.mode(value)?),
            "new mode " => file.new_mode = Some(self.mode(value)?),
            "deleted file mode " => {
                file.kind = ChangeKind::Delete;
                file.old_mode = Some(self.mode(value)?);
            }
            "new file mode " => {
                file.kind = ChangeKind::Create;
                file.new_mode = Some(self.mode(value)?);
            }
            "copy from " | "rename from " => *from = Some(self.path(value, 0)?),
            "copy to " => {
                file.kind = ChangeKind::Copy;
                *to = Some(self.path(value, 0)?);
            }
            "rename to " => {
                file.kind = ChangeKind::Rename;
                *to = Some(self.path(value, 0)?);
            }
            "index " => {
                let (ids, mode) = value.split_once(' ').unwrap_or((value, ""));
                if !mode.is_empty() {
                    self.mode(mode)?;
                }
                file.blobs = ids
                    .split_once("..")
                    .filter(|(a, b)| {
                        [a, b].iter().all(|id| id.len() >= 4 && id.bytes().all(|c| c.is_ascii_hexdigit()))
                    })
                    .map(|(a, b)| (a.to_owned(), b.to_owned()));
            }
            _ => {}
        }
        Ok(true)
    }

    fn mode(&self, value: &str) -> Result<u32, PatchError> {
        let Ok(mode) = u32::from_str_radix(value.trim(), 8) else {
            return self.error(Problem::BadMode(value.to_owned()));
        };
        if mode & 0o170_000 == 0o160_000 {
            return self.error(Problem::Submodule);
        }
        // Only ordinary files, and no symbolic links (0120000).
        if mode & 0o170_000 != 0o100_000 || mode & 0o7000 != 0 {
            return self.error(Problem::Mode(mode));
        }
        Ok(mode)
    }

    fn path(&self, field: &str, strip: usize) -> Result<PatchPath, PatchError> {
        match self.path_at(self.at, field, strip)? {
            Named::File(path) => Ok(path),
            Named::Nothing => {
                self.error(Problem::Path { path: field.to_owned(), why: "is no file of a tree" })
            }
        }
    }

    fn path_at(&self, index: usize, field: &str, strip: usize) -> Result<Named, PatchError> {
        named(field, strip).or_else(|problem| self.error_at(index, problem))
    }

    /// Reads the `---` and `+++` lines.
    fn file_lines(&mut self, strip: usize) -> Result<(Option<Named>, Option<Named>), PatchError> {
        let line = self.lines[self.at];
        self.no_cr(line)?;
        let old = self.path_at(self.at, &line[4..], strip)?;
        self.at += 1;
        let line = self.lines[self.at];
        self.no_cr(line)?;
        let new = self.path_at(self.at, &line[4..], strip)?;
        self.at += 1;
        Ok((Some(old), Some(new)))
    }

    /// Brings the up to three places that name a git diff's paths together.
    fn set_paths(
        &self,
        start: usize,
        file: &mut FilePatch,
        moved: Option<(PatchPath, PatchPath)>,
        lines: Option<(Named, Named)>,
        header: Option<(Named, Named)>,
    ) -> Result<(), PatchError> {
        let file_of = |named: Named| match named {
            Named::File(path) => Some(path),
            Named::Nothing => None,
        };
        let lines = lines.map(|(old, new)| (file_of(old), file_of(new)));
        let header = header.map(|(old, new)| (file_of(old), file_of(new)));
        let (old, new) = if let Some((from, to)) = moved {
            (Some(from), Some(to))
        } else if let Some((old, new)) = lines.clone() {
            match (&old, &new) {
                (None, Some(_)) => file.kind = ChangeKind::Create,
                (Some(_), None) => file.kind = ChangeKind::Delete,
                (None, None) => return self.error_at(start, Problem::NoFile),
                (Some(old), Some(new)) if old != new => {
                    return self.error_at(start, Problem::Mismatch(old.to_string(), new.to_string()));
                }
                _ => {}
            }
            (old, new)
        } else if let Some((old, new)) = header.clone() {
            match file.kind {
                ChangeKind::Create => (None, new),
                ChangeKind::Delete => (old, None),
                _ => (old, new),
            }
        } else {
            return self.error_at(start, Problem::NoFile);
        };
        for (first, other) in [
            (&old, lines.as_ref().and_then(|l| l.0.as_ref())),
            (&new, lines.as_ref().and_then(|l| l.1.as_ref())),
            (&old, header.as_ref().and_then(|h| h.0.as_ref())),
            (&new, header.as_ref().and_then(|h| h.1.as_ref())),
        ] {
            if let (Some(first), Some(other)) = (first, other)
                && first != other
            {
                return self.error_at(start, Problem::Mismatch(first.to_string(), other.to_string()));
            }
        }
        file.old_path = old;
        file.new_path = new;
        Ok(())
    }

    /// `---` and `+++` without `diff --git`: the work of `diff -u`.
    pub(super) fn plain_file(&mut self) -> Result<(), PatchError> {
        self.finish_message();
        let start = self.at;
        let (Some(old), Some(new)) = self.file_lines(self.limits.strip)? else {
            return self.error_at(start, Problem::NoPlus);
        };
        let mut file = begun(start);
        (file.old_path, file.new_path) = match (old, new) {
            (Named::Nothing, Named::Nothing) => return self.error_at(start, Problem::NoFile),
            (Named::Nothing, Named::File(new)) => {
                file.kind = ChangeKind::Create;
                (None, Some(new))
            }
            (Named::File(old), Named::Nothing) => {
                file.kind = ChangeKind::Delete;
                (Some(old), None)
            }
            (Named::File(old), Named::File(new)) if old == new => (Some(old), Some(new)),
            // The back-up copy that an editor or `patch` left is not another file.
            (Named::File(old), Named::File(new))
                if [".orig", "~", ".old"].iter().any(|end| old.as_str() == format!("{new}{end}")) =>
            {
                (Some(new.clone()), Some(new))
            }
            (Named::File(old), Named::File(new)) => {
                return self.error_at(start, Problem::Mismatch(old.to_string(), new.to_string()));
            }
        };
        if !self.peek().is_some_and(|line| line.starts_with("@@ -")) {
            let line = self.peek().unwrap_or("").to_owned();
            return self.error(Problem::Header(line));
        }
        self.hunks(&mut file)?;
        // `diff -N` writes both names even where one of the files does not exist.
        let one = file.hunks.len() == 1;
        if file.kind == ChangeKind::Modify
            && one
            && file.hunks[0].old_start == 0
            && file.hunks[0].new_start == 1
        {
            file.kind = ChangeKind::Create;
            file.old_path = None;
        } else if file.kind == ChangeKind::Modify
            && one
            && file.hunks[0].new_start == 0
            && file.hunks[0].old_start == 1
        {
            file.kind = ChangeKind::Delete;
            file.new_path = None;
        }
        if is_submodule(&file) {
            return self.error_at(start, Problem::Submodule);
        }
        self.check_kind(&file)?;
        self.patch().files.push(file);
        Ok(())
    }

    /// The file that the header at line `index` names: the new one, or the old one of a deleted file.
    pub(super) fn refused_path(&self, index: usize) -> String {
        let head = self.lines[index].trim_end();
        let strip = self.limits.strip;
        let joined = of_one_side(head).map(|(folder, name)| format!("{folder}/{name}"));
        let combined = head.strip_prefix("diff --cc ").or_else(|| head.strip_prefix("diff --combined "));
        let (strip, names) = match head.strip_prefix("diff --git ") {
            Some(names) => split_git_names(names),
            None if head.starts_with("@@ -") => (strip, None),
            None if combined.is_some() => (0, combined.zip(combined)),
            None if of_submodule(head).is_some() => (0, of_submodule(head).zip(of_submodule(head))),
            None if joined.is_some() => (strip, joined.as_deref().zip(joined.as_deref())),
            None if head.starts_with("*** ") => (strip, Some((&head[4..], &head[4..]))),
            None if two_binaries(head).is_some() => (strip, two_binaries(head)),
            None => {
                let new = self.lines.get(index + 1).and_then(|line| line.strip_prefix("+++ "));
                let old = head.strip_prefix("--- ").unwrap_or(head);
                (strip, Some((old, new.map_or(old, str::trim_end))))
            }
        };
        let file = |field| named(field, strip).ok().filter(|name| *name != Named::Nothing);
        match names.and_then(|(old, new)| file(new).or_else(|| file(old))) {
            Some(Named::File(path)) => path.to_string(),
            _ if head.starts_with("@@ -") => head.to_owned(),
            _ => head.rsplit_once(" b/").map_or(head, |(_, new)| new).to_owned(),
        }
    }

    /// A new file has no old lines, a deleted one no new ones.
    fn check_kind(&self, file: &FilePatch) -> Result<(), PatchError> {
        let wrong = match file.kind {
            ChangeKind::Create => {
                file.hunks.len() > 1 || file.hunks.iter().any(|h| h.before().next().is_some())
            }
            ChangeKind::Delete => {
                file.hunks.len() > 1 || file.hunks.iter().any(|h| h.after().next().is_some())
            }
            _ => false,
        };
        if wrong {
            let what = if file.kind == ChangeKind::Create { "new" } else { "deleted" };
            let line = file.hunks.last().map_or(file.line, |hunk| hunk.line);
            return Err(PatchError { line, problem: Problem::Impossible(what) });
        }
        Ok(())
    }
}

/// The folder and the name of `Only in FOLDER: NAME`, which `diff -r` writes of a file that one side lacks.
pub(super) fn of_one_side(line: &str) -> Option<(&str, &str)> {
    let (folder, name) = line.trim_end().strip_prefix("Only in ")?.split_once(": ")?;
    (!folder.is_empty() && !name.is_empty()).then_some((folder, name))
}

/// The path in `Submodule PATH 1234567..89abcde:`, which `git diff --submodule=log` writes.
pub(super) fn of_submodule(line: &str) -> Option<&str> {
    let (path, rest) = line.trim_end().strip_prefix("Submodule ")?.split_once(' ')?;
    let (old, new) = rest.split([' ', ':']).next()?.split_once("..")?;
    let is_id = |id: &str| id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id(old) && is_id(new.trim_start_matches('.'))).then_some(path)
}

/// True if all that a part changes is the commit at which a submodule stands. Without its mode, nothing else says so.
fn is_submodule(file: &FilePatch) -> bool {
    let is_commit = |line: &str| {
        let id = line.strip_prefix("Subproject commit ").map(|id| id.trim_end_matches("-dirty"));
        id.is_some_and(|id| matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let mut lines = file.hunks.iter().flat_map(|hunk| &hunk.lines).peekable();
    lines.peek().is_some() && lines.all(|line| is_commit(&line.text))
}

/// The two names of `Binary files OLD and NEW differ`.
pub(super) fn two_binaries(line: &str) -> Option<(&str, &str)> {
    line.trim_end().strip_prefix("Binary files ")?.strip_suffix(" differ")?.split_once(" and ")
}

/// A file of which nothing is known but the line, counted from 0, where it begins.
fn begun(start: usize) -> FilePatch {
    FilePatch {
        line: start + 1,
        kind: ChangeKind::Modify,
        old_path: None,
        new_path: None,
        old_mode: None,
        new_mode: None,
        blobs: None,
        hunks: Vec::new(),
    }
}

/// Splits the two names of a `diff --git` line and says how many components to strip.
///
/// Unquoted names may hold spaces, so they can be told apart only where both are the same file;
/// `None` where they are not, and then the lines below name them.
fn split_git_names(names: &str) -> (usize, Option<(&str, &str)>) {
    if let Some(inner) = names.strip_prefix('"') {
        return (1, inner.find("\" ").map(|end| (&names[..end + 2], names[end + 3..].trim_start())));
    }
    if names.len() % 2 == 1 && names.as_bytes()[names.len() / 2] == b' ' {
        let (old, new) = (&names[..names.len() / 2], &names[names.len() / 2 + 1..]);
        let same_tail = |text: &str| text.split_once('/').map(|(_, tail)| tail.to_owned());
        if old == new {
            // `git diff --no-prefix`.
            return (0, Some((old, new)));
        }
        if same_tail(old).is_some() && same_tail(old) == same_tail(new) {
            return (1, Some((old, new)));
        }
    }
    (1, None)
}
