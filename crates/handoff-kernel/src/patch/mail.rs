//! The mail around a patch: `From ` lines of a mailbox, headers, and their encodings.

use super::{Patch, PatchError, Problem, text};

/// True for the line with which `git format-patch` and mailboxes start a message.
pub(super) fn starts_message(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("From ") else { return false };
    let mut words = rest.split_whitespace();
    let id = words.next().unwrap_or("");
    // `From <id> Mon Sep 17 00:00:00 2001`, or an address and a date in a mailbox of a mail reader.
    (is_commit_id(id) || id.contains('@') || id == "mboxrd") && words.count() >= 4
}

/// True for 40 (SHA-1) or 64 (SHA-256) hexadecimal digits.
pub(super) fn is_commit_id(word: &str) -> bool {
    matches!(word.len(), 40 | 64) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

/// True if `line` looks like the header of a mail, which starts a patch without a `From ` line.
pub(super) fn is_header(line: &str) -> bool {
    ["From: ", "Subject: ", "Date: ", "Message-Id: ", "Message-ID: "].iter().any(|h| line.starts_with(h))
}

/// Reads headers from `lines[at..]` into `patch`; returns the index behind the empty line, and whether the mail says that
/// it is written in Latin-1.
pub(super) fn headers(lines: &[&str], mut at: usize, patch: &mut Patch) -> Result<(usize, bool), PatchError> {
    let mut is_latin_1 = false;
    if let Some(rest) = lines[at].strip_prefix("From ") {
        patch.commit = rest.split_whitespace().next().filter(|id| is_commit_id(id)).map(str::to_owned);
        at += 1;
    }
    while at < lines.len() && !lines[at].is_empty() {
        let line_number = at + 1;
        if lines[at].ends_with('\r') {
            return Err(PatchError { line: line_number, problem: Problem::Crlf });
        }
        let mut value = lines[at].to_owned();
        at += 1;
        while at < lines.len() && lines[at].starts_with([' ', '\t']) {
            value.push(' ');
            value.push_str(lines[at].trim());
            at += 1;
        }
        let Some((name, value)) = value.split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "from" => patch.author = Some(decode_words(value)),
            "date" => patch.date = Some(value.to_owned()),
            "subject" => {
                let subject = decode_words(value);
                if let Some((series, number, count)) = number(&subject) {
                    (patch.series, patch.number) = (series, Some((number, count)));
                }
                patch.subject = plain_subject(&subject);
            }
            "content-type" => {
                let value = value.to_ascii_lowercase().replace(['"', ' '], "");
                let names = ["charset=iso-8859-1", "charset=latin1"];
                is_latin_1 = value.split(';').any(|part| names.contains(&part));
            }
            "content-transfer-encoding" => {
                let encoding = value.to_ascii_lowercase();
                if encoding == "quoted-printable" || encoding == "base64" {
                    return Err(PatchError { line: line_number, problem: Problem::Encoded(encoding) });
                }
            }
            _ => {}
        }
    }
    if is_latin_1 {
        let author = patch.author.take();
        patch.author = author.map(|author| text::from_latin_1(&author));
        patch.subject = text::from_latin_1(&patch.subject);
    }
    Ok(((at + 1).min(lines.len()), is_latin_1))
}

/// The subject without `Re:` and `[PATCH v2 3/5]`.
fn plain_subject(subject: &str) -> String {
    let mut rest = subject.trim();
    loop {
        if let Some(after) = rest.strip_prefix("Re:").or_else(|| rest.strip_prefix("RE:")) {
            rest = after.trim_start();
        } else if let Some((_, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            rest = after.trim_start();
        } else {
            return rest.to_owned();
        }
    }
}

/// Of `[PATCH v2 3/5]`: `PATCH v2`, the number of the mail in its series, and how many there are.
fn number(subject: &str) -> Option<(String, u32, u32)> {
    let (mark, _) = subject.trim().strip_prefix('[')?.split_once(']')?;
    let (numbers, words): (Vec<&str>, Vec<&str>) =
        mark.split_whitespace().partition(|word| word.contains('/'));
    let (number, count) = numbers.first()?.split_once('/')?;
    let (number, count) = (number.parse().ok()?, count.parse().ok()?);
    (number <= count).then(|| (words.join(" "), number, count))
}

/// Decodes the encoded words of RFC 2047 (`=?UTF-8?q?Andr=C3=A9?=`); what is none stays as it is.
fn decode_words(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    let mut after_word = false;
    while let Some(start) = rest.find("=?") {
        let (before, from) = rest.split_at(start);
        let Some((decoded, end)) = decode_word(from) else {
            out.push_str(before);
            out.push_str("=?");
            rest = &from[2..];
            after_word = false;
            continue;
        };
        // White space between two encoded words is not part of the text.
        if !(after_word && before.trim().is_empty()) {
            out.push_str(before);
        }
        out.push_str(&decoded);
        rest = &from[end..];
        after_word = true;
    }
    out.push_str(rest);
    out
}

/// Decodes the encoded word at the start of `text`; returns it and how many bytes it took.
fn decode_word(text: &str) -> Option<(String, usize)> {
    let mut parts = text.strip_prefix("=?")?.splitn(3, '?');
    let charset = parts.next()?;
    let method = parts.next()?;
    let rest = parts.next()?;
    let length = rest.find("?=")?;
    let payload = &rest[..length];
    let bytes = match method {
        "q" | "Q" => unquote_printable(payload)?,
        "b" | "B" => unbase64(payload)?,
        _ => return None,
    };
    let decoded = if charset.eq_ignore_ascii_case("iso-8859-1") {
        bytes.iter().map(|&b| char::from(b)).collect()
    } else {
        // What is no UTF-8 is left as it stands: a name is not to be damaged.
        String::from_utf8(bytes).ok()?
    };
    Some((decoded, 2 + charset.len() + 1 + method.len() + 1 + length + 2))
}

fn unquote_printable(payload: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = payload.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'_' => out.push(b' '),
            b'=' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

pub(super) fn unbase64(payload: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in payload.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xFF) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_other_alphabets_are_decoded() {
        assert_eq!(decode_words("=?UTF-8?q?Andr=C3=A9_X?= <a@b.c>"), "André X <a@b.c>");
        assert_eq!(decode_words("=?utf-8?B?546L6LSH?= <w@x.y>"), "王贇 <w@x.y>");
        assert_eq!(decode_words("=?utf-8?q?a?= =?utf-8?q?b?= c"), "ab c");
        assert_eq!(decode_words("x =? y"), "x =? y");
        assert_eq!(decode_words("=?GB2312?B?zfW2qw==?= <w@x.y>"), "=?GB2312?B?zfW2qw==?= <w@x.y>");
    }

    #[test]
    fn a_mail_of_a_series_has_a_number() {
        assert_eq!(
            number("[PATCH net-next v3 02/17] tcp: auto corking"),
            Some(("PATCH net-next v3".to_owned(), 2, 17))
        );
        assert_eq!(number("[PATCH] x: 1/2 of it"), None);
        assert_eq!(number("Re: [PATCH 1/2] x"), None);
        assert_eq!(number("[PATCH 3/2] x"), None);
    }

    #[test]
    fn the_subject_loses_its_marks() {
        assert_eq!(plain_subject("[PATCH v3 2/7] tcp: auto corking"), "tcp: auto corking");
        assert_eq!(plain_subject("Re: [RFC] [PATCH] x: y [z]"), "x: y [z]");
    }
}
