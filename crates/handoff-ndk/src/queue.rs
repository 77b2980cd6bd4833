//! Message queues, for `<fmq/AidlMessageQueue.h>`: a queue whose messages have a size that only the caller knows.
//!
//! The queue of `handoff_ipc` carries bytes here. Every count that it is given is a whole number of messages.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use handoff_ipc::queue::{
    Builder, Descriptor, EventFlag, Flavor, Grantor, MessageQueue, QueueError, Reader, Synchronized,
    Unsynchronized, Writer,
};
use handoff_ipc::{Error, Result};
use handoff_sync::event_word;

use crate::locked::lock;
use crate::status::{STATUS_BAD_VALUE, STATUS_OK, STATUS_TIMED_OUT, binder_status_t};

/// A queue as one process has it.
pub struct AMessageQueue {
    queue: Flavored,
    message_size: usize,
    has_complained: AtomicBool,
}

/// A part of a queue's memory, as it stands in the descriptor.
#[repr(C)]
pub struct AMessageQueue_Part {
    fd_index: i32,
    offset: i32,
    extent: i64,
}

/// Messages that lie behind each other in the ring.
#[repr(C)]
pub struct AMessageQueue_Run {
    start: *mut c_void,
    bytes: usize,
}

/// The two flavours behind one pointer.
enum Flavored {
    Synchronized(Queue<Synchronized>),
    Unsynchronized(Queue<Unsynchronized>),
}

/// Does the same with a queue of either flavour.
macro_rules! either {
    ($queue:expr, $one:ident => $what:expr) => {
        match &$queue {
            Flavored::Synchronized($one) => $what,
            Flavored::Unsynchronized($one) => $what,
        }
    };
}

/// A queue with both of its ends: a process may use either, and one thread each at a time.
struct Queue<F: Flavor> {
    queue: MessageQueue<u8, F>,
    flag: Option<EventFlag>,
    writer: Mutex<Writer<u8, F>>,
    reader: Mutex<Reader<u8, F>>,
}

impl<F: Flavor> Queue<F> {
    fn open(queue: MessageQueue<u8, F>) -> Result<Self> {
        let ends = queue.writer().and_then(|writer| Ok((writer, queue.reader()?)));
        let (writer, reader) = ends?;
        let flag = queue.event_flag();
        Ok(Queue { queue, flag, writer: Mutex::new(writer), reader: Mutex::new(reader) })
    }

    fn make(size: usize, with_flag: bool, ring: Option<OwnedFd>) -> Result<Self> {
        let mut builder = Builder::<u8, F>::new(size);
        if with_flag {
            builder = builder.event_flag();
        }
        if let Some(ring) = ring {
            builder = builder.ring_in(ring);
        }
        Queue::open(builder.build()?)
    }

    fn attach(parts: Vec<Grantor>, fds: Vec<OwnedFd>, flags: i32, reset: bool) -> Result<Self> {
        // A message's size was checked by the caller: the ring carries bytes.
        let queue = MessageQueue::<u8, F>::attach(Descriptor::from_parts(parts, fds, 1, flags))?;
        if reset {
            let flag = queue.event_flag();
            let raised = flag.as_ref().map_or(0, |flag| flag.word().load(Ordering::Relaxed));
            queue.reset()?;
            // Android's library begins the counters anew, and leaves what was raised.
            if let Some(flag) = flag {
                flag.word().fetch_or(raised, Ordering::SeqCst);
            }
        }
        Queue::open(queue)
    }

    /// Tells how another process finds it. The descriptors are open until `tell` returns.
    fn describe(&self, quantum: i32, tell: impl FnOnce(&AMessageQueue_Descriptor)) -> Result<()> {
        let of = self.queue.descriptor()?;
        let part = |&Grantor { fd_index, offset, extent }| AMessageQueue_Part { fd_index, offset, extent };
        let parts: Vec<_> = of.grantors().iter().map(part).collect();
        let fds: Vec<c_int> = of.fds().iter().map(|fd| fd.as_raw_fd()).collect();
        tell(&AMessageQueue_Descriptor {
            parts: parts.as_ptr(),
            part_count: parts.len(),
            fds: fds.as_ptr(),
            fd_count: fds.len(),
            quantum,
            flags: F::FLAGS,
        });
        Ok(())
    }

