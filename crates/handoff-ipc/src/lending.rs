//! Calls to which buffers are lent: bytes that the engine may take from where they are.
#![allow(unsafe_code)]

use crate::Result;
use crate::call::CallOptions;
use crate::code::Code;
use crate::object::Binder;
use crate::parcel::{Reader, Writer};

impl Binder {
    /// [`Binder::call_with`], with buffers lent for the call: `write` puts number *n* of them where it
    /// wants it with [`Writer::write_lent`]. In the hardware domain of the `binder` engine the kernel
    /// takes large ones from where they are, so that this process never copies them.
    ///
    /// ```
    /// # use handoff_ipc::{Binder, Call, CallOptions, Code, Result, Service};
    /// # use handoff_ipc::parcel::{Reader, Writer};
    /// # struct Length;
    /// # impl Service for Length {
    /// #     fn descriptor(&self) -> &str { "sample.ILength" }
    /// #     fn on_transact(&self, _: &Call<'_>, _: Code, data: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<()> {
    /// #         reply.write(&(data.read_bytes()?.len() as i64))
    /// #     }
    /// # }
    /// let length = Binder::new(Length);
    /// let picture = vec![0; 1 << 20];
    /// let counted = length.call_lending(CallOptions::default(), 1, &[&picture], |w| w.write_lent(0), |r| r.read::<i64>())?;
    /// assert_eq!(counted, 1 << 20);
    /// # Ok::<(), handoff_ipc::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Binder::call`].
    pub fn call_lending<R>(
        &self,
        options: CallOptions,
        code: Code,
        buffers: &[&[u8]],
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        // SAFETY: engines use a parcel within `transact`, or copy what it borrows; the buffers are
        // borrowed for longer.
        self.call_with(options, code, |to| unsafe { to.lend(buffers, write) }, read)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Call, Error, Service};

    struct Sum;

    impl Service for Sum {
        fn descriptor(&self) -> &str {
            "test.ISum"
        }

        fn on_transact(
            &self,
            _: &Call<'_>,
            _: Code,
            data: &mut Reader<'_>,
            reply: &mut Writer<'_>,
        ) -> Result<()> {
            let mut sum = 0u64;
            data.read_bytes()?
                .for_each_chunk::<64>(|part| sum += part.iter().map(|b| u64::from(*b)).sum::<u64>());
            reply.write(&sum)
        }
    }

    #[test]
    fn lent_buffers_arrive_and_others_are_refused() {
        let sum = Binder::new(Sum);
        let (small, large) = ([1u8; 3], vec![2u8; 5000]);
        let lent: &[&[u8]] = &[&small, &large];
        let call = |index| {
            sum.call_lending(CallOptions::default(), 1, lent, |w| w.write_lent(index), |r| r.read::<u64>())
        };
        assert_eq!(call(0).unwrap(), 3);
        assert_eq!(call(1).unwrap(), 10_000);
        assert!(matches!(call(2), Err(Error::BadParcel { .. })));
        // Outside of such a call there is nothing lent.
        let error = sum.call(1, |w| w.write_lent(0), |r| r.read::<u64>()).unwrap_err();
        assert!(matches!(error, Error::BadParcel { .. }), "{error}");
    }
}
