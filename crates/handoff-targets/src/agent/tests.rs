use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::address::Address;
use crate::error::{Result, TargetError};
use crate::session::Session;
use crate::target::{Sink, Stream, Target};

const LIMIT: Duration = Duration::from_secs(60);

/// A machine whose agent says what a test wants it to say, in pieces of a few bytes.
struct Says {
    out: Vec<u8>,
    err: Vec<u8>,
    status: i32,
}

impl Target for Says {
    fn address(&self) -> Address {
        Address::Ssh { destination: "says".to_owned(), port: None }
    }

    fn shell(
        &mut self,
        script: &str,
        _: Option<&mut File>,
        _: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32> {
        if script.contains("'agent'") {
            self.out.chunks(3).for_each(|piece| sink(Stream::Stdout, piece));
            sink(Stream::Stderr, &self.err);
            return Ok(self.status);
        }
        // What it is asked when it is connected to.
        sink(Stream::Stdout, b"arch x86_64\nkernel 6\ncpus 1\nuser 0\ntime 5\nfolder /f\n");
        Ok(0)
    }

    fn has(&self, _: &Path) -> Option<String> {
        Some("/f/handoff".to_owned())
    }
}

fn agent(out: impl Into<Vec<u8>>, err: &str, status: i32) -> Agent {
    let says = Says { out: out.into(), err: err.into(), status };
    Agent::on(Session::on(Box::new(says)).expect("it answers"), Path::new("handoff")).expect("it is there")
}

fn ask(out: impl Into<Vec<u8>>) -> (Result<u32>, Vec<Value>) {
    let mut events = Vec::new();
    let question = Question { longest_line: 1000, ..Question::new("count", LIMIT) };
    let done = agent(out, "", 0).ask_telling(&question, &json!(null), &mut |event| events.push(event));
    (done, events)
}

const HELLO: &str = "{\"agent\":{\"version\":1,\"program\":\"x\"}}\n";

#[test]
fn an_answer_is_read_behind_the_greeting_of_a_shell() {
    let (done, events) = ask(format!(
        "Welcome!\n{{\"done\":1}}\n{HELLO}{{\"alive\":0}}\n{{\"event\":[1]}}\n{{\"done\":5}}\nmore"
    ));
    assert_eq!((done.expect("an answer"), events), (5, vec![json!([1])]));
}

#[test]
fn what_is_no_answer_is_an_error_that_says_what_came() {
    let error = |out: String| ask(out).0.expect_err("no answer").to_string();
    assert!(error(format!("{HELLO}x\n")).contains("makes no sense"), "no JSON");
    assert!(error(format!("{HELLO}{{\"done\":\"five\"}}\n")).contains("makes no sense"), "another type");
    assert!(
        error(format!("{HELLO}{}", "x".repeat(5000))).contains("more than 1000 bytes"),
        "a line without end"
    );
    assert!(error("x\n".repeat(40_000)).contains("no agent's first line"));
    assert!(error("x".repeat(70_000)).contains("more than 65536 bytes"));
    let other = error("{\"agent\":{\"version\":7,\"program\":\"9.9\"}}\n{\"done\":1}\n".to_owned());
    assert!(other.contains("7 (handoff 9.9)") && other.contains("version 1"), "{other}");
    assert_eq!(error(format!("{HELLO}{{\"failed\":\"no disk\"}}\n")), "on ssh://says: no disk");
    let escape = error(format!("{HELLO}{{\"failed\":\"a\\u001b[2Jb\"}}\n"));
    assert_eq!(escape, "on ssh://says: a [2Jb", "nothing there writes to our terminal as it likes");
    assert!(error(String::new()).contains("without an answer"));
}

#[test]
fn how_an_agent_ended_without_an_answer_is_told_apart() {
    let ended = |status, said: &str| {
        agent("", said, status)
            .ask::<u32>(&Question::new("count", LIMIT), &json!(null))
            .expect_err("no answer")
    };
    assert!(matches!(ended(127, "not found"), TargetError::NotStarted { said, .. } if said == "not found"));
    assert!(matches!(ended(137, ""), TargetError::Killed { status: 137, .. }));
    let wrong = ended(2, "error: unrecognized subcommand 'agent'").to_string();
    assert!(wrong.contains("status 2") && wrong.contains("'agent'"), "{wrong}");
    let long = ended(2, &"x".repeat(1 << 20)).to_string();
    assert!(long.len() < 10_000, "{} bytes are kept of what it says", long.len());
}

proptest! {
    #[test]
    fn whatever_a_machine_sends_is_an_answer_or_an_error(text in "[\\PC\n]{0,300}", greets in any::<bool>()) {
        let (done, _) = ask(if greets { format!("{HELLO}{text}") } else { text.clone() });
        prop_assert!(done.is_err() || text.contains("done"));
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn never() -> &'static AtomicBool {
    Box::leak(Box::default())
}

#[test]
fn requests_are_answered_one_after_the_other() {
    let kept = Kept::default();
    let ask = |version: u32, what: &str| {
        format!("{{\"agent\":{version},\"ask\":{what:?},\"alive\":false,\"with\":2}}\n")
    };
    let input = ask(1, "double") + &ask(1, "nonsense") + &ask(2, "double") + "{}\nhello\n";
    serve(input.as_bytes(), kept.clone(), "0.0", never(), &mut |request, teller| {
        teller.tell(&request.ask);
        match request.ask.as_str() {
            "double" => Ok(json!(request.with::<u64>().map_err(|error| error.to_string())? * 2)),
            other => Err(format!("no service {other}")),
        }
    })
    .expect("it can be read");
    let text = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "{\"agent\":{\"version\":1,\"program\":\"0.0\"}}",
            "{\"event\":\"double\"}",
            "{\"done\":4}",
            "{\"event\":\"nonsense\"}",
            "{\"failed\":\"no service nonsense\"}",
        ]
    );
    assert!(lines[5].contains("asked in version 2") && lines[6].contains("no version"), "{text}");
    assert!(lines[7].contains("this is no request") && lines.len() == 8, "{text}");
}

