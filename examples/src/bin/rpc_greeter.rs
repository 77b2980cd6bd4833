//! The greeter without a service manager, over Binder RPC: `rpc_greeter serve SOCKET` and `rpc_greeter greet SOCKET NAME...`.
//! Android's `RpcSession` and `RpcServer` can be either side.

use std::path::PathBuf;

use handoff_examples::interfaces::sample::{GreeterProxy, GreeterStub, IGreeter};
use handoff_ipc::rpc::{RpcServer, RpcSession};
use handoff_ipc::{Proxy as _, Result, calling_identity};

struct Greeter;

impl IGreeter for Greeter {
    fn hello(&self, name: &str) -> Result<String> {
        Ok(format!("Hello {name} (user {})", calling_identity().uid))
    }
}

// ANCHOR: serve
fn serve(socket: PathBuf) -> Result<()> {
    let greeter = GreeterStub::new(Greeter).binder();
    let server = RpcServer::builder(socket).max_threads(4).serve(greeter)?;
    println!("the greeter is at {}; Ctrl-C ends it", server.address());
    loop {
        std::thread::park();
    }
}
// ANCHOR_END: serve

// ANCHOR: greet
fn greet(socket: PathBuf, names: &[String]) -> Result<()> {
    let session = RpcSession::connect(socket)?;
    let greeter = GreeterProxy::from_binder(session.root()?)?;
    for name in names {
        println!("{}", greeter.hello(name)?);
    }
    Ok(())
}
// ANCHOR_END: greet

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [role, socket] if role == "serve" => serve(socket.into()),
        [role, socket, names @ ..] if role == "greet" => greet(socket.into(), names),
        _ => {
            eprintln!("rpc_greeter serve SOCKET, or rpc_greeter greet SOCKET NAME...");
            std::process::exit(2);
        }
    }
}
