//! Client and server in two processes.

use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, run};

fn call(workshop: &Workshop, client: From, server: From) {
    call_with(workshop, client, server, &[]);
}

fn call_with(workshop: &Workshop, client: From, server: From, flags: &[&str]) {
    let server = workshop.compile("server.cpp", server, flags);
    let client = workshop.compile("client.cpp", client, flags);
    let _server = workshop.serve(&mut workshop.command(&server));
    let said = run(&mut workshop.command(&client));
    assert!(said.ends_with("all is well\n"), "{said}");
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

#[test]
fn nothing_is_used_that_was_freed() {
    let compiler = require!(require_tool("g++"));
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
    call_with(&Workshop::new(compiler), From::Ours, From::Ours, &flags);
}
