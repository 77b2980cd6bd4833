//! A service with the interface `IHolds`, which finds whether the bytes that came are those that Rust writes.
#![allow(dead_code, unreachable_pub)]

use handoff_examples::interfaces::sample::held::{Attached, Choice, Extended, Extra};
use handoff_ipc::parcel::{Parcel, Parcelable, PersistableBundle};
use handoff_ipc::{Binder, ExceptionCode, ParcelService, Result, Status};

/// The value that Rust writes, if it is the bytes that came.
fn same(value: &impl Parcelable, request: &Parcel) -> Result<Parcel> {
    let mut reply = Parcel::new();
    reply.write(|to| to.write(value))?;
    if reply.as_bytes() != request.as_bytes() {
        let text = format!("Rust writes {:?} and not {:?}", reply.as_bytes(), request.as_bytes());
        return Err(Status::new(ExceptionCode::IllegalArgument, text).into());
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

pub fn service() -> Binder {
    Binder::new(ParcelService::new("sample.held.IHolds", |call, mut request: Parcel| match call.code() {
        1 => {
            let mut value: Extended = request.read(|from| from.read())?;
            let (extra, choice) = (value.extension.get::<Extra>()?, value.extension.get::<Choice>()?);
            if value.extension.get::<Attached>()?.is_some() {
                // Passed on as it came: references are other bytes on the way back.
                let mut reply = Parcel::new();
                reply.write(|to| to.write(&value))?;
                return Ok(Some(reply));
            }
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
        3 => {
            let value: Option<PersistableBundle> = request.read(|from| from.read())?;
            same(&value, &request).map(Some)
        }
        _ => Ok(None),
    }))
}
