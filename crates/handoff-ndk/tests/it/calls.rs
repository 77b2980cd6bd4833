//! Client and server in two processes.

use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, run};

fn call(workshop: &Workshop, client: From, server: From) {
    let server = workshop.compile("server.cpp", server, &[]);
    let client = workshop.compile("client.cpp", client, &[]);
    let _server = workshop.serve(&mut workshop.command(&server));
    let said = run(&mut workshop.command(&client));
    assert!(said.contains("all is well\n"), "{said}");
    // The client takes the lamp for its callback, and its callback for the lamp: the log names both.
    let [lamp, callback] = ["sample.hal.ILamp", "sample.hal.ILampCallback"];
    for (found, wanted) in [(lamp, callback), (callback, lamp)] {
        let wrong =
            format!("cannot use an object as {wanted}: the object has the interface {found}, not {wanted}\n");
        assert!(said.contains(&wrong), "{said}");
    }
}

#[test]
fn code_of_debians_compiler_calls_and_serves() {
    let compiler = require!(require_tool("g++"));
    require!(require_tool("aidl"));
    call(&Workshop::new(compiler), From::Debian, From::Debian);
}

#[test]
fn code_of_our_compiler_calls_and_serves() {
    let compiler = require!(require_tool("g++"));
    call(&Workshop::new(compiler), From::Ours, From::Ours);
}

#[test]
fn the_two_compilers_mix() {
    let compiler = require!(require_tool("g++"));
    require!(require_tool("aidl"));
    call(&Workshop::new(compiler.clone()), From::Debian, From::Ours);
    call(&Workshop::new(compiler), From::Ours, From::Debian);
}
