//! Client and server in two processes.

use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, run};

#[test]
fn code_of_debians_compiler_calls_and_serves() {
    let compiler = require!(require_tool("g++"));
    require!(require_tool("aidl"));
    let workshop = Workshop::new(compiler);
    let server = workshop.compile("server.cpp", From::Debian, &[]);
    let client = workshop.compile("client.cpp", From::Debian, &[]);
    let _server = workshop.serve(&server);
    let said = run(&mut workshop.command(&client));
    assert!(said.ends_with("all is well\n"), "{said}");
}
