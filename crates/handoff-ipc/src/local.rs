//! The `local` engine: objects of this process, called on the caller's own thread.
//!
//! The floor that the other engines are compared with: the same parcel, no hand-off.

use std::cell::RefCell;
use std::sync::Arc;

use crate::call::{Call, OutCall};
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::object::{LocalNode, ReadFn, Transaction, WriteFn};
use crate::parcel::{Object, Reader, SharedBytes, Writer};
use crate::{Result, dispatch, pool};

thread_local! {
    // Buffers of finished calls; nested calls take further ones.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are freed rather than kept.
const KEEP: usize = 1 << 20;

struct Buffer(Vec<u8>);

impl Buffer {
    fn take() -> Self {
        Buffer(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() <= KEEP {
            let buffer = std::mem::take(&mut self.0);
            SPARE.with_borrow_mut(|spare| spare.push(buffer));
        }
    }
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
        data: Reader::with_objects(SharedBytes::from_slice(&request.0), &mut objects),
        reply: Writer::growing(&mut answer.0),
    };
    dispatch::serve(&**node.service(), &mut transaction)?;
    let mut objects = received(transaction.reply.finish());
    read(&mut Reader::with_objects(SharedBytes::from_slice(&answer.0), &mut objects))
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
        let (mut objects, mut nowhere) = (objects, Vec::new());
        let mut transaction = Transaction {
            call: call_of(&call),
            data: Reader::with_objects(SharedBytes::from_slice(&request), &mut objects),
            reply: Writer::growing(&mut nowhere),
        };
        // Nobody waits for the outcome of a oneway call.
        drop(dispatch::serve(&**target.service(), &mut transaction));
    });
    if node.queue_oneway(job)? {
        let node = Arc::clone(node);
        pool::run(Box::new(move || node.run_oneway()));
    }
    Ok(())
}
