//! An interface, its service and a client, in one process for brevity.

mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}

use std::time::Duration;

use handoff_ipc::Runtime;
use handoff_ipc::servicemanager::ServiceOptions;
use interfaces::sample::{AdderProxy, AdderStub, IAdder};

struct Adder;

impl IAdder for Adder {
    fn add(&self, a: i32, b: i32) -> handoff_ipc::Result<i32> {
        Ok(a.wrapping_add(b))
    }

    fn reset(&self) -> handoff_ipc::Result<()> {
        Ok(())
    }
}

fn main() -> handoff_ipc::Result<()> {
    // With a service manager of its own; `Runtime::connect()` finds that of the machine or of the user.
    let runtime = Runtime::private()?;
    // The service:
    runtime.services().add("adder", AdderStub::new(Adder).binder(), ServiceOptions::default())?;
    // The client, which may be any process that finds the manager:
    let adder: AdderProxy = runtime.services().find("adder")?;
    println!("2 + 3 = {}", adder.add(2, 3)?);
    println!("within a deadline: {}", adder.within(Duration::from_secs(5)).add(20, 22)?);
    Ok(())
}
