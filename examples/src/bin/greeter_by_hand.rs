//! The greeter without the interface compiler, and with a count of those who were greeted:
//! `greeter_by_hand serve` and `greeter_by_hand greet NAME...`.
//!
//! The interface is written by hand: `HELLO` and `GREETED` are its transactions, [`Greeter`] is the
//! server's side (the stub) and [`GreeterProxy`] the client's.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use handoff_ipc::runtime::Runtime;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Call, Code, ExceptionCode, Proxy, Service, Status, Transaction};

/// The name under which the service is registered.
const NAME: &str = "sample.greeter";
/// The name of its interface.
const DESCRIPTOR: &str = "sample.IGreeter";

// ANCHOR: interface
/// `String hello(String name)`: greets somebody.
const HELLO: Code = 1;
/// `int greeted()`: how many were greeted.
const GREETED: Code = 2;
// ANCHOR_END: interface

// ANCHOR: service
/// The server's side.
#[derive(Default)]
struct Greeter {
    greeted: AtomicI32,
}

impl Service for Greeter {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            HELLO => reply.write(&self.hello(call, data.read()?)?),
            GREETED => reply.write(&self.greeted.load(Ordering::Relaxed)),
            _ => Err(transaction.unknown(DESCRIPTOR)),
        }
    }
}

impl Greeter {
    fn hello(&self, call: &Call, name: String) -> handoff_ipc::Result<String> {
        if name.is_empty() {
            // The caller gets this exception, with its message.
            return Err(Status::new(ExceptionCode::IllegalArgument, "nobody has an empty name").into());
        }
        self.greeted.fetch_add(1, Ordering::Relaxed);
        // Who calls is what the kernel says, not what the caller says.
        Ok(format!("Hello {name} (user {})", call.identity().uid))
    }
}
// ANCHOR_END: service

// ANCHOR: proxy
/// The client's side.
struct GreeterProxy(Binder);

impl Proxy for GreeterProxy {
    const DESCRIPTOR: &'static str = DESCRIPTOR;

    fn wrap(binder: Binder) -> Self {
        Self(binder)
    }
}

impl GreeterProxy {
    fn hello(&self, name: &str) -> handoff_ipc::Result<String> {
        self.0
            .transaction(HELLO)
            .interface(Self::INTERFACE)
            .call(|data| data.write_string16(name), |reply| reply.read())
    }

    fn greeted(&self) -> handoff_ipc::Result<i32> {
        self.0.transaction(GREETED).interface(Self::INTERFACE).call(|_| Ok(()), |reply| reply.read())
    }
}
// ANCHOR_END: proxy

// ANCHOR: main
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => serve(),
        ["greet", names @ ..] if !names.is_empty() => greet(names),
        _ => bail!("say `greeter_by_hand serve`, or `greeter_by_hand greet NAME...`"),
    }
}

fn serve() -> Result<()> {
    let runtime = Runtime::connect()?;
    runtime.services().add(NAME, Binder::new(Greeter::default()), ServiceOptions::default())?;
    println!("{NAME} is there; Ctrl-C ends it");
    runtime.join_thread_pool();
    Ok(())
}

fn greet(names: &[&str]) -> Result<()> {
    let runtime = Runtime::connect()?;
    let greeter: GreeterProxy = runtime.services().wait_for_proxy(NAME, Duration::from_secs(5))?;
    for name in names {
        println!("{}", greeter.hello(name)?);
    }
    println!("{} greeted so far", greeter.greeted()?);
    Ok(())
}
// ANCHOR_END: main
