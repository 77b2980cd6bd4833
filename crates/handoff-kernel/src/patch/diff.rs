//! The parser: lines of an input to a [`Series`], or the line that stands in the way.

use super::mail;
use super::path::{Named, PatchPath, named};
use super::text;
use super::{ChangeKind, FilePatch, Hunk, HunkLine, Limits, Op, Patch, PatchError, Problem, Series};

/// Reads a unified diff, a `git format-patch` file or a mailbox of them.
///
/// # Errors
///
/// [`PatchError`] names the line and what is wrong with it. Nothing is guessed: a hunk with a wrong
/// count, a cut file, a binary change or a path that could leave the tree refuses the whole input.
pub fn parse(input: &[u8], limits: &Limits) -> Result<Series, PatchError> {
    if input.len() > limits.bytes {
        return Err(PatchError { line: 1, problem: Problem::TooLarge(input.len(), limits.bytes) });
    }
    for (index, line) in input.split(|&b| b == b'\n').enumerate() {
        if line.len() > limits.line_bytes {
            let problem = Problem::LineTooLong(line.len(), limits.line_bytes);
            return Err(PatchError { line: index + 1, problem });
        }
        if line.contains(&0) {
            return Err(PatchError { line: index + 1, problem: Problem::ZeroByte });
        }
    }
    let text = text::decode(input);
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let mut parser = Parser { lines, at: 0, limits, series: Series::default(), prose: true };
    parser.run()?;
    parser.series.patches.retain(|patch| !patch.files.is_empty());
    if parser.series.patches.is_empty() {
        return Err(PatchError { line: parser.lines.len().max(1), problem: Problem::Empty });
    }
    Ok(parser.series)
}

struct Parser<'a> {
    lines: Vec<&'a str>,
    at: usize,
    limits: &'a Limits,
    series: Series,
    /// True while lines may be a commit message, in which anything may stand.
    prose: bool,
}

impl<'a> Parser<'a> {
    fn error<T>(&self, problem: Problem) -> Result<T, PatchError> {
        self.error_at(self.at, problem)
    }

