//! Services that work on whole parcels: what programs in other languages serve.

use crate::Result;
use crate::call::Call;
use crate::interface::InterfaceId;
use crate::object::{Service, Transaction};
use crate::parcel::{Parcel, ParcelData};

/// A service that is one function from a parcel to another.
///
/// ```
/// use handoff_ipc::parcel::Parcel;
/// use handoff_ipc::{Binder, Error, ParcelService};
///
/// let doubler = Binder::new(ParcelService::new("sample.IDoubler", |call, mut request: Parcel| {
///     let number = request.read(|from| from.read::<i32>())?;
///     let mut reply = Parcel::new();
///     reply.write(|to| to.write(&(number * call.code() as i32 * 2)))?;
///     Ok(Some(reply))
/// }));
/// let mut request = Parcel::new();
/// request.write(|to| to.write(&21))?;
/// let mut reply = doubler.transaction(1).call(|to| request.send(to), Parcel::receive)?;
/// assert_eq!(reply.read(|from| from.read::<i32>())?, 42);
/// # Ok::<(), Error>(())
/// ```
pub struct ParcelService<F> {
    descriptor: String,
    bases: Vec<&'static str>,
    serve: F,
}

impl<F> ParcelService<F>
where
    F: Fn(&Call, Parcel) -> Result<Option<Parcel>> + Send + Sync + 'static,
{
    /// An interface of this name. `None` says that it has no such transaction.
    pub fn new(descriptor: impl Into<String>, serve: F) -> Self {
        ParcelService { descriptor: descriptor.into(), bases: Vec::new(), serve }
    }

    /// With the interfaces that this one extends: [`Service::base_descriptors`].
    #[must_use]
    pub fn extending(self, bases: impl IntoIterator<Item = InterfaceId>) -> Self {
        ParcelService { bases: bases.into_iter().map(|base| base.descriptor()).collect(), ..self }
    }
}

impl<F> Service for ParcelService<F>
where
    F: Fn(&Call, Parcel) -> Result<Option<Parcel>> + Send + Sync + 'static,
{
    fn descriptor(&self) -> &str {
        &self.descriptor
    }

    fn base_descriptors(&self) -> &[&str] {
        &self.bases
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let request = Parcel::receive(&mut transaction.data)?;
        match (self.serve)(&transaction.call, request)? {
            Some(answer) => answer.send(&mut transaction.reply),
            None => Err(transaction.unknown(&self.descriptor)),
        }
    }
}

impl Transaction<'_> {
    /// Puts a parcel in the place of all that the reply holds, the exception that the runtime wrote in front of it
    /// among it: for services that write that themselves.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn replace_reply(&mut self, reply: &ParcelData) -> Result<()> {
        self.reply.truncate(0);
        reply.send(&mut self.reply)
    }
}

impl<F> std::fmt::Debug for ParcelService<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ParcelService({})", self.descriptor)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::Binder;
    use crate::runtime::Runtime;
    use crate::servicemanager::ServiceOptions;

    /// Writes into the pipe that it is given, calls the object that it is given, gives that back.
    fn postman() -> Binder {
        Binder::new(ParcelService::new("test.IPostman", |_, mut request: Parcel| {
            let (mut pipe, object): (std::fs::File, Binder) = request.read(|from| {
                let pipe: OwnedFd = from.read()?;
                Ok((pipe.into(), from.read()?))
            })?;
            let mut answer = object.transaction(7).call(|to| Parcel::new().send(to), Parcel::receive)?;
            pipe.write_all(answer.read(|from| from.read::<String>())?.as_bytes()).unwrap();
            let mut reply = Parcel::new();
            reply.write(|to| to.write(&object))?;
            Ok(Some(reply))
        }))
    }

    fn objects_cross(postman: &Binder) {
        let talker = Binder::new(ParcelService::new("test.ITalker", |call, _| {
            let mut reply = Parcel::new();
            reply.write(|to| to.write_string16(&format!("said {}", call.code())))?;
            Ok(Some(reply))
        }));
        let (mut out, into) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut request = Parcel::new();
        request.write(|to| to.write(&OwnedFd::from(into))).unwrap();
        request.write(|to| to.write(&talker)).unwrap();
        // What was put together is sent as often as one likes.
        for _ in 0..50 {
            let mut reply = postman.transaction(1).call(|to| request.send(to), Parcel::receive).unwrap();
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
        let client = Runtime::builder().socket(server.socket().unwrap()).connect().unwrap();
        objects_cross(&client.services().get("postman").unwrap());
    }
}
