//! Every type, between C++ of our compiler and Rust of our compiler: the bytes are the same.

use std::path::{Path, PathBuf};

use handoff_aidl::ClassOptions;
use handoff_examples::interfaces::sample::everything::{EverythingProxy, Point, Record, Shape};
use handoff_ipc::parcel::{Parcel, Parcelable};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, ExceptionCode, ParcelService, Result, Status};
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};
use crate::shared;

/// Reads a value, and checks that Rust writes the very bytes that C++ wrote.
fn same<T: Parcelable>(request: &mut Parcel) -> Result<Parcel> {
    let value: T = request.read(|from| from.read())?;
    let mut reply = Parcel::new();
    reply.write(|to| to.write(&value))?;
    if reply.as_bytes() != request.as_bytes() {
        return Err(Status::new(ExceptionCode::IllegalArgument, "Rust writes other bytes than C++").into());
    }
    Ok(reply)
}

/// Answers what the program calls, by the numbers of the methods.
fn service() -> Binder {
    Binder::new(ParcelService::new("sample.everything.IEverything", |call, mut request: Parcel| {
        let mut reply = Parcel::new();
        match call.code() {
            1 => reply = same::<Record>(&mut request)?,
            5 => {
                let (length, with): (i32, i32) = request.read(|from| Ok((from.read()?, from.read()?)))?;
                reply.write(|to| to.write(&vec![with; usize::try_from(length).unwrap_or_default()]))?;
            }
            10 => reply = same::<Option<Vec<Option<Point>>>>(&mut request)?,
            11 => reply = same::<Shape>(&mut request)?,
            18 => {
                let mut numbers: [i32; 3] = request.read(|from| from.read())?;
                numbers.reverse();
                reply.write(|to| to.write(&numbers))?;
            }
            0x00ff_ffff => reply.write(|to| to.write(&3))?,
            0x00ff_fffe => reply.write(|to| to.write(&EverythingProxy::HASH.to_owned()))?,
            _ => return Ok(None),
        }
        Ok(Some(reply))
    }))
}

/// Writes C++ of the examples' interfaces below a folder, as the version of them that the examples' Rust is; gives where.
pub(crate) fn generate(folder: &Path) -> PathBuf {
    shared::plain_interfaces(folder);
    let options = ClassOptions {
        version: Some(3),
        hash: Some(EverythingProxy::HASH.to_owned()),
        ..ClassOptions::default()
    };
    let generated = folder.join("cpp");
    ours(folder, &generated, &options);
    generated
}

/// Compiles the program that sends them.
pub(crate) fn program(workshop: &Workshop, flags: &[&str]) -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    workshop.compile_with("everything.cpp", From::Ours, &generate(folder.path()), flags)
}

#[test]
fn values_of_every_type_are_the_same_bytes_in_rust_and_cpp() {
    let compiler = require!(require_tool("g++"));
    let workshop = Workshop::new(compiler);
    let program = program(&workshop, &[]);
    workshop.manager.services().add("everything", service(), ServiceOptions::default()).unwrap();
    let said = run(&mut workshop.command(&program));
    assert!(said.ends_with("all is well\n"), "{said}");
}
