//! What the host and the guest's first process say to each other over the virtio console's ports.
//!
//! | port | direction | what |
//! |---|---|---|
//! | `handoff.cmd` | both | one line a request, one line an answer |
//! | `handoff.in` | to the guest | standard input of the command that runs, as many bytes as announced |
//! | `handoff.out`, `handoff.err` | to the host | the command's output, between two marks |
//! | `handoff.warden` | both | questions that are answered while a command runs |
//!
//! A mark is `RS nonce B LF` before and `RS nonce E LF` behind a command's output, with a nonce that
//! the host draws for each command: what a left-over background process writes between two commands
//! belongs to none of them, and the end of a stream is known although the port stays open.

use super::GuestError;

/// Begins each mark: ASCII's record separator.
const MARK: u8 = 0x1e;
/// Longest line that is accepted from the guest (bytes).
const LONGEST_LINE: usize = 64 * 1024;

/// The ports, by the name that the guest finds them under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Command,
    Input,
    Output,
    Error,
    Warden,
}

impl Port {
    pub(crate) const ALL: [Self; 5] = [Self::Command, Self::Input, Self::Output, Self::Error, Self::Warden];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command => "cmd",
            Self::Input => "in",
            Self::Output => "out",
            Self::Error => "err",
            Self::Warden => "warden",
        }
    }
}

/// What the guest says on the command port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GuestMessage {
    /// It is up: kernel release, machine, CPUs that are online.
    Ready { release: String, machine: String, cpus: u32 },
    /// A command ended with this status.
    Done { nonce: String, status: i32 },
}

impl GuestMessage {
    pub(crate) fn parse(line: &str) -> Result<Self, GuestError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["ready", release, machine, cpus] => cpus.parse().ok().map(|cpus| Self::Ready {
                release: (*release).to_owned(),
                machine: (*machine).to_owned(),
                cpus,
            }),
            ["done", nonce, status] => {
                status.parse().ok().map(|status| Self::Done { nonce: (*nonce).to_owned(), status })
            }
            _ => None,
        };
        answer.ok_or_else(|| {
            let start: String = line.chars().take(80).collect();
            GuestError::Protocol(format!("{start:?}"))
        })
    }
}

/// Collects lines out of pieces.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, GuestError> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() + piece.len() > LONGEST_LINE {
                return Err(GuestError::Protocol(format!("a line of over {LONGEST_LINE} bytes")));
            }
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        }
        Ok(lines)
    }
}

/// Takes one command's output out of a port's stream.
#[derive(Debug)]
pub(crate) struct Marked {
    begin: Vec<u8>,
    end: Vec<u8>,
    state: State,
    /// What may be the start of the mark that is awaited.
    held: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Inside,
    Behind,
}

impl Marked {
    pub(crate) fn new(nonce: &str) -> Self {
        let mark = |letter: char| {
            let mut mark = vec![MARK];
            mark.extend(format!("{nonce}{letter}\n").as_bytes());
            mark
        };
        Self { begin: mark('B'), end: mark('E'), state: State::Before, held: Vec::new() }
    }

    /// Takes the next bytes of the port and gives those that are the command's.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        let mut data = std::mem::take(&mut self.held);
        data.extend_from_slice(bytes);
        let mut rest = data.as_slice();
        loop {
            let mark = match self.state {
                State::Before => &self.begin,
                State::Inside => &self.end,
                State::Behind => return content,
            };
            let found = find(rest, mark);
            let (before, after) = match found {
                MarkSearch::Whole(at) => (&rest[..at], &rest[at + mark.len()..]),
                MarkSearch::Start(at) => {
                    self.held = rest[at..].to_vec();
                    (&rest[..at], &rest[rest.len()..])
                }
                MarkSearch::Nothing => (rest, &rest[rest.len()..]),
            };
            if self.state == State::Inside {
                content.extend_from_slice(before);
            }
            if !matches!(found, MarkSearch::Whole(_)) {
                return content;
            }
            self.state = if self.state == State::Before { State::Inside } else { State::Behind };
            rest = after;
        }
    }

    /// Whether the mark behind the output was seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.state == State::Behind
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkSearch {
    Whole(usize),
    /// The data ends with the first bytes of the mark.
    Start(usize),
    Nothing,
}

