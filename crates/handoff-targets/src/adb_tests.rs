//! An adb server that is written for these tests, with this machine for its device.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::*;

fn request(stream: &mut TcpStream) -> Option<String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::from_str_radix(std::str::from_utf8(&length).ok()?, 16).ok()?;
    let mut text = vec![0; length];
    stream.read_exact(&mut text).ok()?;
    String::from_utf8(text).ok()
}

fn send(stream: &mut TcpStream, kind: u8, bytes: &[u8]) {
    let mut frame = vec![kind];
    frame.extend((bytes.len() as u32).to_le_bytes());
    frame.extend(bytes);
    stream.write_all(&frame).expect("sent");
}

/// Serves one connection: a transport, then a shell.
fn serve(mut stream: TcpStream) -> Option<()> {
    let transport = request(&mut stream)?;
    if transport != "host:transport:device-1" {
        let why = "device 'other' not found";
        write!(stream, "FAIL{:04x}{why}", why.len()).ok()?;
        return None;
    }
    stream.write_all(b"OKAY").ok()?;
    let service = request(&mut stream)?;
    let script = service.strip_prefix("shell,v2,raw:")?;
    stream.write_all(b"OKAY").ok()?;
    if script == "lie" {
        send(&mut stream, 77, b"?");
        return None;
    }
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let mut from = stream.try_clone().ok()?;
    thread::spawn(move || -> Option<()> {
        loop {
            let mut head = [0; 5];
            from.read_exact(&mut head).ok()?;
            let mut bytes = vec![0; u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize];
            from.read_exact(&mut bytes).ok()?;
            match head[0] {
                STDIN => stdin.write_all(&bytes).ok()?,
                _ => return None,
            }
        }
    });
    let mut out = BufReader::new(child.stdout.take()?);
    loop {
        let bytes = out.fill_buf().ok()?.to_vec();
        if bytes.is_empty() {
            break;
        }
        send(&mut stream, STDOUT, &bytes);
        out.consume(bytes.len());
    }
    let mut errors = Vec::new();
    child.stderr.take()?.read_to_end(&mut errors).ok()?;
    send(&mut stream, STDERR, &errors);
    let status = child.wait().ok()?.code().unwrap_or(255);
    send(&mut stream, EXIT, &[status as u8]);
    Some(())
}

/// Starts the server; gives its port.
pub(crate) fn server() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn shell(adb: &mut Adb, script: &str, input: Option<&mut File>) -> Result<(i32, String, String)> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status =
        adb.shell(script, input, Some(Duration::from_secs(60)), &mut |stream, bytes| match stream {
            Stream::Stdout => out.extend_from_slice(bytes),
            Stream::Stderr => err.extend_from_slice(bytes),
        })?;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ok((status, text(out), text(err)))
}

#[test]
fn a_device_runs_scripts_with_input_and_status() {
    let mut adb = Adb::at("device-1", server());
    let got = shell(&mut adb, "echo out; echo err >&2; exit 7", None).expect("it runs");
    assert_eq!(got, (7, "out\n".into(), "err\n".into()));
    let mut file = tempfile::tempfile().expect("a file");
    let content: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    file.write_all(&content).expect("written");
    std::io::Seek::rewind(&mut file).expect("rewound");
    let got = shell(&mut adb, "wc -c", Some(&mut file)).expect("it runs");
    assert_eq!((got.0, got.1.trim()), (0, "200000"));
}

#[test]
fn what_the_server_says_against_it_is_told() {
    let port = server();
    let error = shell(&mut Adb::at("other", port), "true", None).expect_err("no such device");
    assert_eq!(error.to_string(), "cannot reach adb://other: device 'other' not found");
    let error = shell(&mut Adb::at("device-1", port), "lie", None).expect_err("garbage");
    assert!(matches!(error, TargetError::Garbage { .. }), "{error}");
    let unused = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("bound").port();
    let error = shell(&mut Adb::at("device-1", unused), "true", None).expect_err("nobody listens");
    assert!(error.to_string().contains("adb start-server"), "{error}");
}

