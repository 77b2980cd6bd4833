//! The parser: lines of an input to a [`Series`], or the line that stands in the way.

mod file;
mod hunk;

use std::collections::BTreeMap;

use super::mail;
use super::text;
use super::{Limits, Patch, PatchError, Problem, Refusal, Series};

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
    let mut no_text = BTreeMap::new();
    for (index, line) in input.split(|&b| b == b'\n').enumerate() {
        let problem = if line.len() > limits.line_bytes {
            Problem::LineTooLong(line.len(), limits.line_bytes)
        } else if line.contains(&0) {
            Problem::ZeroByte
        } else {
            continue;
        };
        if !limits.keep_going {
            return Err(PatchError { line: index + 1, problem });
        }
        no_text.insert(index, problem);
    }
    let text = text::decode(input);
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let mut parser = Parser {
        lines,
        no_text,
        at: 0,
        limits,
        series: Series::default(),
        prose: true,
        begun: 0,
        is_latin_1: false,
    };
    parser.run()?;
    parser.end_message()?;
    parser.series.patches.retain(|patch| !patch.files.is_empty() || !patch.refused.is_empty());
    if parser.series.patches.is_empty() {
        if let Some((line, problem)) = parser.no_text.pop_first() {
            return Err(PatchError { line: line + 1, problem });
        }
        return Err(PatchError { line: parser.lines.len().max(1), problem: Problem::Empty });
    }
    Ok(parser.series)
}