    /// Room for messages; the transaction is dropped, and the same room is found again when it is committed.
    fn begin_write(&self, bytes: usize) -> Result<[(*mut u8, usize); 2], QueueError> {
        Ok(lock(&self.writer).begin(bytes)?.span().runs())
    }

    fn begin_read(&self, bytes: usize) -> Result<[(*mut u8, usize); 2], QueueError> {
        Ok(lock(&self.reader).begin(bytes)?.span().runs().map(|run| (run.as_ptr().cast_mut(), run.len())))
    }
}

impl AMessageQueue {
    fn give(queue: Result<Flavored>, message_size: usize) -> *mut Self {
        match queue {
            Ok(queue) => {
                let has_complained = AtomicBool::new(false);
                Box::into_raw(Box::new(AMessageQueue { queue, message_size, has_complained }))
            }
            Err(why) => {
                eprintln!("libbinder_ndk: {why}");
                std::ptr::null_mut()
            }
        }
    }

    fn flag(&self) -> Option<&AtomicU32> {
        either!(self.queue, queue => queue.flag.as_ref().map(EventFlag::word))
    }

    /// Bytes of so many messages.
    fn bytes(&self, count: usize) -> Option<usize> {
        count.checked_mul(self.message_size)
    }

    /// Whether it was done. What only a broken peer does is said once: it may do it for ever.
    fn was_done(&self, done: Result<(), QueueError>) -> bool {
        if let Err(error @ QueueError::Broken(_)) = done
            && !self.has_complained.swap(true, Ordering::Relaxed)
        {
            eprintln!("libbinder_ndk: {error}");
        }
        done.is_ok()
    }

    fn count(&self, bytes: Result<usize, QueueError>) -> usize {
        match bytes {
            Ok(bytes) => bytes / self.message_size,
            Err(error) => {
                self.was_done(Err(error));
                0
            }
        }
    }

    /// Runs `attempt` once, or until there is room, or messages, and sleeps on an event flag's word meanwhile.
    ///
    /// # Safety
    /// `how` is null or says how to wait; its word is null, which means the queue's own, or lives until this returns.
    unsafe fn run(
        &self,
        how: *const AMessageQueue_Blocking,
        mut attempt: impl FnMut() -> Result<(), QueueError>,
    ) -> bool {
        // SAFETY: the caller's promise.
        let Some(how) = (unsafe { how.as_ref() }) else { return self.was_done(attempt()) };
        // SAFETY: the caller's promise.
        let word = unsafe { how.word.as_ref() }.or_else(|| self.flag());
        let (Some(word), Some(bits)) = (word, NonZeroU32::new(how.wait_for)) else { return false };
        let until = deadline(how.timeout);
        let mut attempt = || match attempt() {
            Err(QueueError::Full(_) | QueueError::Empty(_)) => None,
            done => Some(done),
        };
        let done = attempt().or_else(|| event_word::retry(word, bits, until, attempt));
        let done = self.was_done(done.unwrap_or(Err(QueueError::TimedOut)));
        if let (true, Some(bits)) = (done, NonZeroU32::new(how.notify)) {
            event_word::wake(word, bits);
        }
        done
    }

    /// Where messages lie that are written or read in place. A peer that scribbled may have one lie at the ring's end in two
    /// pieces: then there is none.
    fn runs(&self, found: Result<[(*mut u8, usize); 2], QueueError>) -> Option<[AMessageQueue_Run; 2]> {
        let whole =
            found.and_then(|runs| match runs.iter().all(|(_, bytes)| bytes % self.message_size == 0) {
                true => Ok(runs),
                false => Err(QueueError::Broken("a counter is not at the start of a message")),
            });
        match whole {
            Ok(runs) => Some(runs.map(|(start, bytes)| match bytes {
                0 => AMessageQueue_Run { start: std::ptr::null_mut(), bytes },
                _ => AMessageQueue_Run { start: start.cast(), bytes },
            })),
            Err(error) => {
                self.was_done(Err(error));
                None
            }
        }
    }
}

