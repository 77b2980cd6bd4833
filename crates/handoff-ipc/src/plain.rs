//! Calls and services that work on whole parcels: what programs in other languages make and serve.

use crate::call::{Call, CallOptions};
use crate::code::Code;
use crate::interface::InterfaceId;
use crate::object::{Binder, Service};
use crate::parcel::{Parcel, Reader, Writer};
use crate::{Error, Result};

impl Binder {
    /// A synchronous call with a parcel that was put together before; gives the reply.
    ///
    /// # Errors
    /// As [`Binder::call_with`].
    pub fn call_parcel(&self, options: CallOptions, code: Code, request: &Parcel) -> Result<Parcel> {
        self.call_with(options, code, |to| request.send(to), Parcel::receive)
    }

    /// A oneway call with such a parcel.
    ///
    /// # Errors
    /// As [`Binder::oneway`].
    pub fn oneway_parcel(&self, options: CallOptions, code: Code, request: &Parcel) -> Result<()> {
        self.oneway_with(options, code, |to| request.send(to))
    }
}

/// A service that is one function from a parcel to another.
///
/// ```
/// use handoff_ipc::parcel::Parcel;
/// use handoff_ipc::{Binder, CallOptions, Error, PlainService};
///
/// let doubler = Binder::new(PlainService::new("sample.IDoubler", |_, code, mut request: Parcel| {
///     let number = request.read(|from| from.read::<i32>())?;
///     let mut reply = Parcel::new();
///     reply.write(|to| to.write(&(number * code as i32 * 2)))?;
///     Ok(Some(reply))
/// }));
/// let mut request = Parcel::new();
/// request.write(|to| to.write(&21))?;
/// let mut reply = doubler.call_parcel(CallOptions::default(), 1, &request)?;
/// assert_eq!(reply.read(|from| from.read::<i32>())?, 42);
/// # Ok::<(), Error>(())
/// ```
pub struct PlainService<F> {
    descriptor: String,
    bases: Vec<&'static str>,
    serve: F,
}

impl<F> PlainService<F>
where
    F: Fn(&Call<'_>, Code, Parcel) -> Result<Option<Parcel>> + Send + Sync + 'static,
{
    /// An interface of this name. `None` says that it has no such transaction.
    pub fn new(descriptor: impl Into<String>, serve: F) -> Self {
        PlainService { descriptor: descriptor.into(), bases: Vec::new(), serve }
    }

    /// With the interfaces that this one extends: [`Service::base_descriptors`].
    #[must_use]
    pub fn extending(self, bases: impl IntoIterator<Item = InterfaceId>) -> Self {
        PlainService { bases: bases.into_iter().map(|base| base.descriptor()).collect(), ..self }
    }
}

impl<F> Service for PlainService<F>
where
    F: Fn(&Call<'_>, Code, Parcel) -> Result<Option<Parcel>> + Send + Sync + 'static,
{
    fn descriptor(&self) -> &str {
        &self.descriptor
    }

    fn base_descriptors(&self) -> &[&str] {
        &self.bases
    }

    fn on_transact(
        &self,
        call: &Call<'_>,
        code: Code,
        data: &mut Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<()> {
        let request = Parcel::receive(data)?;
        match (self.serve)(call, code, request)? {
            Some(answer) => answer.send(reply),
            None => Err(Error::UnknownTransaction { descriptor: self.descriptor.clone(), code }),
        }
    }
}

impl<F> std::fmt::Debug for PlainService<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlainService({})", self.descriptor)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::runtime::{Options, Runtime};
    use crate::servicemanager::ServiceOptions;

    /// Writes into the pipe that it is given, calls the object that it is given, gives that back.
    fn postman() -> Binder {
        Binder::new(PlainService::new("test.IPostman", |_, _, mut request: Parcel| {
            let (mut pipe, object): (std::fs::File, Binder) = request.read(|from| {
                let pipe: OwnedFd = from.read()?;
                Ok((pipe.into(), from.read()?))
            })?;
            let mut answer = object.call_parcel(CallOptions::default(), 7, &Parcel::new())?;
            pipe.write_all(answer.read(|from| from.read::<String>())?.as_bytes()).unwrap();
            let mut reply = Parcel::new();
            reply.write(|to| to.write(&object))?;
            Ok(Some(reply))
        }))
    }

    fn objects_cross(postman: &Binder) {
        let talker = Binder::new(PlainService::new("test.ITalker", |_, code, _| {
            let mut reply = Parcel::new();
            reply.write(|to| to.write_string16(&format!("said {code}")))?;
            Ok(Some(reply))
        }));
        let (mut out, into) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut request = Parcel::new();
        request.write(|to| to.write(&OwnedFd::from(into))).unwrap();
        request.write(|to| to.write(&talker)).unwrap();
        // What was put together is sent as often as one likes.
        for _ in 0..50 {
            let mut reply = postman.call_parcel(CallOptions::default(), 1, &request).unwrap();
            assert_eq!(reply.read(|from| from.read::<Binder>()).unwrap(), talker);
            assert_eq!(reply.remaining(), 0);
        }
        drop(request);
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        assert_eq!(text, "said 7".repeat(50), "and no copy of the descriptor is left open");
    }

    #[test]
    fn objects_and_descriptors_cross() {
        objects_cross(&postman());
        let server = Runtime::private().unwrap();
        server.services().add("postman", postman(), ServiceOptions::default()).unwrap();
        let client = Runtime::connect(&Options::at(server.socket().unwrap())).unwrap();
        objects_cross(&client.services().get("postman").unwrap());
    }
}
