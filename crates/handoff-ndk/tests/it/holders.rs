//! `ParcelableHolder` and `PersistableBundle` between C++ and Rust: the bytes are the same.

use handoff_aidl::ClassOptions;
use handoff_examples::interfaces::sample::held::{Choice, Extended, Extra};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};
use crate::{here, holds};

#[test]
fn what_a_holder_holds_is_the_same_bytes_in_rust_and_cpp() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let generated = tempfile::tempdir().unwrap();
    ours(&here().join("../../examples/interfaces/holders"), generated.path(), &ClassOptions::default());
    let program = workshop.compile_with("holders.cpp", From::Ours, generated.path(), &[]);
    workshop.manager.services().add("holds", holds::service(), ServiceOptions::default()).unwrap();
    let said = run(&mut workshop.command(&program));
    assert!(said.ends_with("all is well\n"), "{said}");
}

#[test]
fn what_is_stable_holds_what_is_stable() {
    let error = Extra::default().more.set(&Choice::Number(1)).unwrap_err();
    assert!(error.to_string().contains("sample.held.Choice is not `@VintfStability`"), "{error}");
    Extended::default().extension.set(&Choice::Number(1)).unwrap();
}
