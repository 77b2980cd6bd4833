//! A client that holds many objects of its server, each with a death recipient.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use handoff_ipc::Binder;

use super::role::ObjectTimes;
use super::service::{CALL_LIMIT, ProbeProxy};
use crate::error::{Error, Result, call_failed};
use crate::peer::Channel;
use crate::sys::clock::now;

/// Objects of one reply: their entries in a parcel stay below a page.
pub(crate) const BATCH: u32 = 100;

/// Takes so many objects, calls some of them and asks to be told of their end; answers with [`ObjectTimes`], and once all have
/// died with the time at which it heard of the last one.
pub(super) fn hold(probe: &ProbeProxy, objects: u32, calls: u32, parent: &mut Channel) -> Result<()> {
    let left = Arc::new(AtomicU32::new(objects));
    let (say, all_died) = channel();
    let tell = move || {
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nobody waits for it where the wait has ended.
            say.send(now()).unwrap_or_default();
        }
    };
    let held = take(probe, objects).and_then(|(binders, take)| {
        let call = called(&binders, calls)?;
        let before = now();
        for binder in &binders {
            binder.link_to_death(tell.clone()).map_err(|error| call_failed(&error))?.keep();
        }
        let link = (now() - before) as f64 / f64::from(objects);
        Ok((binders, ObjectTimes { take, call, link }))
    });
    let (binders, answer) = match held {
        Ok((binders, held)) => (Some(binders), Ok(held)),
        Err(error) => (None, Err(error)),
    };
    parent.say(answer)?;
    if binders.is_some() {
        let limit = CALL_LIMIT;
        let told = all_died.recv_timeout(limit);
        parent.say(told.map_err(|_| Error::TimedOut { what: "the death notices".into(), limit }))?;
    }
    Ok(())
}

/// The objects, and nanoseconds an object of each batch.
fn take(probe: &ProbeProxy, objects: u32) -> Result<(Vec<Binder>, Vec<f64>)> {
    let (mut binders, mut times) = (Vec::new(), Vec::new());
    while (binders.len() as u32) < objects {
        let count = BATCH.min(objects - binders.len() as u32);
        let before = now();
        binders.extend(probe.objects(count).map_err(|error| call_failed(&error))?);
        times.push((now() - before) as f64 / f64::from(count));
    }
    Ok((binders, times))
}

/// Nanoseconds of calls to objects that are spread over all of them.
fn called(binders: &[Binder], calls: u32) -> Result<Vec<u64>> {
    // A step that has no divisor in common with most numbers of objects.
    let spread = (0..calls as usize).map(|call| &binders[call * 7919 % binders.len()]);
    spread
        .map(|binder| {
            let before = now();
            binder.ping().map_err(|error| call_failed(&error))?;
            Ok(now() - before)
        })
        .collect()
}
