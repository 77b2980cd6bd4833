//! The `local` engine: objects of this process, called on the caller's own thread.
//!
//! The floor that the other engines are compared with: the same parcel, no hand-off.

use std::cell::RefCell;
use std::sync::Arc;

use rustix::mm::{Advice, madvise};

use crate::call::{Call, OutCall};
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::object::{LocalNode, ReadFn, Transaction, WriteFn};
use crate::parcel::{Object, Reader, Writer};
use crate::{Result, dispatch, oneway_threads};

thread_local! {
    // Buffers of finished calls; nested calls take further ones.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Where a call filled more, the kernel may have the memory meanwhile.
const KEEP: usize = (4 << 20) + 4096;

/// Memory for a parcel that goes no further than this process; kept by the thread for the next one.
pub(crate) struct Buffer(pub(crate) Vec<u8>);

impl Buffer {
    pub(crate) fn take() -> Self {
        Buffer(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        // Not by its capacity: to offer it takes the kernel a millisecond, and calls that fill little come far more often.
        if buffer.len() > KEEP {
            offer(&mut buffer);
        }
        SPARE.with_borrow_mut(|spare| spare.push(buffer));
    }
}

/// `madvise(MADV_FREE)`: empties a buffer, whose pages the kernel may take when it needs some. Until then they are here
/// for the next call: one that had to fetch new pages would wait until the kernel has cleared them, which takes longer
/// than the copy.
#[cold]
#[allow(unsafe_code)]
fn offer(buffer: &mut Vec<u8>) {
    buffer.clear();
    let (page, spare) = (rustix::param::page_size(), buffer.spare_capacity_mut());
    let before = spare.as_ptr().align_offset(page).min(spare.len());
    let pages = &mut spare[before..];
    let len = pages.len() / page * page;
    // SAFETY: whole pages of this vector's own memory, which holds nothing: whether they keep what was in them is all
    // the same.
    let offered = unsafe { madvise(pages.as_mut_ptr().cast(), len, Advice::LinuxFree) };
    // Fails where the kernel does not know it, and then the pages just stay.
    let _ = offered;
}

#[inline]
pub(crate) fn received(objects: Vec<(u32, Object)>) -> Vec<(u32, Option<Object>)> {
    if objects.is_empty() {
        return Vec::new();
    }
    objects.into_iter().map(|(at, object)| (at, Some(object))).collect()
}

pub(crate) fn call_of(call: &OutCall) -> Call {
    Call {
        code: call.code,
        identity: CallingIdentity::own_cached(),
        engine: EngineKind::Local,
        priority: 0,
        oneway: call.oneway,
        deadline: call.deadline.map(|wait| std::time::Instant::now() + wait),
        driver_details: None,
    }
}

/// A synchronous call, served right here. A deadline is shown to the service; it cannot interrupt.
pub(crate) fn transact(node: &LocalNode, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
    node.check_interface(call)?;
    let (mut request, mut answer) = (Buffer::take(), Buffer::take());
    let mut writer = Writer::growing(&mut request.0);
    write(&mut writer)?;
    let mut objects = received(writer.finish());
    let mut transaction = Transaction {
        call: call_of(call),
        data: reader(&request.0, &mut objects),
        reply: Writer::growing(&mut answer.0),
    };
    dispatch::serve(&**node.service(), &mut transaction)?;
    let mut objects = received(transaction.reply.finish());
    read(&mut reader(&answer.0, &mut objects))
}

/// Without objects, nothing is asked whether one stands at the place that is read.
#[inline]
fn reader<'a>(bytes: &'a [u8], objects: &'a mut Vec<(u32, Option<Object>)>) -> Reader<'a> {
    let reader = Reader::of_slice(bytes);
    if objects.is_empty() { reader } else { reader.along_with(objects) }
}

/// A oneway call: served on the shared pool, in order.
pub(crate) fn oneway(node: &Arc<LocalNode>, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
    node.check_interface(call)?;
    let mut request = Vec::new();
    let mut writer = Writer::growing(&mut request);
    write(&mut writer)?;
    let objects = received(writer.finish());
    let (call, target) = (*call, Arc::clone(node));
    let job = Box::new(move || {
        let (mut objects, mut nowhere) = (objects, Buffer::take());
        let mut transaction = Transaction {
            call: call_of(&call),
            data: reader(&request, &mut objects),
            reply: Writer::growing(&mut nowhere.0),
        };
        // Nobody waits for the outcome of a oneway call.
        drop(dispatch::serve(&**target.service(), &mut transaction));
    });
    oneway_threads::queue_own(node, job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_is_there_again_and_holds_what_is_written() {
        let size = KEEP + 5000;
        let pages_of = |fill: u8| {
            let mut buffer = Buffer::take();
            let mut writer = Writer::growing(&mut buffer.0);
            writer.write_bytes(&vec![fill; size]).unwrap();
            drop(writer.finish());
            assert!(buffer.0[4..][..size].iter().all(|byte| *byte == fill));
            buffer.0.as_ptr().addr()
        };
        let first = pages_of(1);
        // The kernel may have taken its pages meanwhile.
        assert_eq!(pages_of(2), first);
        assert_eq!(SPARE.with_borrow(Vec::len), 1);
        assert!(SPARE.with_borrow(|spare| spare[0].is_empty() && spare[0].capacity() > size));
        // Who fills little of it offers nothing: what was written stays.
        let mut buffer = Buffer::take();
        let mut writer = Writer::growing(&mut buffer.0);
        writer.write_bytes(&[3; 100]).unwrap();
        drop(writer.finish());
        drop(buffer);
        assert_eq!(SPARE.with_borrow(|spare| spare[0].len()), 104);
    }
}