    fn error_at<T>(&self, index: usize, problem: Problem) -> Result<T, PatchError> {
        Err(PatchError { line: (index + 1).min(self.lines.len().max(1)), problem })
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// Refuses a structural line that ends in CR.
    fn no_cr(&self, line: &str) -> Result<(), PatchError> {
        if line.ends_with('\r') { self.error(Problem::Crlf) } else { Ok(()) }
    }

    fn patch(&mut self) -> &mut Patch {
        if self.series.patches.is_empty() {
            self.series.patches.push(Patch::default());
        }
        self.series.patches.last_mut().expect("one was pushed")
    }

    fn run(&mut self) -> Result<(), PatchError> {
        while let Some(line) = self.peek() {
            if mail::starts_message(line) || (self.prose && self.at_mail_header(line)) {
                self.message()?;
            } else if line.starts_with("diff --git ") {
                self.git_file()?;
            } else if line.starts_with("diff --cc ") || line.starts_with("diff --combined ") {
                return self.error(Problem::Combined);
            } else if line.starts_with("--- ") && self.next_is_plus() {
                self.plain_file()?;
            } else if line.starts_with("@@ -") && !self.prose {
                return self.error(Problem::NoFile);
            } else if !self.prose
                && (line.starts_with("Binary files ") || line.starts_with("GIT binary patch"))
            {
                return self.error(Problem::Binary);
            } else {
                self.prose_line(line);
                self.at += 1;
            }
        }
        // A diff that starts with its hunk has no file to which it could belong.
        if self.series.patches.iter().all(|patch| patch.files.is_empty()) {
            if let Some(index) = self.lines.iter().position(|line| line.starts_with("@@ -")) {
                return self.error_at(index, Problem::NoFile);
            }
            if let Some(index) = self.lines.iter().position(|line| line.starts_with("Binary files ")) {
                return self.error_at(index, Problem::Binary);
            }
        }
        Ok(())
    }

    fn at_mail_header(&self, line: &str) -> bool {
        mail::is_header(line)
            && self.series.patches.last().is_none_or(|patch| {
                patch.commit.is_none() && patch.subject.is_empty() && patch.message.is_empty()
            })
    }

    fn next_is_plus(&self) -> bool {
        self.lines.get(self.at + 1).is_some_and(|next| next.starts_with("+++ "))
    }

    fn message(&mut self) -> Result<(), PatchError> {
        let mut patch = Patch::default();
        self.at = mail::headers(&self.lines, self.at, &mut patch)?;
        self.series.patches.push(patch);
        self.prose = true;
        Ok(())
    }

    /// A line outside of any diff: the commit message, a diffstat, a signature.
    fn prose_line(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix("commit ").and_then(|rest| rest.split_whitespace().next())
            && mail::is_commit_id(id)
        {
            // The output of `git log -p` or `git show`.
            self.series.patches.push(Patch { commit: Some(id.to_owned()), ..Patch::default() });
            self.prose = true;
            return;
        }
        if !self.prose {
            return;
        }
        if line == "---" {
            self.prose = false;
            return;
        }
        let patch = self.patch();
        if patch.author.is_none()
            && patch.message.is_empty()
            && let Some(author) = line.strip_prefix("Author: ")
        {
            patch.author = Some(author.trim().to_owned());
        } else if patch.date.is_none()
            && patch.message.is_empty()
            && let Some(date) = line.strip_prefix("Date: ")
        {
            patch.date = Some(date.trim().to_owned());
        } else if patch.message.is_empty() && line.trim().is_empty() {
            // The empty line above the text is not part of it.
        } else if let (true, Some(author)) = (patch.message.is_empty(), line.strip_prefix("From: ")) {
            patch.author = Some(author.to_owned());
        } else if patch.subject.is_empty() && patch.commit.is_some() {
            patch.subject = line.trim().to_owned();
        } else {
            patch.message.push_str(line);
            patch.message.push('\n');
        }
    }

    fn finish_message(&mut self) {
        self.prose = false;
        let patch = self.patch();
        let trimmed = patch.message.trim().len();
        if trimmed != patch.message.len() {
            patch.message = patch.message.trim().to_owned();
        }
    }

    /// `diff --git` and what follows it.
    fn git_file(&mut self) -> Result<(), PatchError> {
        self.finish_message();
        let start = self.at;
        let line = self.lines[start];
        self.no_cr(line)?;
        let (strip, both) = split_git_names(&line["diff --git ".len()..]);
        let mut file = FilePatch {
            line: start + 1,
            kind: ChangeKind::Modify,
            old_path: None,
            new_path: None,
            old_mode: None,
            new_mode: None,
            blobs: None,
            hunks: Vec::new(),
        };
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
        // Only ordinary files: no symbolic links (0120000) and no submodules (0160000).
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
    fn plain_file(&mut self) -> Result<(), PatchError> {
        self.finish_message();
        let start = self.at;
        let (Some(old), Some(new)) = self.file_lines(self.limits.strip)? else {
            return self.error_at(start, Problem::NoPlus);
        };
        let mut file = FilePatch {
            line: start + 1,
            kind: ChangeKind::Modify,
            old_path: None,
            new_path: None,
            old_mode: None,
            new_mode: None,
            blobs: None,
            hunks: Vec::new(),
        };
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
        self.check_kind(&file)?;
        self.patch().files.push(file);
        Ok(())
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

    fn hunks(&mut self, file: &mut FilePatch) -> Result<(), PatchError> {
        while self.peek().is_some_and(|line| line.starts_with("@@ -")) {
            let hunk = self.hunk()?;
            if let Some(last) = file.hunks.last()
                && hunk.old_start < last.old_start + last.before().count()
            {
                return Err(PatchError { line: hunk.line, problem: Problem::Order(hunk.old_start) });
            }
            file.hunks.push(hunk);
        }
        if self.peek().is_some_and(|line| line.starts_with("@@")) {
            let line = self.lines[self.at].to_owned();
            return self.error(Problem::Header(line));
        }
        Ok(())
    }

    fn hunk(&mut self) -> Result<Hunk, PatchError> {
        let header = self.lines[self.at];
        self.no_cr(header)?;
        let Some((old, new, heading)) = hunk_header(header) else {
            return self.error(Problem::Header(header.to_owned()));
        };
        let claimed = old.1 + new.1;
        if claimed > self.limits.hunk_lines {
            return self.error(Problem::HunkTooLong(claimed, self.limits.hunk_lines));
        }
        let mut hunk = Hunk {
            line: self.at + 1,
            old_start: old.0,
            new_start: new.0,
            heading: heading.to_owned(),
            lines: Vec::new(),
        };
        let (mut old_left, mut new_left) = (old.1, new.1);
        self.at += 1;
        loop {
            let line = self.peek();
            if let Some(line) = line.filter(|line| line.starts_with("\\ ")) {
                self.no_newline(line, &mut hunk, old_left, new_left)?;
                continue;
            }
            if old_left == 0 && new_left == 0 {
                break;
            }
            let short = Problem::Short { old: old_left, new: new_left };
            let Some(line) = line else {
                return self.error_at(self.lines.len().saturating_sub(1), short);
            };
            // Mail programs cut the space of an empty context line.
            let (op, text) = match line.as_bytes().first() {
                None => (Op::Context, ""),
                Some(b' ') => (Op::Context, &line[1..]),
                Some(b'+') => (Op::Add, &line[1..]),
                Some(b'-') if !(line.starts_with("--- ") && self.next_is_plus() && old_left == 0) => {
                    (Op::Remove, &line[1..])
                }
                Some(b'\r') if line == "\r" => return self.error(Problem::Crlf),
                _ => return self.error(short),
            };
            let (takes_old, takes_new) = (op != Op::Add, op != Op::Remove);
            if takes_old && old_left == 0 || takes_new && new_left == 0 {
                return self.error(Problem::Long);
            }
            old_left -= usize::from(takes_old);
            new_left -= usize::from(takes_new);
            hunk.lines.push(HunkLine { op, text: text.to_owned(), no_newline: false });
            self.at += 1;
        }
        if hunk.lines.iter().all(|line| line.op == Op::Context) {
            return Err(PatchError { line: hunk.line, problem: Problem::NoChange });
        }
        if let Some(line) = self.peek()
            && line.starts_with(['+', '-', ' '])
            && !(line.starts_with("--- ") && self.next_is_plus())
            && !matches!(line, "-- " | "--")
        {
            return self.error(Problem::Long);
        }
        Ok(hunk)
    }

    /// `\ No newline at end of file`: it says something of the line above, which must be the last.
    fn no_newline(
        &mut self,
        line: &str,
        hunk: &mut Hunk,
        old_left: usize,
        new_left: usize,
    ) -> Result<(), PatchError> {
        self.no_cr(line)?;
        let fits = hunk.lines.last().is_some_and(|last| match last.op {
            Op::Context => old_left == 0 && new_left == 0,
            Op::Remove => old_left == 0,
            Op::Add => new_left == 0,
        });
        match hunk.lines.last_mut() {
            Some(last) if fits && !last.no_newline => last.no_newline = true,
            _ => return self.error(Problem::Newline),
        }
        self.at += 1;
        Ok(())
    }
}

/// The first line of a range, and how many lines it has.
type Range = (usize, usize);

/// Reads `@@ -1,2 +3,4 @@ heading`.
fn hunk_header(line: &str) -> Option<(Range, Range, &str)> {
    let (ranges, heading) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        let number = |digits: &str| {
            // Nine digits cannot overflow and are more lines than any source file has.
            let plain = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let (start, count): Range = (number(start)?, number(count)?);
        (start > 0 || count == 0).then_some((start, count))
    };
    let heading = heading.strip_prefix(' ').unwrap_or(heading);
    Some((range(old)?, range(new)?, heading.trim_end()))
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
