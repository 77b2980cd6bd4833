//! `serve` offers the service until Ctrl-C; `greet NAME` calls it from another process.

use std::time::Duration;

use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{ExceptionCode, Runtime, Status};
use hello::Hello;
use hello::interfaces::hello::{HelloProxy, HelloStub, IHello};

/// The name under which others find the service.
const NAME: &str = "hello";

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> handoff_ipc::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Runtime::connect()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let service = HelloStub::new(Hello::default()).binder();
            runtime.services().add(NAME, service, ServiceOptions::default())?;
            println!("{NAME} is there; Ctrl-C ends it");
            runtime.join_thread_pool();
            Ok(())
        }
        ["greet", name] => {
            let hello: HelloProxy = runtime.services().wait_for_proxy(NAME, Duration::from_secs(5))?;
            println!("{}", hello.greet(name)?);
            Ok(())
        }
        _ => Err(Status::new(ExceptionCode::IllegalArgument, "say `serve`, or `greet NAME`").into()),
    }
}