struct Parser<'a> {
    lines: Vec<&'a str>,
    /// What is wrong with lines, by their index, that no source file has. They refuse the part in which they stand.
    no_text: BTreeMap<usize, Problem>,
    at: usize,
    limits: &'a Limits,
    series: Series,
    /// True while lines may be a commit message, in which anything may stand.
    prose: bool,
    /// Index of the line with which the last message starts.
    begun: usize,
    /// True while the message, which is not ended yet, is written in Latin-1.
    is_latin_1: bool,
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
            let index = self.at;
            if mail::starts_message(line) || (self.prose && self.at_mail_header(line)) {
                self.message()?;
            } else if line.starts_with("diff --git ") {
                let read = self.git_file();
                let read = self.only_text(index, read);
                self.or_refuse(index, read)?;
            } else if line.starts_with("--- ") && self.next_is_plus() {
                let read = self.plain_file();
                let read = self.only_text(index, read);
                self.or_refuse(index, read)?;
            } else if let Some(problem) = self.no_unified_diff(index) {
                let read = self.error(problem);
                self.or_refuse(index, read)?;
            } else {
                self.prose_line(line)?;
                self.at += 1;
            }
        }
        Ok(())
    }

    /// Takes a part back that starts at line `index` and holds what is no text.
    fn only_text(&mut self, index: usize, read: Result<(), PatchError>) -> Result<(), PatchError> {
        read?;
        let Some(line) = self.no_text.range(index..self.at).next().map(|(line, _)| *line) else {
            return Ok(());
        };
        self.patch().files.pop();
        let problem = self.no_text.remove(&line).unwrap_or(Problem::ZeroByte);
        self.error_at(line, problem)
    }

    /// What is wrong with a part of a diff that starts at line `index` and cannot be ported, or names no file.
    ///
    /// A mail may quote such lines, so they are ignored there. Without a mail each begins a part.
    /// What no text has by chance is a part in a mail, too: the three lines of a context diff, and a file of one side or
    /// a binary one right above the next part.
    fn no_unified_diff(&self, index: usize) -> Option<Problem> {
        let line = self.lines[index];
        if line.starts_with("diff --cc ") || line.starts_with("diff --combined ") {
            return Some(Problem::Combined);
        }
        let next = |by: usize| self.lines.get(index + by).copied().unwrap_or("");
        if line.starts_with("*** ") && next(1).starts_with("--- ") && next(2).starts_with("*****") {
            return Some(Problem::Context);
        }
        let has_mail = |patch: &Patch| {
            patch.commit.is_some()
                || patch.author.is_some()
                || patch.date.is_some()
                || !patch.subject.is_empty()
        };
        let in_mail = self.prose && self.series.patches.last().is_some_and(has_mail);
        let begins = ["--- ", "diff ", "Only in ", "Binary files ", "Index: ", "Submodule ", "  > ", "  < "];
        if in_mail && !begins.iter().any(|begin| next(1).starts_with(begin)) {
            return None;
        }
        if file::of_one_side(line).is_some() {
            Some(Problem::OneSide)
        } else if file::two_binaries(line).is_some() {
            Some(Problem::Binary)
        } else if file::of_submodule(line).is_some() {
            Some(Problem::Submodule)
        } else if in_mail {
            None
        } else if line.starts_with("@@ -") {
            Some(Problem::NoFile)
        } else if line.starts_with("GIT binary patch") {
            Some(Problem::Binary)
        } else {
            None
        }
    }

    /// Leaves out the file's part that starts at line `index` if it could not be read, up to the next one.
    ///
    /// A path that could leave the tree refuses the whole input: whoever wrote it meant no good.
    fn or_refuse(&mut self, index: usize, read: Result<(), PatchError>) -> Result<(), PatchError> {
        let Err(error) = read else { return Ok(()) };
        if !self.limits.keep_going || matches!(error.problem, Problem::Path { .. } | Problem::HunkTooLong(..))
        {
            return Err(error);
        }
        self.finish_message();
        let path = self.refused_path(index);
        let refusal = Refusal { line: error.line, path, problem: error.problem.to_string() };
        self.patch().refused.push(refusal);
        // A hunk that is shorter than it says was read on into the next part. The names of this one may be still to come.
        self.at = index + 1;
        let mut own = self.lines[index].starts_with("diff --git ");
        while let Some(line) = self.peek() {
            let named = line.starts_with("--- ")
                && self.next_is_plus()
                && self.lines.get(self.at + 2).is_some_and(|line| line.starts_with("@@ -"));
            let ends = line.starts_with("diff --git ")
                || mail::starts_message(line)
                || named && !own
                || !line.starts_with("@@ -") && !own && self.no_unified_diff(self.at).is_some();
            if ends {
                break;
            }
            // Behind these lines nothing of the part follows that has names.
            let is_binary = line.starts_with("Binary files ") || line.starts_with("GIT binary patch");
            own &= !named && !is_binary;
            self.at += 1;
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
        self.end_message()?;
        let mut patch = Patch::default();
        (self.at, self.is_latin_1) = mail::headers(&self.lines, self.at, &mut patch)?;
        self.series.patches.push(patch);
        self.prose = true;
        self.begun = self.at;
        Ok(())
    }

    /// Names the parts of a message that has no other: its last lines above the signature, if `diff -r` wrote all of
    /// them.
    fn end_message(&mut self) -> Result<(), PatchError> {
        let holds = |patch: &Patch| !patch.files.is_empty() || !patch.refused.is_empty();
        if !self.prose || self.series.patches.last().is_none_or(holds) {
            return Ok(());
        }
        let text = &self.lines[self.begun..self.at];
        let text = &text[..text.iter().position(|line| *line == "-- ").unwrap_or(text.len())];
        let end = text.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
        let start = text[..end].iter().rposition(|line| line.trim().is_empty()).map_or(0, |blank| blank + 1);
        let problem = |line: &str| match (file::of_one_side(line), file::two_binaries(line)) {
            (Some(_), _) => Some(Problem::OneSide),
            (_, Some(_)) => Some(Problem::Binary),
            _ => None,
        };
        let Some(problems) = text[start..end].iter().map(|line| problem(line)).collect::<Option<Vec<_>>>()
        else {
            return Ok(());
        };
        for (index, problem) in (self.begun + start..).zip(problems) {
            if !self.limits.keep_going {
                return self.error_at(index, problem);
            }
            let refusal =
                Refusal { line: index + 1, path: self.refused_path(index), problem: problem.to_string() };
            self.patch().refused.push(refusal);
        }
        Ok(())
    }

    /// A line outside of any diff: the commit message, a diffstat, a signature.
    fn prose_line(&mut self, line: &'a str) -> Result<(), PatchError> {
        if let Some(id) = self.starts_log_entry(line) {
            self.end_message()?;
            self.series.patches.push(Patch { commit: Some(id.to_owned()), ..Patch::default() });
            self.is_latin_1 = false;
            self.prose = true;
            self.begun = self.at + 1;
            return Ok(());
        }
        if !self.prose {
            return Ok(());
        }
        if line == "---" {
            self.prose = false;
            return Ok(());
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
        Ok(())
    }

    /// The id in the first line of an entry of `git log -p` or `git show`: who wrote the commit stands below it.
    ///
    /// Mails of the stable kernels have such a line in their text: `commit <id> upstream.`
    fn starts_log_entry(&self, line: &'a str) -> Option<&'a str> {
        const BELOW: [&str; 5] = ["Author: ", "AuthorDate: ", "Merge: ", "Reflog: ", "tree "];
        let id = line.strip_prefix("commit ")?.split_whitespace().next()?;
        // What a signature's check printed stands between (`--show-signature`), of any program's words.
        let head = self.lines.get(self.at + 1..)?.iter().take(20).take_while(|line| !line.trim().is_empty());
        let is_head = |line: &&str| BELOW.iter().any(|below| line.starts_with(below));
        (mail::is_commit_id(id) && head.copied().any(|line| is_head(&line))).then_some(id)
    }

    fn finish_message(&mut self) {
        self.prose = false;
        // A diff is bytes, as its file is; the message is text.
        let is_latin_1 = std::mem::take(&mut self.is_latin_1);
        let patch = self.patch();
        let trimmed = patch.message.trim().len();
        if trimmed != patch.message.len() {
            patch.message = patch.message.trim().to_owned();
        }
        if is_latin_1 {
            patch.message = text::from_latin_1(&patch.message);
        }
    }
}
