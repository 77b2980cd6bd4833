//! A driver with a fault, and one that only notes which faults would show: all that passes goes by here.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Message;
use crate::faults::{Change, Fault};
use crate::seam::{Device, Exchange, FileIdentity, Peer, Process};

/// Faults that are put before a driver, and those that had something to change.
#[derive(Debug)]
struct Injection {
    faults: Vec<Fault>,
    // Or else they are only noted.
    applies: bool,
    active: Mutex<BTreeSet<&'static str>>,
}

impl Injection {
    fn new(faults: &[Fault], applies: bool) -> Self {
        Self { faults: faults.to_vec(), applies, active: Mutex::default() }
    }

    /// What a fault makes of something; `None` if it stays as it is.
    fn change<T>(&self, change: impl Fn(Change) -> Option<T>) -> Option<T> {
        let mut changed = None;
        for fault in &self.faults {
            let Some(new) = change(fault.change) else { continue };
            self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(fault.name);
            changed = Some(new);
        }
        changed.filter(|_| self.applies)
    }
}

/// A driver with a fault.
pub(crate) struct FaultyDevice<'a> {
    device: &'a dyn Device,
    injection: Arc<Injection>,
}

impl<'a> FaultyDevice<'a> {
    /// Puts a fault before a driver.
    pub(crate) fn new(device: &'a dyn Device, fault: Fault) -> Self {
        Self::with(device, Injection::new(&[fault], true))
    }

    /// A driver as it is; it is noted which of these faults would have changed something.
    pub(crate) fn watching(device: &'a dyn Device, faults: &[Fault]) -> Self {
        Self::with(device, Injection::new(faults, false))
    }

    fn with(device: &'a dyn Device, injection: Injection) -> Self {
        Self { device, injection: Arc::new(injection) }
    }

    /// The names of the faults that changed something, or would have, since this was asked last.
    pub(crate) fn take_active(&self) -> BTreeSet<&'static str> {
        std::mem::take(&mut self.injection.active.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Device for FaultyDevice<'_> {
    fn open(&self, context: usize) -> Result<Box<dyn Process>, i32> {
        let (process, injection) = (self.device.open(context)?, Arc::clone(&self.injection));
        Ok(Box::new(FaultyProcess { process, injection }))
    }

    fn contexts(&self) -> usize {
        self.device.contexts()
    }

    fn start_peer(&self) -> Result<Box<dyn Peer>, String> {
        let peer = self.device.start_peer()?;
        let own_nice = AtomicI32::new(peer.nice());
        Ok(Box::new(FaultyPeer { peer, injection: Arc::clone(&self.injection), own_nice }))
    }

    fn pid(&self) -> u32 {
        self.device.pid()
    }

    fn euid(&self) -> u32 {
        self.device.euid()
    }

    fn has_security_contexts(&self) -> bool {
        self.device.has_security_contexts()
    }
}

struct FaultyPeer {
    peer: Box<dyn Peer>,
    injection: Arc<Injection>,
    own_nice: AtomicI32,
}

impl Peer for FaultyPeer {
    fn pid(&self) -> u32 {
        self.peer.pid()
    }

    fn open(&self, context: usize, blocks: bool) -> Result<Box<dyn Process>, i32> {
        let (process, injection) = (self.peer.open(context, blocks)?, Arc::clone(&self.injection));
        Ok(Box::new(FaultyProcess { process, injection }))
    }

    fn set_nice(&self, nice: i32) -> i32 {
        let error = self.peer.set_nice(nice);
        if error == 0 {
            self.own_nice.store(nice, Ordering::Relaxed);
        }
        error
    }

    fn nice(&self) -> i32 {
        let (own, nice) = (self.own_nice.load(Ordering::Relaxed), self.peer.nice());
        self.injection.change(|change| change.of_nice(own, nice)).unwrap_or(nice)
    }

