//! What stands between a patch and its text on the way: transfer encodings of mails, and compression.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::mail::{self, unbase64};
use super::text;

/// The mails of an input with their bodies decoded; what is no encoded mail stays as it is.
///
/// Of a mail with several parts, the text parts and the attached patches are put one behind the other.
pub(super) fn decode_mails(input: &[u8]) -> Cow<'_, [u8]> {
    let has = |what: &[u8]| input.windows(what.len()).any(|window| window.eq_ignore_ascii_case(what));
    if !has(b"content-transfer-encoding:") || !has(b"quoted-printable") && !has(b"base64") {
        return Cow::Borrowed(input);
    }
    let mut out = Vec::with_capacity(input.len());
    let lines: Vec<&[u8]> = input.split_inclusive(|&b| b == b'\n').collect();
    let mut at = 0;
    while at < lines.len() {
        let starts = |at: usize| {
            let line = String::from_utf8_lossy(lines[at]);
            mail::starts_message(line.trim_end())
        };
        let end = (at + 1..lines.len()).find(|&next| starts(next)).unwrap_or(lines.len());
        message(&lines[at..end], &mut out);
        at = end;
    }
    Cow::Owned(out)
}

/// Writes one message with its body decoded.
fn message(lines: &[&[u8]], out: &mut Vec<u8>) {
    let blank = |line: &[u8]| line == b"\n" || line == b"\r\n";
    let is_mail = lines.first().is_some_and(|line| {
        let line = String::from_utf8_lossy(line);
        mail::starts_message(line.trim_end()) || mail::is_header(&line) || header(&line).is_some()
    });
    let Some(head) = lines.iter().position(|line| blank(line)).filter(|_| is_mail) else {
        lines.iter().for_each(|line| out.extend_from_slice(line));
        return;
    };
    let headers = Headers::read(&lines[..head]);
    for line in &headers.kept {
        out.extend(text::encode(line));
        out.push(b'\n');
    }
    out.push(b'\n');
    body(&headers, &lines[head + 1..], out);
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
}

fn body(headers: &Headers, lines: &[&[u8]], out: &mut Vec<u8>) {
    if let Some(boundary) = &headers.boundary {
        let mark = format!("--{boundary}");
        let is_mark = |line: &&[u8]| line.starts_with(mark.as_bytes());
        let mut marks = (0..lines.len()).filter(|&at| is_mark(&lines[at])).peekable();
        while let Some(at) = marks.next() {
            let Some(&end) = marks.peek() else { break };
            let part = &lines[at + 1..end];
            let head = part.iter().position(|line| line.trim_ascii().is_empty()).unwrap_or(part.len());
            let inner = Headers::read(&part[..head]);
            if inner.is_text {
                body(&inner, part.get(head + 1..).unwrap_or_default(), out);
            }
        }
        return;
    }
    match headers.encoding.as_str() {
        "quoted-printable" => lines.iter().for_each(|line| quoted_printable(line, out)),
        "base64" => {
            let text: String =
                lines.iter().map(|line| String::from_utf8_lossy(line.trim_ascii()).into_owned()).collect();
            match unbase64(&text) {
                Some(bytes) => {
                    out.extend(bytes.split(|&b| b == b'\n').enumerate().flat_map(|(number, line)| {
                        let line = line.strip_suffix(b"\r").unwrap_or(line);
                        let end: &[u8] = if number > 0 { b"\n" } else { b"" };
                        [end, line].concat()
                    }))
                }
                None => lines.iter().for_each(|line| out.extend_from_slice(line)),
            }
        }
        _ => lines.iter().for_each(|line| out.extend_from_slice(line)),
    }
}

