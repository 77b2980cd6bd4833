//! `ParcelableHolder` between C++ and Rust: the bytes are the same.

use handoff_aidl::ClassOptions;
use handoff_examples::interfaces::sample::held::{Choice, Extended, Extra};
use handoff_ipc::parcel::{Parcel, Parcelable};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, ExceptionCode, ParcelService, Result, Status};
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};
use crate::here;

/// The value that Rust writes, if it is the bytes that C++ wrote.
fn same(value: &impl Parcelable, request: &Parcel) -> Result<Parcel> {
    let mut reply = Parcel::new();
    reply.write(|to| to.write(value))?;
    if reply.as_bytes() != request.as_bytes() {
        return Err(Status::new(ExceptionCode::IllegalArgument, "Rust writes other bytes than C++").into());
    }
    Ok(reply)
}

/// What it holds, all the way down, taken out and put in again.
fn put_again(extra: &mut Extra) -> Result<()> {
    if let Some(mut more) = extra.more.get::<Extra>()? {
        put_again(&mut more)?;
        extra.more.set(&more)?;
    }
    Ok(())
}

fn service() -> Binder {
    Binder::new(ParcelService::new("sample.held.IHolds", |call, mut request: Parcel| match call.code() {
        1 => {
            let mut value: Extended = request.read(|from| from.read())?;
            let (extra, choice) = (value.extension.get::<Extra>()?, value.extension.get::<Choice>()?);
            assert_eq!(value.extension.is_empty(), extra.is_none() && choice.is_none());
            if let Some(mut extra) = extra {
                put_again(&mut extra)?;
                value.extension.set(&extra)?;
            }
            if let Some(choice) = choice {
                value.extension.set(&choice)?;
            }
            same(&value, &request).map(Some)
        }
        2 => {
            let mut value: Extra = request.read(|from| from.read())?;
            put_again(&mut value)?;
            same(&value, &request).map(Some)
        }
        _ => Ok(None),
    }))
}

#[test]
fn what_a_holder_holds_is_the_same_bytes_in_rust_and_cpp() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let generated = tempfile::tempdir().unwrap();
    ours(&here().join("../../examples/interfaces/holders"), generated.path(), &ClassOptions::default());
    let program = workshop.compile_with("holders.cpp", From::Ours, generated.path(), &[]);
    workshop.manager.services().add("holds", service(), ServiceOptions::default()).unwrap();
    let said = run(&mut workshop.command(&program));
    assert!(said.ends_with("all is well\n"), "{said}");
}

#[test]
fn what_is_stable_holds_what_is_stable() {
    let error = Extra::default().more.set(&Choice::Number(1)).unwrap_err();
    assert!(error.to_string().contains("sample.held.Choice is not `@VintfStability`"), "{error}");
    Extended::default().extension.set(&Choice::Number(1)).unwrap();
}
