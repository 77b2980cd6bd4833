//! The service. The compiler of interfaces makes the trait, the proxy and the stub of `aidl/`.

use std::sync::atomic::{AtomicI32, Ordering};

use handoff_ipc::{ExceptionCode, Result, Status};

pub mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}

/// Counts those it greets.
#[derive(Default)]
pub struct Hello {
    greeted: AtomicI32,
}

impl interfaces::hello::IHello for Hello {
    fn greet(&self, name: &str) -> Result<String> {
        if name.is_empty() {
            // The caller gets this exception, with its text.
            return Err(Status::new(ExceptionCode::IllegalArgument, "nobody has an empty name").into());
        }
        self.greeted.fetch_add(1, Ordering::Relaxed);
        Ok(format!("Good day, {name}"))
    }

    fn greeted(&self) -> Result<i32> {
        Ok(self.greeted.load(Ordering::Relaxed))
    }
}
