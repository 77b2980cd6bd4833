//! What the tests in Java call: serves `test.rust` and `test.mortal`, says at which socket, and ends with its standard
//! input. `mvn package` builds and starts it.

#[allow(dead_code, unused_imports)] // The tests in Rust use the rest.
#[path = "../../tests/service.rs"]
mod service;

use std::error::Error;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use handoff_ipc::Runtime;
use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_ipc::servicemanager::ServiceOptions;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("mortal") {
        let runtime = Runtime::connect()?;
        runtime.services().add("test.mortal", service::rust_service(), ServiceOptions::default())?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let runtime = Runtime::private()?;
    let socket = runtime.socket().ok_or("a private manager has a socket")?;
    runtime.services().add("test.rust", service::rust_service(), ServiceOptions::default())?;
    let mortal = Command::new(std::env::current_exe()?)
        .arg("mortal")
        .env(SOCKET_VARIABLE, socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let _mortal = service::Running(mortal);
    runtime.services().wait_for("test.mortal", Duration::from_secs(60))?;
    println!("{}", socket.display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
