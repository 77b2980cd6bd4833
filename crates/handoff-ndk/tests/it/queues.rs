//! Message queues of C++, with Rust at the other end.

use std::sync::Mutex;

use handoff_aidl::ClassOptions;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::queue::{Descriptor, MessageQueue, Synchronized, Unsynchronized};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ParcelService};
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};
use crate::here;

#[derive(Debug, Clone, PartialEq)]
struct Sample {
    at: i64,
    channel: i8,
    value: f32,
}
handoff_ipc::queue_item!(Sample { at: i64, channel: i8, value: f32 });

fn broken(error: impl ToString) -> Error {
    Error::BadQueue(error.to_string())
}

/// Answers what the program calls, by the numbers of the methods.
fn service(samples: MessageQueue<Sample, Unsynchronized>) -> Binder {
    let numbers = |request: &mut Parcel| {
        let (descriptor, count): (Descriptor<i32, Synchronized>, i32) =
            request.read(|from| Ok((from.read()?, from.read()?)))?;
        Ok::<_, Error>((MessageQueue::attach(descriptor)?, count))
    };
    let writing = Mutex::new(());
    Binder::new(ParcelService::new("sample.queues.IQueues", move |call, mut request: Parcel| {
        let mut reply = Parcel::new();
        match call.code() {
            1 => {
                let (queue, count) = numbers(&mut request)?;
                let (mut reader, mut sum) = (queue.reader().map_err(broken)?, 0);
                for _ in 0..count {
                    let mut number = [0];
                    reader.read_blocking(&mut number, None).map_err(broken)?;
                    sum += number[0];
                }
                reply.write(|to| to.write(&sum))?;
            }
            2 => {
                let (queue, count) = numbers(&mut request)?;
                let _one = writing.lock();
                let mut writer = queue.writer().map_err(broken)?;
                (0..count).try_for_each(|number| writer.write_blocking(&[number], None)).map_err(broken)?;
            }
            3 => {
                let descriptor = samples.descriptor()?;
                reply.write(|to| to.write(&descriptor))?;
            }
            _ => return Ok(None),
        }
        Ok(Some(reply))
    }))
}

#[test]
fn queues_of_cpp_and_rust_have_each_other_at_the_other_end() {
    let compiler = require!(require_tool("g++"));
    let workshop = Workshop::new(compiler);
    let generated = tempfile::tempdir().unwrap();
    ours(&here().join("tests/sample/queues"), generated.path(), &ClassOptions::default());
    let program = workshop.compile_with("queues.cpp", From::Ours, generated.path(), &[]);
    let samples = MessageQueue::<Sample, Unsynchronized>::new(64).unwrap();
    let written: Vec<Sample> =
        (1..=3).map(|at: i8| Sample { at: at.into(), channel: -at, value: f32::from(at) / 2.0 }).collect();
    samples.writer().unwrap().write(&written).unwrap();
    workshop.manager.services().add("queues", service(samples), ServiceOptions::default()).unwrap();
    let said = run(&mut workshop.command(&program));
    assert!(said.lines().any(|line| line == "all is well"), "{said}");
    // What is no queue is said, with why.
    for why in [
        "0 messages of 4 bytes cannot be held",
        "its messages have 8 bytes",
        "its flavour is 2",
        "Read has -8 bytes",
    ] {
        assert!(said.contains(&format!("no usable message queue: {why}")), "{why}: {said}");
    }
}