/// Decodes one line of quoted-printable text; what is no escape stays as it is.
fn quoted_printable(line: &[u8], out: &mut Vec<u8>) {
    let line = line.trim_ascii_end();
    let mut at = 0;
    while at < line.len() {
        let digits = line.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (line[at], digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            // A line that goes on in the next one.
            (b'=', _) if at + 1 == line.len() => return,
            (b'=', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out.push(b'\n');
}

/// What the headers of a mail or of one of its parts say.
struct Headers {
    /// All but those that say how the body is encoded.
    kept: Vec<String>,
    encoding: String,
    boundary: Option<String>,
    is_text: bool,
}

impl Headers {
    fn read(lines: &[&[u8]]) -> Self {
        let mut all: Vec<String> = Vec::new();
        for line in lines {
            let line = text::decode(line);
            let line = line.trim_end();
            match all.last_mut() {
                Some(last) if line.starts_with([' ', '\t']) => {
                    last.push(' ');
                    last.push_str(line.trim_start());
                }
                _ => all.push(line.to_owned()),
            }
        }
        let mut headers = Self { kept: Vec::new(), encoding: String::new(), boundary: None, is_text: true };
        for line in all {
            match header(&line) {
                Some((name, value)) if name == "content-transfer-encoding" => {
                    headers.encoding = value.trim().to_ascii_lowercase();
                }
                Some((name, value)) if name == "content-type" => {
                    let kind = value.trim().to_ascii_lowercase();
                    headers.is_text = ["text/", "multipart/"].iter().any(|start| kind.starts_with(start))
                        // Mail programs that do not know the ending attach a patch as some application's file.
                        || kind.starts_with("application/")
                            && ["patch", "diff", "mbox"].iter().any(|word| kind.contains(word));
                    headers.boundary = kind.starts_with("multipart/").then(|| boundary(value)).flatten();
                    if kind.starts_with("text/") {
                        // It says in which characters the message is written.
                        headers.kept.push(line.clone());
                    }
                }
                _ => headers.kept.push(line),
            }
        }
        headers
    }
}

/// The name, in small letters, and the value of a header.
fn header(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once(':')?;
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain.then(|| (name.to_ascii_lowercase(), value))
}

fn boundary(value: &str) -> Option<String> {
    let at = value.to_ascii_lowercase().find("boundary=")?;
    let rest = &value[at + "boundary=".len()..];
    Some(match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or("").to_owned(),
        None => rest.split(';').next().unwrap_or("").trim().to_owned(),
    })
}

/// The program that unpacks what starts with these bytes.
pub(super) fn unpacker(input: &[u8]) -> Option<&'static str> {
    match input {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("xz"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [b'B', b'Z', b'h', ..] => Some("bzip2"),
        _ => None,
    }
}

/// Unpacks with `program`, up to one byte more than `limit`.
pub(super) fn unpack(program: &str, input: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .args(["-d", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("it is packed, and `{program}` cannot be run: {error}"))?;
    let stdin = child.stdin.take();
    let mut out = Vec::new();
    let read = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that has read enough closes the pipe; what it made of it says whether all is well.
            drop(stdin.map(|mut stdin| stdin.write_all(input)));
        });
        let stdout = child.stdout.take();
        stdout.map_or(Ok(0), |stdout| stdout.take(limit as u64 + 1).read_to_end(&mut out))
    });
    read.map_err(|error| error.to_string())?;
    if out.len() > limit {
        drop(child.kill());
        drop(child.wait());
        return Ok(out);
    }
    let done = child.wait_with_output().map_err(|error| error.to_string())?;
    if done.status.success() {
        Ok(out)
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> String {
        String::from_utf8(decode_mails(text.as_bytes()).into_owned()).unwrap()
    }

    const HEAD: &str = "From: A B <a@example.org>\nSubject: [PATCH] x: y\n";

    #[test]
    fn quoted_printable_is_decoded() {
        let mail = format!(
            "{HEAD}Content-Transfer-Encoding: quoted-printable\n\n@@ -1 +1 @@\n-a =3D b;=20\n+Andr=C3=A9 goes =\non\n"
        );
        assert_eq!(decoded(&mail), format!("{HEAD}\n@@ -1 +1 @@\n-a = b; \n+André goes on\n"));
    }

    #[test]
    fn base64_is_decoded() {
        let mail = format!("{HEAD}Content-Transfer-Encoding: base64\n\nLWENCitiCg==\n");
        assert_eq!(decoded(&mail), format!("{HEAD}\n-a\n+b\n"));
    }

    #[test]
    fn the_text_parts_of_a_mail_are_put_together() {
        let mail = format!(
            "{HEAD}Content-Type: multipart/mixed; boundary=\"b1\"\n\n--b1\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\nhello=21\n--b1\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\nAAAA\n--b1\nContent-Type: text/x-patch\nContent-Transfer-Encoding: base64\n\nLWEKK2IK\n--b1--\n"
        );
        assert_eq!(decoded(&mail), format!("{HEAD}\nhello!\n-a\n+b\n"));
    }

    #[test]
    fn attached_patches_are_taken() {
        let mail = |kind: &str| {
            format!(
                "{HEAD}Content-Type: multipart/mixed; boundary=b1\n\n--b1\nContent-Type: text/plain\n\nsee below\n--b1\nContent-Type: {kind}\nContent-Transfer-Encoding:base64\n\nLWEKK2IK\n--b1--\n"
            )
        };
        for kind in
            ["application/x-patch", "application/octet-stream;\n name=\"0001-x.patch\"", "text/x-diff"]
        {
            assert_eq!(decoded(&mail(kind)), format!("{HEAD}\nsee below\n-a\n+b\n"), "{kind}");
        }
        assert_eq!(decoded(&mail("application/pdf")), format!("{HEAD}\nsee below\n"));
    }

    #[test]
    fn each_message_of_a_mailbox_has_its_own_encoding() {
        let from = format!("From {} Mon Sep 17 00:00:00 2001\n", "a".repeat(40));
        let plain = format!("{from}{HEAD}\nx =3D y\n");
        let encoded = format!("{from}{HEAD}Content-Transfer-Encoding: quoted-printable\n\nx =3D y\n");
        assert_eq!(
            decoded(&format!("{plain}{encoded}{plain}")),
            format!("{plain}{from}{HEAD}\nx = y\n{plain}")
        );
    }
}
