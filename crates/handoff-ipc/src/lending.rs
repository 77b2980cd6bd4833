//! Calls to which buffers are lent: bytes that the engine may take from where they are.
#![allow(unsafe_code)]

use crate::Result;
use crate::calling::CallBuilder;
use crate::parcel::{Reader, Writer};

/// A call to which buffers are lent ([`CallBuilder::lend`]).
#[derive(Debug, Clone, Copy)]
#[must_use = "options alone call nothing: end with `call` or `oneway`"]
pub struct LendingBuilder<'a> {
    call: CallBuilder<'a>,
    buffers: &'a [&'a [u8]],
}

impl<'a> CallBuilder<'a> {
    /// Lends buffers for the call, the last of its options: `write` puts number *n* of them where it wants it with
    /// [`Writer::write_lent`]. In the hardware context of the `binder` engine the kernel takes large ones from
    /// where they are, so that this process never copies them.
    ///
    /// ```
    /// # use handoff_ipc::{Binder, Result, Service, Transaction};
    /// # struct Length;
    /// # impl Service for Length {
    /// #     fn descriptor(&self) -> &str { "sample.ILength" }
    /// #     fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
    /// #         transaction.reply.write(&(transaction.data.read_bytes()?.len() as i64))
    /// #     }
    /// # }
    /// let length = Binder::new(Length);
    /// let picture = vec![0; 1 << 20];
    /// let counted: i64 = length
    ///     .transaction(1)
    ///     .lend(&[&picture])
    ///     .call(|data| data.write_lent(0), |reply| reply.read())?;
    /// assert_eq!(counted, 1 << 20);
    /// # Ok::<(), handoff_ipc::Error>(())
    /// ```
    #[inline]
    pub fn lend(self, buffers: &'a [&'a [u8]]) -> LendingBuilder<'a> {
        LendingBuilder { call: self, buffers }
    }
}

impl LendingBuilder<'_> {
    /// As [`CallBuilder::call`].
    ///
    /// # Errors
    /// As [`CallBuilder::call`], and [`Error::BadParcel`](crate::Error::BadParcel) for a number that no buffer has.
    #[inline]
    pub fn call<R>(
        self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        // SAFETY: engines use a parcel within `transact`, or copy what it borrows; the buffers are
        // borrowed for longer.
        self.call.call(|to| unsafe { to.lend(self.buffers, write) }, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binder, Error, Service, Transaction};

    struct Sum;

    impl Service for Sum {
        fn descriptor(&self) -> &str {
            "test.ISum"
        }

        fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
            let mut sum = 0u64;
            transaction
                .data
                .read_bytes()?
                .for_each_chunk::<64>(|part| sum += part.iter().map(|b| u64::from(*b)).sum::<u64>());
            transaction.reply.write(&sum)
        }
    }

    #[test]
    fn lent_buffers_arrive_and_others_are_refused() {
        let sum = Binder::new(Sum);
        let (small, large) = ([1u8; 3], vec![2u8; 5000]);
        let lent: &[&[u8]] = &[&small, &large];
        let call = |index| {
            sum.transaction(1).lend(lent).call(|data| data.write_lent(index), |reply| reply.read::<u64>())
        };
        assert_eq!(call(0).unwrap(), 3);
        assert_eq!(call(1).unwrap(), 10_000);
        assert!(matches!(call(2), Err(Error::BadParcel { .. })));
        // Outside of such a call there is nothing lent.
        let error =
            sum.transaction(1).call(|data| data.write_lent(0), |reply| reply.read::<u64>()).unwrap_err();
        assert!(matches!(error, Error::BadParcel { .. }), "{error}");
    }
}
