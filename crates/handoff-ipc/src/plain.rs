//! Calls and services of plain data: what programs in other languages make and serve.

use crate::object::{Binder, Call, CallOptions, Code, Service};
use crate::parcel::{Parcel, Reader, Writer};
use crate::{Error, Result};

impl Binder {
    /// A synchronous call with a parcel that was put together before; gives the reply's data.
    ///
    /// # Errors
    /// As [`Binder::call_with`].
    pub fn call_parcel(&self, options: CallOptions, code: Code, request: &Parcel) -> Result<Parcel> {
        self.call_with(
            options,
            code,
            |to| to.write_raw(request.as_bytes()),
            |from| Ok(Parcel::from_bytes(from.read_raw(from.remaining())?.to_vec())),
        )
    }

    /// A oneway call with such a parcel.
    ///
    /// # Errors
    /// As [`Binder::oneway`].
    pub fn oneway_parcel(&self, code: Code, request: &Parcel) -> Result<()> {
        self.oneway(code, |to| to.write_raw(request.as_bytes()))
    }
}

/// A service that is one function from a parcel of plain data to another.
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
    serve: F,
}

impl<F> PlainService<F>
where
    F: Fn(&Call<'_>, Code, Parcel) -> Result<Option<Parcel>> + Send + Sync + 'static,
{
    /// An interface of this name. `None` says that it has no such transaction.
    pub fn new(descriptor: impl Into<String>, serve: F) -> Self {
        PlainService { descriptor: descriptor.into(), serve }
    }
}

impl<F> Service for PlainService<F>
where
    F: Fn(&Call<'_>, Code, Parcel) -> Result<Option<Parcel>> + Send + Sync + 'static,
{
    fn descriptor(&self) -> &str {
        &self.descriptor
    }

    fn on_transact(
        &self,
        call: &Call<'_>,
        code: Code,
        data: &mut Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<()> {
        let request = Parcel::from_bytes(data.read_raw(data.remaining())?.to_vec());
        match (self.serve)(call, code, request)? {
            Some(answer) => reply.write_raw(answer.as_bytes()),
            None => Err(Error::UnknownTransaction { descriptor: self.descriptor.clone(), code }),
        }
    }
}

impl<F> std::fmt::Debug for PlainService<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlainService({})", self.descriptor)
    }
}
