//! The parser: lines of an input to a [`Series`], or the line that stands in the way.

mod file;
mod hunk;

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
    parser.series.patches.retain(|patch| !patch.files.is_empty() || !patch.refused.is_empty());
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
            let index = self.at;
            if mail::starts_message(line) || (self.prose && self.at_mail_header(line)) {
                self.message()?;
            } else if line.starts_with("diff --git ") {
                let read = self.git_file();
                self.or_refuse(index, read)?;
            } else if line.starts_with("--- ") && self.next_is_plus() {
                let read = self.plain_file();
                self.or_refuse(index, read)?;
            } else if let Some(problem) = self.no_unified_diff(index) {
                let read = self.error(problem);
                self.or_refuse(index, read)?;
            } else {
                self.prose_line(line);
                self.at += 1;
            }
        }
        Ok(())
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
        let begins = ["--- ", "diff ", "Only in ", "Binary files ", "Index: "];
        if in_mail && !begins.iter().any(|begin| next(1).starts_with(begin)) {
            return None;
        }
        if file::of_one_side(line).is_some() {
            Some(Problem::OneSide)
        } else if file::two_binaries(line).is_some() {
            Some(Problem::Binary)
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
}