#[test]
fn an_agent_that_nobody_listens_to_is_told_to_stop() {
    struct Gone;
    impl io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let stop = never();
    let input = "{\"agent\":1,\"ask\":\"wait\",\"alive\":true,\"with\":null}\n";
    serve(input.as_bytes(), Gone, "0.0", stop, &mut |_, _| {
        // The beat's thread finds it out, without an event of ours.
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Value::Null)
    })
    .expect("it can be read");
}

#[test]
fn an_agent_of_this_machine_is_started_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let program: PathBuf = folder.path().join("it's handoff");
    let script = format!("#!/bin/sh\necho '{}'\nread line\necho \"{{\\\"done\\\":$line}}\"\n", HELLO.trim());
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    let mut agent = Agent::on(Session::open(&Address::Local).expect("here"), &program).expect("here");
    assert_eq!(agent.program(), program);
    let echo: Value = agent.ask(&Question::new("echo", LIMIT), &json!({ "a": [1, 2.5] })).expect("an echo");
    assert_eq!((&echo["ask"], &echo["with"]["a"][1]), (&json!("echo"), &json!(2.5)));
}

#[test]
fn a_long_request_takes_little_more_memory_than_its_line() {
    let input =
        format!("{{\"agent\":1,\"ask\":\"double\",\"alive\":false,\"with\":[{}0]}}\n", "0,".repeat(16 << 20));
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").expect("of this process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
    };
    let (kept, before) = (Kept::default(), peak());
    serve(input.as_bytes(), kept.clone(), "0.0", never(), &mut |request, _| {
        request.with::<u64>().map(Value::from).map_err(|error| error.to_string())
    })
    .expect("it can be read");
    let more = peak() - before;
    let text = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
    assert!(text.contains("failed") && text.contains("invalid type: sequence"), "{text}");
    // Its values are 512 MiB. Other tests run beside.
    assert!(more < 160, "{more} MiB more");
}
