//! `tachyon-ipc`: a call and its answer through two rings, with both sides spinning.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tachyon_ipc::{RpcBus, TachyonError};

use super::failed;
use crate::Ask;

/// Bytes of each ring: a power of two. Read messages are given back some at a time, so that few of the largest do not fit.
const RING: usize = 4 << 20;
/// Looks before a side would sleep; in its mode of pure spinning none does.
const LOOKS: u32 = u32::MAX;
/// What a message is for, which nobody asks here.
const SUM: u32 = 1;

fn text(address: &Path) -> io::Result<&str> {
    address.to_str().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

pub(super) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    // It makes its socket and waits for its client in one call.
    ready();
    let bus = RpcBus::listen(text(address)?, RING, RING).map_err(failed)?;
    bus.set_polling_mode(true);
    loop {
        let request = match bus.serve(LOOKS) {
            Err(TachyonError::Interrupted) => continue,
            request => request.map_err(failed)?,
        };
        let (id, sum) = (request.correlation_id, crate::sum(request.data()));
        request.commit().map_err(failed)?;
        bus.reply(id, &[sum], SUM).map_err(failed)?;
    }
}

pub(super) fn connect(address: &Path) -> io::Result<Ask> {
    connect_with(address, |bus, message| bus.call(message, SUM))
}

pub(super) fn connect_in_place(address: &Path) -> io::Result<Ask> {
    connect_with(address, |bus, message| {
        let mut request = bus.acquire_call(message.len())?;
        request.as_mut_slice()[..message.len()].fill(message.first().copied().unwrap_or_default());
        request.commit(message.len(), SUM)
    })
}

fn connect_with(
    address: &Path,
    call: impl Fn(&RpcBus, &[u8]) -> Result<u64, TachyonError> + 'static,
) -> io::Result<Ask> {
    let began = Instant::now();
    let bus = loop {
        match RpcBus::connect(text(address)?) {
            Ok(bus) => break bus,
            // Its server has said that it is ready a moment before it is.
            Err(_) if began.elapsed() < Duration::from_secs(5) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            Err(error) => return Err(failed(error)),
        }
    };
    bus.set_polling_mode(true);
    Ok(Box::new(move |message| {
        let id = call(&bus, message).map_err(failed)?;
        let answer = bus.wait(id, LOOKS).map_err(failed)?;
        let sum = answer.data().first().copied().ok_or(io::ErrorKind::InvalidData)?;
        answer.commit().map_err(failed)?;
        Ok(sum)
    }))
}