/// How a blocking read or write waits, and what it tells the other end.
#[repr(C)]
pub struct AMessageQueue_Blocking {
    wait_for: u32,
    notify: u32,
    timeout: i64,
    word: *const AtomicU32,
}

/// A time of `CLOCK_MONOTONIC` so many nanoseconds from now; 0 is for ever, and less is over already.
fn deadline(nanoseconds: i64) -> Option<Duration> {
    (nanoseconds != 0).then(|| {
        event_word::now().saturating_add(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default()))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn AMessageQueue_new(
    count: usize,
    message_size: usize,
    is_synchronized: bool,
    with_event_flag: bool,
    ring: c_int,
    ring_size: usize,
) -> *mut AMessageQueue {
    let make = || {
        let size = count.checked_mul(message_size).filter(|size| *size > 0);
        let size = size.ok_or_else(|| {
            Error::BadQueue(format!("{count} messages of {message_size} bytes cannot be held"))
        })?;
        let ring = match ring {
            -1 => None,
            _ if ring < 0 || ring_size < size => {
                let what = format!("{size} bytes do not fit into descriptor {ring} of {ring_size} bytes");
                return Err(Error::BadQueue(what));
            }
            _ => Some(duplicate(ring)?),
        };
        match is_synchronized {
            true => Queue::make(size, with_event_flag, ring).map(Flavored::Synchronized),
            false => Queue::make(size, with_event_flag, ring).map(Flavored::Unsynchronized),
        }
    };
    AMessageQueue::give(make(), message_size)
}

/// What a peer's descriptor says: the descriptors are duplicated.
#[repr(C)]
pub struct AMessageQueue_Descriptor {
    parts: *const AMessageQueue_Part,
    part_count: usize,
    fds: *const c_int,
    fd_count: usize,
    quantum: i32,
    flags: i32,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_attach(
    descriptor: *const AMessageQueue_Descriptor,
    message_size: usize,
    is_synchronized: bool,
    reset: bool,
) -> *mut AMessageQueue {
    let attach = || {
        // SAFETY: the header's promise.
        let descriptor =
            unsafe { descriptor.as_ref() }.ok_or_else(|| Error::BadQueue("no descriptor".into()))?;
        if message_size == 0 || usize::try_from(descriptor.quantum) != Ok(message_size) {
            let quantum = descriptor.quantum;
            let what = format!("its messages have {quantum} bytes, not {message_size} as those wanted");
            return Err(Error::BadQueue(what));
        }
        // SAFETY: so many parts and descriptors by the header's promise.
        let parts = unsafe { slice(descriptor.parts, descriptor.part_count) };
        let part = |&AMessageQueue_Part { fd_index, offset, extent }| Grantor { fd_index, offset, extent };
        let parts: Vec<Grantor> = parts.iter().map(part).collect();
        let ring = parts.get(2).map_or(0, |ring| ring.extent);
        if ring % i64::from(descriptor.quantum) != 0 {
            let what = format!("its ring of {ring} bytes is no whole number of messages of {message_size}");
            return Err(Error::BadQueue(what));
        }
        // SAFETY: as above.
        let fds = unsafe { slice(descriptor.fds, descriptor.fd_count) };
        let fds = fds.iter().map(|fd| duplicate(*fd)).collect::<Result<Vec<_>>>()?;
        match is_synchronized {
            true => Queue::attach(parts, fds, descriptor.flags, reset).map(Flavored::Synchronized),
            false => Queue::attach(parts, fds, descriptor.flags, reset).map(Flavored::Unsynchronized),
        }
    };
    AMessageQueue::give(attach(), message_size)
}

/// A descriptor of C's, which keeps it.
fn duplicate(fd: c_int) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::BadQueue(format!("its memory: {fd} is no descriptor")));
    }
    // SAFETY: not negative; the copy fails if it is not open.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    copy.map_err(|error| {
        Error::io(format!("cannot duplicate descriptor {fd} of a message queue's memory"), error)
    })
}