/// A server that answers each connection with these bytes, and then waits for its end.
fn liar(answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                drop(stream.write_all(&answer));
                drop(stream.shutdown(Shutdown::Write));
                drop(io::copy(&mut stream, &mut io::sink()));
            });
        }
    });
    port
}

#[test]
fn garbage_is_called_so_and_what_is_cut_off_is_lost() {
    let framed = |frames: &[u8]| [b"OKAYOKAY", frames].concat();
    let garbage = [
        b"HTTP/1.1 200".to_vec(),
        b"FAILzzzz".to_vec(),
        framed(&[STDOUT, 255, 255, 255, 255]),
        framed(&[77, 1, 0, 0, 0, 0]),
        framed(&[EXIT, 0, 0, 0, 0]),
    ];
    for answer in garbage {
        let error = shell(&mut Adb::at("device-1", liar(answer.clone())), "true", None).expect_err("garbage");
        assert!(matches!(error, TargetError::Garbage { .. }), "{answer:?}: {error}");
    }
    for answer in [b"OKAY".to_vec(), b"FAIL00ff".to_vec(), framed(&[]), framed(&[STDOUT, 9, 0, 0, 0, 1])] {
        let error = shell(&mut Adb::at("device-1", liar(answer.clone())), "true", None).expect_err("cut off");
        assert!(error.is_link(), "{answer:?}: {error}");
    }
    let mut out = Vec::new();
    let answer = framed(&[STDOUT, 2, 0, 0, 0, b'o', b'k', 9]);
    let mut adb = Adb::at("device-1", liar(answer));
    adb.shell("true", None, None, &mut |_, bytes| out.extend_from_slice(bytes)).expect_err("cut off");
    assert_eq!(out, b"ok", "what came before is not lost");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn no_answer_panics_or_hangs(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64), framed: bool) {
        let answer = if framed { [b"OKAYOKAY", bytes.as_slice()].concat() } else { bytes };
        let start = Instant::now();
        let _ = shell(&mut Adb::at("device-1", liar(answer)), "true", None);
        proptest::prop_assert!(start.elapsed() < Duration::from_secs(50));
    }
}

#[test]
fn a_device_that_trickles_does_not_get_round_the_deadline() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        // A frame of a mebibyte, a byte at a time.
        stream.write_all(&[b"OKAYOKAY".as_slice(), &[STDOUT, 0, 0, 16, 0]].concat()).expect("sent");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let limit = Some(Duration::from_millis(400));
    let error = Adb::at("device-1", port).shell("true", None, limit, &mut |_, _| {}).expect_err("too long");
    assert!(matches!(error, TargetError::Deadline { .. }), "{error}");
}

#[test]
fn a_deadline_ends_the_wait() {
    let mut adb = Adb::at("device-1", server());
    let limit = Some(Duration::from_millis(200));
    let error = adb.shell("sleep 3", None, limit, &mut |_, _| {}).expect_err("too long");
    assert!(matches!(error, TargetError::Deadline { .. }), "{error}");
}

#[test]
fn a_session_pushes_and_runs_on_a_device_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = Adb::at("device-1", server());
    let mut session = crate::Session::on(Box::new(InFolder(at, folder.path().display().to_string())))
        .expect("the device is looked at");
    let file = folder.path().join("program");
    std::fs::write(&file, "#!/bin/sh\necho it runs\n").expect("written");
    let there = session.push(&file).expect("pushed");
    let mut out = Vec::new();
    let done = session.run(&crate::Command::new(there), &mut |_, bytes| out.extend_from_slice(bytes));
    assert_eq!((done.expect("it runs").status, out.as_slice()), (0, &b"it runs\n"[..]));
}

/// A device whose folder is one of this test's.
struct InFolder(Adb, String);

impl Target for InFolder {
    fn address(&self) -> Address {
        self.0.address()
    }

    fn shell(
        &mut self,
        script: &str,
        input: Option<&mut File>,
        limit: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32> {
        self.0.shell(script, input, limit, sink)
    }

    fn folder(&self) -> Option<String> {
        Some(self.1.clone())
    }
}
