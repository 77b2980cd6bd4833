//! `handoff aidl build --log`: classes of C++ that tell of every call.

use std::fs;

use handoff_aidl::ClassOptions;
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};

const INTERFACE: &str = "package sample.logged;
interface ILogged {
    String[] twice(in String[] value, inout int[] numbers, out String[] said);
    void fails();
}
";

#[test]
fn classes_of_cpp_tell_of_every_call() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let folder = tempfile::tempdir().unwrap();
    let (interfaces, generated) = (folder.path().join("sample/logged"), folder.path().join("cpp"));
    fs::create_dir_all(&interfaces).unwrap();
    fs::write(interfaces.join("ILogged.aidl"), INTERFACE).unwrap();
    let options = ClassOptions { version: Some(1), hash: Some("none".into()), log: true };
    ours(&folder.path().join("sample"), &generated, &options);
    let program = workshop.compile_with("logged.cpp", From::Ours, &generated, &[]);
    assert_eq!(run(&mut workshop.command(&program)), "all is well\n");
}
