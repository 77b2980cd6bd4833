//! The hunks of a file: headers, lines, and whether their counts agree.

use super::super::{FilePatch, Hunk, HunkLine, Op, PatchError, Problem};
use super::Parser;

impl Parser<'_> {
    pub(super) fn hunks(&mut self, file: &mut FilePatch) -> Result<(), PatchError> {
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
