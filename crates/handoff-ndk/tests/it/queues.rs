//! Message queues of C++, with Rust at the other end.

use std::sync::Mutex;

use handoff_aidl::ClassOptions;
use handoff_examples::interfaces::sample::queues::sample::{Quality, Range};
use handoff_examples::interfaces::sample::queues::{IQueues, QueuesStub, Sample};
use handoff_ipc::queue::{Descriptor, MessageQueue, Synchronized, Unsynchronized};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Error, Result};
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};
use crate::here;

fn broken(error: impl ToString) -> Error {
    Error::BadQueue(error.to_string())
}

struct Queues {
    samples: MessageQueue<Sample, Unsynchronized>,
    writing: Mutex<()>,
}

impl IQueues for Queues {
    fn sum(&self, numbers: &Descriptor<i32, Synchronized>, count: i32) -> Result<i32> {
        let queue = MessageQueue::attach(numbers.try_clone()?)?;
        let (mut reader, mut sum) = (queue.reader().map_err(broken)?, 0);
        for _ in 0..count {
            let mut number = [0];
            reader.read_blocking(&mut number, None).map_err(broken)?;
            sum += number[0];
        }
        Ok(sum)
    }

    fn count(&self, numbers: &Descriptor<i32, Synchronized>, count: i32) -> Result<()> {
        let queue = MessageQueue::attach(numbers.try_clone()?)?;
        let _one = self.writing.lock();
        let mut writer = queue.writer().map_err(broken)?;
        (0..count).try_for_each(|number| writer.write_blocking(&[number], None)).map_err(broken)
    }

    fn samples(&self) -> Result<Descriptor<Sample, Unsynchronized>> {
        self.samples.descriptor()
    }
}

fn sample(at: i8) -> Sample {
    let range = |high| Range { unit: u16::from(b'V'), low: -0.5, high };
    Sample {
        at: at.into(),
        channel: -at,
        value: f32::from(at) / 2.0,
        quality: Quality::GOOD,
        ranges: [range(0.0), range(at.into())],
        is_last: at == 3,
    }
}

#[test]
fn queues_of_cpp_and_rust_have_each_other_at_the_other_end() {
    let compiler = require!(require_tool("g++"));
    let workshop = Workshop::new(compiler);
    let generated = tempfile::tempdir().unwrap();
    ours(&here().join("../../examples/interfaces/queues"), generated.path(), &ClassOptions::default());
    let program = workshop.compile_with("queues.cpp", From::Ours, generated.path(), &[]);
    let samples = MessageQueue::<Sample, Unsynchronized>::new(64).unwrap();
    samples.writer().unwrap().write(&[sample(1), sample(2), sample(3)]).unwrap();
    let queues = QueuesStub::new(Queues { samples, writing: Mutex::new(()) });
    workshop.manager.services().add("queues", queues.binder(), ServiceOptions::default()).unwrap();
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