/// # Safety
/// `start` is null or has `count` items.
unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_delete(queue: *mut AMessageQueue) {
    if !queue.is_null() {
        // SAFETY: made by `give`, and nobody uses it afterwards.
        drop(unsafe { Box::from_raw(queue) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_describe(
    queue: *const AMessageQueue,
    to: *mut c_void,
    describe: Option<
        unsafe extern "C-unwind" fn(to: *mut c_void, descriptor: *const AMessageQueue_Descriptor),
    >,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let (Some(queue), Some(describe)) = (unsafe { queue.as_ref() }, describe) else {
        return STATUS_BAD_VALUE;
    };
    let tell = |descriptor: &AMessageQueue_Descriptor| {
        // SAFETY: as its maker said; what it is given lives until it returns.
        unsafe { describe(to, descriptor) };
    };
    // It was made from an `int32_t`, or an item's size in C++.
    let quantum = queue.message_size as i32;
    match either!(queue.queue, one => one.describe(quantum, tell)) {
        Ok(()) => STATUS_OK,
        Err(error) => crate::status::status_of(&error),
    }
}

/// # Safety
/// As the header says of a queue that may be null.
unsafe fn borrow<'a>(queue: *const AMessageQueue) -> Option<&'a AMessageQueue> {
    // SAFETY: the caller's promise.
    unsafe { queue.as_ref() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_capacity(queue: *const AMessageQueue) -> usize {
    // SAFETY: the header's promise.
    unsafe { borrow(queue) }
        .map_or(0, |queue| either!(queue.queue, one => one.queue.capacity()) / queue.message_size)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_availableToWrite(queue: *const AMessageQueue) -> usize {
    // SAFETY: the header's promise.
    unsafe { borrow(queue) }
        .map_or(0, |queue| queue.count(either!(queue.queue, one => lock(&one.writer).available())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_availableToRead(queue: *const AMessageQueue) -> usize {
    // SAFETY: the header's promise.
    unsafe { borrow(queue) }
        .map_or(0, |queue| queue.count(either!(queue.queue, one => lock(&one.reader).available())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_eventFlagWord(queue: *const AMessageQueue) -> *const AtomicU32 {
    // SAFETY: the header's promise.
    unsafe { borrow(queue) }.and_then(AMessageQueue::flag).map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Writes, at once or as `how` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_write(
    queue: *const AMessageQueue,
    data: *const c_void,
    count: usize,
    how: *const AMessageQueue_Blocking,
) -> bool {
    // SAFETY: the header's promise.
    let Some((queue, bytes)) = (unsafe { of_messages(queue, data, count) }) else { return false };
    // SAFETY: so many messages by the header's promise.
    let data = unsafe { slice(data.cast::<u8>(), bytes) };
    let write = || either!(queue.queue, one => lock(&one.writer).write(data));
    // SAFETY: as above.
    unsafe { queue.run(how, write) }
}

/// Reads, at once or as `how` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_read(
    queue: *const AMessageQueue,
    data: *mut c_void,
    count: usize,
    how: *const AMessageQueue_Blocking,
) -> bool {
    // SAFETY: the header's promise.
    let Some((queue, bytes)) = (unsafe { of_messages(queue, data, count) }) else { return false };
    let data = match bytes {
        0 => &mut [],
        // SAFETY: room for so many messages by the header's promise, which nobody else uses meanwhile.
        _ => unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes) },
    };
    let read = || either!(queue.queue, one => lock(&one.reader).read(data));
    // SAFETY: as above.
    unsafe { queue.run(how, read) }
}

/// A queue and the bytes of `count` messages, of which `data` has some.
///
/// # Safety
/// As [`borrow`].
unsafe fn of_messages<'a>(
    queue: *const AMessageQueue,
    data: *const c_void,
    count: usize,
) -> Option<(&'a AMessageQueue, usize)> {
    // SAFETY: the caller's promise.
    let queue = unsafe { borrow(queue) }?;
    let bytes = queue.bytes(count)?;
    (!data.is_null() || bytes == 0).then_some((queue, bytes))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_beginWrite(
    queue: *const AMessageQueue,
    count: usize,
    runs: *mut [AMessageQueue_Run; 2],
) -> bool {
    // SAFETY: the header's promise.
    unsafe { begin(queue, count, runs, |queue, bytes| either!(queue, one => one.begin_write(bytes))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_beginRead(
    queue: *const AMessageQueue,
    count: usize,
    runs: *mut [AMessageQueue_Run; 2],
) -> bool {
    // SAFETY: the header's promise.
    unsafe { begin(queue, count, runs, |queue, bytes| either!(queue, one => one.begin_read(bytes))) }
}

/// # Safety
/// As [`borrow`]; there is room for two runs.
unsafe fn begin(
    queue: *const AMessageQueue,
    count: usize,
    runs: *mut [AMessageQueue_Run; 2],
    begin: impl FnOnce(&Flavored, usize) -> Result<[(*mut u8, usize); 2], QueueError>,
) -> bool {
    // SAFETY: the caller's promise.
    let found = unsafe { borrow(queue) }
        .and_then(|queue| queue.bytes(count).and_then(|bytes| queue.runs(begin(&queue.queue, bytes))));
    match found {
        Some(found) if !runs.is_null() => {
            // SAFETY: there is room for them, by the caller's promise.
            unsafe { runs.write(found) };
            true
        }
        _ => false,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_commitWrite(queue: *const AMessageQueue, count: usize) -> bool {
    // SAFETY: the header's promise.
    let Some(queue) = (unsafe { borrow(queue) }) else { return false };
    let Some(bytes) = queue.bytes(count) else { return false };
    queue.was_done(
        either!(queue.queue, one => lock(&one.writer).begin(bytes).and_then(|room| room.commit(bytes))),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMessageQueue_commitRead(queue: *const AMessageQueue, count: usize) -> bool {
    // SAFETY: the header's promise.
    let Some(queue) = (unsafe { borrow(queue) }) else { return false };
    let Some(bytes) = queue.bytes(count) else { return false };
    queue.was_done(
        either!(queue.queue, one => lock(&one.reader).begin(bytes).and_then(|read| read.commit(bytes))),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AEventFlag_wake(word: *const AtomicU32, bits: u32) -> binder_status_t {
    // SAFETY: the header's promise.
    match (unsafe { word.as_ref() }, NonZeroU32::new(bits)) {
        (None, _) => return STATUS_BAD_VALUE,
        (Some(word), Some(bits)) => event_word::wake(word, bits),
        (Some(_), None) => {}
    }
    STATUS_OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AEventFlag_wait(
    word: *const AtomicU32,
    bits: u32,
    raised: *mut u32,
    timeout: i64,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let (Some(word), Some(bits), false) = (unsafe { word.as_ref() }, NonZeroU32::new(bits), raised.is_null())
    else {
        return STATUS_BAD_VALUE;
    };
    let found = event_word::wait(word, bits, deadline(timeout));
    // SAFETY: there is room for one, by the header's promise.
    unsafe { raised.write(found.unwrap_or(0)) };
    if found.is_some() { STATUS_OK } else { STATUS_TIMED_OUT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_raised_again_and_again_keep_nobody_past_the_time() {
        let queue = AMessageQueue_new(4, 4, true, true, -1, 0);
        // SAFETY: it was just made.
        let of = unsafe { &*queue };
        let bits = NonZeroU32::MIN;
        let how = AMessageQueue_Blocking {
            wait_for: bits.get(),
            notify: 0,
            timeout: 5_000_000,
            word: std::ptr::null(),
        };
        let (mut until, mut late) = (None, 0);
        let attempt = || {
            event_word::wake(of.flag().unwrap(), bits);
            // The wait has begun.
            late +=
                u32::from(event_word::now() > *until.get_or_insert_with(|| deadline(how.timeout).unwrap()));
            // One that was about to begin in time, and the last.
            if late > 2 { Ok(()) } else { Err(QueueError::Empty(0)) }
        };
        // SAFETY: `how` lives until it returns, and names the queue's own word.
        assert!(!unsafe { of.run(&raw const how, attempt) });
        // SAFETY: made above, and nobody uses it afterwards.
        unsafe { AMessageQueue_delete(queue) };
    }
}
