//! Every type, between C++ of our compiler and Rust of our compiler: the bytes are the same.

use std::fs;
use std::path::Path;

use handoff_aidl::CppOptions;
use handoff_examples::interfaces::sample::everything::{Point, Record, Shape};
use handoff_ipc::parcel::{Parcel, Parcelable};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, ExceptionCode, ParcelService, Result, Status};
use handoff_testkit::{require, require_tool};

use crate::built::{From, Workshop, ours, run};
use crate::here;

/// The examples' interfaces, without the two methods that C++ cannot say; their numbers stay.
fn interfaces(into: &Path) {
    let from = here().join("../../examples/interfaces/aidl/sample/everything");
    let folder = into.join("sample/everything");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let text: String = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with("import android."))
            .map(|line| match line.trim() {
                "CharSequence styled(CharSequence text);" => "    void styled();\n".to_owned(),
                line if line.starts_with("int sum(") => "    void sum();\n".to_owned(),
                _ => format!("{line}\n"),
            })
            .collect();
        fs::write(folder.join(path.file_name().unwrap()), text).unwrap();
    }
}

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
            0x00ff_fffe => reply.write(|to| to.write(&"0123456789".repeat(4)))?,
            _ => return Ok(None),
        }
        Ok(Some(reply))
    }))
}

#[test]
fn values_of_every_type_are_the_same_bytes_in_rust_and_cpp() {
    let compiler = require!(require_tool("g++"));
    let workshop = Workshop::new(compiler);
    let folder = tempfile::tempdir().unwrap();
    interfaces(folder.path());
    let options = CppOptions { version: Some(3), hash: Some("0123456789".repeat(4)) };
    let generated = workshop.folder(From::Ours);
    ours(folder.path(), &generated, &options);
    let program = workshop.compile_with("everything.cpp", From::Ours, &generated, &[]);
    workshop.manager.services().add("everything", service(), ServiceOptions::default()).unwrap();
    let said = run(&mut workshop.command(&program));
    assert!(said.ends_with("all is well\n"), "{said}");
}