    fn kill(&mut self) {
        self.peer.kill();
    }
}

struct FaultyProcess {
    process: Box<dyn Process>,
    injection: Arc<Injection>,
}

impl FaultyProcess {
    fn change_returns(&self, read: &mut Vec<u8>) {
        if let Some(changed) = self.injection.change(|change| change.of_returns(read)) {
            *read = changed;
        }
    }
}

impl Process for FaultyProcess {
    fn exchange(&self, message: &Message, room: usize) -> Exchange {
        let changed = self.injection.change(|change| change.of_message(message));
        let sent = changed.as_ref().unwrap_or(message);
        let mut exchange = self.process.exchange(sent, room);
        if exchange.written == sent.len() as u64 {
            exchange.written = message.len() as u64;
        }
        self.change_returns(&mut exchange.read);
        exchange
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> i32 {
        if let Some(error) = self.injection.change(|change| change.of_request(request)) {
            return error;
        }
        let error = self.process.ioctl(request, argument);
        match self.injection.change(|change| change.of_outcome(request, error, argument)) {
            None => error,
            Some((error, changed)) => {
                argument.copy_from_slice(&changed);
                error
            }
        }
    }

    fn ioctl_at(&self, request: u32, address: u64) -> i32 {
        self.process.ioctl_at(request, address)
    }

    fn map(&self, length: usize, is_writable: bool) -> i32 {
        let error = self.process.map(length, is_writable);
        self.injection.change(|change| change.of_map(error)).unwrap_or(error)
    }

    fn unmap(&self) {
        self.process.unmap();
    }

    fn make_writable(&self) -> i32 {
        let error = self.process.make_writable();
        self.injection.change(|change| change.of_make_writable(error)).unwrap_or(error)
    }

    fn mapping(&self) -> u64 {
        self.process.mapping()
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let memory = self.process.memory(address, length)?;
        Some(self.injection.change(|change| change.of_memory(&memory)).unwrap_or(memory))
    }

    fn is_readable(&self) -> bool {
        let is_readable = self.process.is_readable();
        self.injection.change(|change| change.of_poll(is_readable)).unwrap_or(is_readable)
    }

    fn file(&self, fd: i32) -> Option<FileIdentity> {
        let file = self.process.file(fd)?;
        Some(self.injection.change(|change| change.of_file(file)).unwrap_or(file))
    }

    fn open_file(&self) -> Option<i32> {
        self.process.open_file()
    }

    fn inherited(&self) -> Result<Box<dyn Process>, String> {
        let (process, injection) = (self.process.inherited()?, Arc::clone(&self.injection));
        Ok(Box::new(Self { process, injection }))
    }

    fn start_exchange(&self, message: &Message, room: usize) {
        let changed = self.injection.change(|change| change.of_message(message));
        self.process.start_exchange(changed.as_ref().unwrap_or(message), room);
    }

    fn finish_exchange(&self, timeout: Duration) -> Option<Exchange> {
        let mut exchange = self.process.finish_exchange(timeout)?;
        self.change_returns(&mut exchange.read);
        Some(exchange)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use handoff_ipc::binder::uapi::*;

    use super::*;
    use crate::returns::Return;

    /// A driver that says the same to everything.
    pub(crate) struct Silent;

    impl Process for Silent {
        fn exchange(&self, _: &Message, _: usize) -> Exchange {
            let mut read = BR_TRANSACTION_COMPLETE.to_ne_bytes().to_vec();
            read.extend(BR_DEAD_BINDER.to_ne_bytes());
            read.extend(8u64.to_ne_bytes());
            Exchange { read, ..Exchange::default() }
        }
        fn ioctl(&self, _: u32, _: &mut [u8]) -> i32 {
            libc::EBUSY
        }
        fn ioctl_at(&self, _: u32, _: u64) -> i32 {
            0
        }
        fn map(&self, _: usize, _: bool) -> i32 {
            libc::EPERM
        }
        fn unmap(&self) {}
        fn make_writable(&self) -> i32 {
            libc::EACCES
        }
        fn mapping(&self) -> u64 {
            0
        }
        fn memory(&self, _: u64, _: usize) -> Option<Vec<u8>> {
            Some(vec![0, 0])
        }
        fn is_readable(&self) -> bool {
            false
        }
        fn file(&self, _: i32) -> Option<FileIdentity> {
            Some(FileIdentity { inode: 1, closes_on_exec: true })
        }
        fn open_file(&self) -> Option<i32> {
            None
        }
        fn inherited(&self) -> Result<Box<dyn Process>, String> {
            Ok(Box::new(Silent))
        }
        fn start_exchange(&self, _: &Message, _: usize) {}
        fn finish_exchange(&self, _: Duration) -> Option<Exchange> {
            None
        }
    }

    #[test]
    fn returns_are_lost_changed_and_swapped() {
        let with_faults = |faults: &[Fault], applies| {
            let injection = Arc::new(Injection::new(faults, applies));
            FaultyProcess { process: Box::new(Silent), injection }
        };
        let with = |change| with_faults(&[Fault { name: "it", change }], true);
        let numbers = |change| -> Vec<u32> {
            let read = with(change).exchange(&Message::new(), 64).read;
            Return::all(&read).expect("whole").iter().map(|one| one.number).collect()
        };
        assert_eq!(numbers(Change::Lose(BR_DEAD_BINDER)), [BR_TRANSACTION_COMPLETE]);
        assert_eq!(numbers(Change::Replace(BR_TRANSACTION_COMPLETE, BR_NOOP)), [BR_NOOP, BR_DEAD_BINDER]);
        let swapped = numbers(Change::Swap(BR_TRANSACTION_COMPLETE, BR_DEAD_BINDER));
        assert_eq!(swapped, [BR_DEAD_BINDER, BR_TRANSACTION_COMPLETE]);
        let read = with(Change::Body(BR_DEAD_BINDER, |body| body[0] ^= 1)).exchange(&Message::new(), 64).read;
        assert_eq!(read[8], 9);
        assert_eq!(with(Change::Forgive(1, libc::EBUSY)).ioctl(1, &mut []), 0);
        assert_eq!(with(Change::Pretend(1)).ioctl(2, &mut []), libc::EBUSY);
        assert_eq!(
            (with(Change::MapWritable).map(1, true), with(Change::MapTwice).map(1, true)),
            (0, libc::EPERM)
        );
        assert_eq!(with(Change::Spoil).memory(0, 2), Some(vec![0, 1]));
        assert!(with(Change::AlwaysReadable).inherited().expect("itself").is_readable());
        assert!(!with(Change::KeepOnExec).file(0).expect("there").closes_on_exec);

        // One that only watches changes nothing, and notes what would have been changed.
        let faults = [
            Fault { name: "spoils", change: Change::Spoil },
            Fault { name: "loses what is not there", change: Change::Lose(BR_REPLY) },
            Fault { name: "loses", change: Change::Lose(BR_DEAD_BINDER) },
        ];
        let watching = with_faults(&faults, false);
        assert_eq!(watching.memory(0, 2), Some(vec![0, 0]));
        assert_eq!(Return::all(&watching.exchange(&Message::new(), 64).read).expect("whole").len(), 2);
        let active = watching.injection.active.lock().expect("nobody panicked").clone();
        assert_eq!(active, ["loses", "spoils"].into());
    }
}