fn find(data: &[u8], mark: &[u8]) -> MarkSearch {
    let mut from = 0;
    while let Some(offset) = data[from..].iter().position(|byte| *byte == MARK) {
        let at = from + offset;
        let rest = &data[at..];
        if rest.starts_with(mark) {
            return MarkSearch::Whole(at);
        }
        if mark.starts_with(rest) {
            return MarkSearch::Start(at);
        }
        from = at + 1;
    }
    MarkSearch::Nothing
}

/// Writes a word so that the guest's shell reads exactly these bytes, on one line.
pub(crate) fn quote(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:,+@%=".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut quoted = "$'".to_owned();
    for byte in word {
        match byte {
            b'\\' | b'\'' => {
                quoted.push('\\');
                quoted.push(char::from(*byte));
            }
            b' '..=b'~' => quoted.push(char::from(*byte)),
            other => quoted.push_str(&format!("\\{other:03o}")),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_read() {
        let line = "ready 6.1.0-56-amd64 x86_64 2";
        let answer = GuestMessage::parse(line).expect("an answer");
        assert!(matches!(answer, GuestMessage::Ready { cpus: 2, .. }));
        let done = GuestMessage::parse("done abc 127").expect("an answer");
        assert_eq!(done, GuestMessage::Done { nonce: "abc".into(), status: 127 });
        for bad in ["", "done", "done x y", "ready", "ready a b c", "hello"] {
            assert!(GuestMessage::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_is_between_the_marks_counts() {
        let mut marked = Marked::new("n1");
        assert_eq!(marked.push(b"stale\x1en1B\nhello\x1e"), b"hello");
        assert_eq!(marked.push(b"n1"), b"");
        assert!(!marked.is_complete());
        assert_eq!(marked.push(b"X\x1en1E\nlate"), b"\x1en1X");
        assert!(marked.is_complete());
        assert_eq!(marked.push(b"later"), b"");
    }

    #[test]
    fn another_commands_mark_is_only_data() {
        let mut marked = Marked::new("n2");
        assert_eq!(marked.push(b"\x1en1E\n\x1en2B\na\x1en1E\nb\x1en2E\n"), b"a\x1en1E\nb");
        assert!(marked.is_complete());
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut lines = Lines::default();
        assert!(lines.push(&[b'x'; LONGEST_LINE]).is_ok());
        assert!(lines.push(b"x").is_err());
    }

    #[test]
    fn words_are_quoted_only_where_they_must_be() {
        assert_eq!(quote(b"/bin/handoff"), "/bin/handoff");
        assert_eq!(quote(b""), "$''");
        assert_eq!(quote(b"it's"), "$'it\\'s'");
        assert_eq!(quote(b"a\nb\xff"), "$'a\\012b\\377'");
        assert_eq!(quote(b"$(reboot)"), "$'$(reboot)'");
    }

    /// bash reads `$'…'` as the guest's shell does; the guest's own is tried in a boot.
    #[test]
    fn a_shell_reads_what_was_quoted() {
        let bash = handoff_testkit::require!(handoff_testkit::require_tool("bash"));
        let mut script = "export LC_ALL=C; printf '%s\\0'".to_owned();
        let words: Vec<Vec<u8>> = (1..=255u8).map(|byte| vec![b'a', byte, b'7', byte]).collect();
        for word in &words {
            script.push(' ');
            script.push_str(&quote(word));
        }
        assert!(!script.contains('\n'));
        let output = std::process::Command::new(bash).args(["-c", &script]).output().expect("bash runs");
        let read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        assert_eq!(read.len(), words.len() + 1);
        assert!(read.iter().zip(&words).all(|(read, word)| read == word));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn content_survives_however_it_is_cut(
            content in prop::collection::vec(prop_oneof![Just(MARK), Just(b'n'), Just(b'E'), any::<u8>()], 0..200),
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            prop_assume!(!content.windows(4).any(|window| window == b"\x1enE\n"));
            let stream = [b"noise\x1enB\n", content.as_slice(), b"\x1enE\nnoise"].concat();
            let mut marked = Marked::new("n");
            let mut got = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                got.extend(marked.push(now));
                rest = later;
            }
            prop_assert!(marked.is_complete());
            prop_assert_eq!(got, content);
        }

        #[test]
        fn any_line_is_an_answer_or_an_error(line in "\\PC{0,60}") {
            drop(GuestMessage::parse(&line));
        }
    }
}
