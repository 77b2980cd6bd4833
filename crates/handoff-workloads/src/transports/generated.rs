//! The interface of the published comparison, as the interface compiler makes it of its file: what generated code
//! costs beside calls that are written by hand.

mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}

use handoff_ipc::parcel::SharedBytes;
use handoff_ipc::{ExceptionCode, Result, Status};

pub(super) use interfaces::vendor::sample::benchmark::{
    BenchmarkProxy, BenchmarkStub, IBenchmark, SampleMessage,
};

use super::receiver::{Receiver, sum};

/// A message as the interface has it.
pub(super) fn message(data: Vec<u8>) -> SampleMessage {
    SampleMessage { size: data.len() as i32, data }
}

impl Receiver {
    fn read_message(&self, message: &SampleMessage) -> Result<()> {
        let counts = usize::try_from(message.size).ok().and_then(|size| message.data.get(..size));
        let Some(counts) = counts else {
            let what = format!("{} of {} bytes", message.size, message.data.len());
            return Err(Status::new(ExceptionCode::IllegalArgument, what).into());
        };
        self.complete(sum(SharedBytes::from_slice(counts)))
    }
}

impl IBenchmark for Receiver {
    fn write_message(&self, message: &SampleMessage) -> Result<()> {
        self.read_message(message)
    }

    fn write_message_oneway(&self, message: &SampleMessage) -> Result<()> {
        self.read_message(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_none_is_refused() {
        let receiver = Receiver::default();
        for size in [-1, 4, i32::MAX] {
            let refused = receiver.write_message(&SampleMessage { size, data: vec![1; 3] });
            assert!(refused.expect_err("refused").to_string().contains("of 3 bytes"), "{size}");
        }
    }
}
