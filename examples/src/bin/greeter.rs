//! A service that greets people, and its client: `greeter serve` and `greeter greet NAME...`.

use handoff_examples::interfaces::sample::{GreeterProxy, GreeterStub, IGreeter};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{ExceptionCode, Result, Runtime, Status, calling_identity};

struct Greeter;

impl IGreeter for Greeter {
    fn hello(&self, name: &str) -> Result<String> {
        if name.is_empty() {
            return Err(Status::new(ExceptionCode::IllegalArgument, "nobody has an empty name").into());
        }
        Ok(format!("Hello {name} (user {})", calling_identity().uid))
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(2).collect();
    let runtime = Runtime::connect()?;
    if names.is_empty() {
        let greeter = GreeterStub::new(Greeter).binder();
        runtime.services().add("sample.greeter", greeter, ServiceOptions::default())?;
        println!("sample.greeter is there; Ctrl-C ends it");
        runtime.join_thread_pool();
    } else {
        let greeter: GreeterProxy = runtime.services().find("sample.greeter")?;
        for name in names {
            println!("{}", greeter.hello(&name)?);
        }
    }
    Ok(())
}
