//! What the driver lends of a caller's nice value, policy and real-time priority, and gives back.

use handoff_placement::{Policy, Priority, Tid};

use super::prelude::*;
use super::processes::{LONG, SHORT};
use crate::seam::Peer;

/// A caller and a server, each a process of its own; the server's object asks for `least`.
struct Lending {
    manager: Party,
    caller: Box<dyn Peer>,
    calls: Party,
    server: Box<dyn Peer>,
    serves: Party,
    handle: u32,
}

fn lending(stage: &Stage<'_>, least: u32, caller_nice: i32, server_nice: i32) -> Check<Lending> {
    let manager = stage.manager()?;
    let (caller, server) = (stage.peer()?, stage.peer()?);
    // Before they open the driver: a thread that waits for work has the nice value that its process had then.
    for (peer, nice) in [(&caller, caller_nice), (&server, server_nice)] {
        if peer.set_nice(nice) != 0 {
            return not_here(format!("this user may not set a nice value of {nice}"));
        }
    }
    let (calls, serves) = (stage.client_of(&*caller, false)?, stage.client_of(&*server, false)?);
    let given = serves.gives_as(Parcel::default().binder_flags(0x1000, 0x1001, 0x100 | least), &manager)?;
    let handle = calls.takes(given, &manager)?;
    Ok(Lending { manager, caller, calls, server, serves, handle })
}

/// The server's nice value while it serves, and after it.
fn lent(stage: &Stage<'_>, least: u32, caller: i32, server: i32, flags: u32) -> Check<(i32, i32)> {
    let lending = lending(stage, least, caller, server)?;
    if lending.server.set_nice(-1) != 0 {
        return not_here("this user may not raise a nice value, and neither may the driver for it");
    }
    lending.server.set_nice(server);
    lending.calls.call(&Call::to(lending.handle, 1).flags(flags))?;
    // One read: a second one would wait for work, which gives the thread its own nice value again.
    let call = lending.serves.receive_any(&[BR_TRANSACTION])?;
    let serving = lending.server.nice();
    lending.serves.free(&call)?;
    if flags & TF_ONE_WAY == 0 {
        lending.serves.answer()?;
    }
    lending.serves.returns()?;
    same("the caller's nice value", lending.caller.nice(), caller)?;
    Ok((serving, lending.server.nice()))
}

/// `SCHED_FIFO` in the flags of an object, beside the priority that it asks for at least.
const LEAST_FIFO: u32 = 1 << 9;

/// What a process has now: its one thread makes all its exchanges.
fn priority(of: &dyn Peer) -> Check<Priority> {
    let tid = Tid::new(of.pid() as i32);
    tid.and_then(|tid| Priority::of(tid).ok()).map_or_else(|| unexpected("a process has no priority"), Ok)
}

/// A caller of `SCHED_FIFO` 30; the server's object has these flags.
fn urgent(stage: &Stage<'_>, object: u32) -> Check<Lending> {
    let lending = lending(stage, object, 0, 0)?;
    let caller = Tid::new(lending.caller.pid() as i32);
    match caller.map(|caller| Priority::fifo(30).apply(caller)) {
        Some(Ok(())) => Ok(lending),
        _ => not_here("this user may not have a real-time priority"),
    }
}

impl Lending {
    /// The server takes one call: what it has while it serves.
    fn serve(&self, flags: u32) -> Check<Priority> {
        self.calls.call(&Call::to(self.handle, 1).flags(flags))?;
        let call = self.serves.receive_any(&[BR_TRANSACTION])?;
        let serving = priority(&*self.server)?;
        self.serves.free(&call)?;
        Ok(serving)
    }

    /// The same, in a driver that lends policies.
    fn serve_urgently(&self, flags: u32, expected: u8) -> Check {
        let serving = self.serve(flags)?;
        if serving.policy == Policy::Other {
            return not_here("this driver lends a nice value at most, as all of mainline do");
        }
        same("policy and priority while serving", serving, Priority::fifo(expected))
    }

    fn has_its_own(&self) -> Check {
        same("policy and priority afterwards", priority(&*self.server)?, Priority::other(0))
    }
}

pub(super) const CASES: &[Case] = &[
    case("nice.lent", Driver("binder_thread_read"))
        .expects("a caller's -7 is the server's while it serves")
        .by(|stage| same("nice while serving", lent(stage, 0x7f, -7, 0, 0)?.0, -7)),
    case("nice.restored", Libbinder("a pool's threads"))
        .expects("the server has its own again after the reply")
        .by(|stage| same("nice after the reply", lent(stage, 0x7f, -7, 0, 0)?.1, 0)),
    case("nice.lent.lower", Driver("binder_thread_read"))
        .expects("a caller's 10 is, too, where the object asks for nothing")
        .by(|stage| same("nice while serving", lent(stage, 0x7f, 10, 0, 0)?.0, 10)),
    case("nice.least", Driver("binder_thread_read"))
        .expects("no less than the object asks for: 5, called with 10")
        .by(|stage| same("nice while serving", lent(stage, 5, 10, 0, 0)?.0, 5)),
    case("nice.least.better-caller", Driver("binder_thread_read"))
        .expects("a better caller is lent: 2, where 5 is asked for")
        .by(|stage| same("nice while serving", lent(stage, 5, 2, 0, 0)?.0, 2)),
    case("nice.least.restored", Libbinder("a pool's threads"))
        .expects("the server has its own again")
        .by(|stage| same("nice after the reply", lent(stage, 5, 10, 0, 0)?.1, 0)),
    case("nice.oneway", Driver("binder_thread_read"))
        .expects("a oneway caller lends nothing")
        .by(|stage| same("nice while serving", lent(stage, 0x7f, -7, 0, TF_ONE_WAY)?.0, 0)),
    case("nice.oneway.least", Driver("binder_thread_read"))
        .expects("a oneway call is served with what the object asks for")
        .by(|stage| same("nice while serving", lent(stage, 5, 0, 10, TF_ONE_WAY)?.0, 5)),
    case("nice.waiting", Driver("binder_thread_read"))
        .expects("a thread that waits for work has the nice value that its process opened the driver with")
        .by(|stage| {
            let (_manager, server) = (stage.manager()?, stage.peer()?);
            if server.set_nice(-3) != 0 {
                return not_here("this user may not set a nice value of -3");
            }
            let serves = stage.client_of(&*server, false)?;
            server.set_nice(7);
            serves.oneway(0, 1)?;
            serves.returns()?;
            // The first read had something for the thread itself, the second waited for work.
            same("nice while waiting", server.nice(), -3)
        }),
    case("nice.restored.dead-caller", Driver("binder_transaction"))
        .expects("the server has its own again though its caller was killed")
        .by(|stage| {
            let mut lending = lending(stage, 0x7f, -7, 0)?;
            lending.calls.call(&Call::to(lending.handle, 1))?;
            lending.serves.receive()?;
            lending.caller.kill();
            lending.serves.answer()?;
            lending.serves.returns()?;
            same("nice after the reply", lending.server.nice(), 0)
        }),
    case("realtime.lent", Libbinder("Binder::setInheritRt"))
        .expects("a caller's SCHED_FIFO 30 is the server's while it serves, if the object asks for that")
        .by(|stage| urgent(stage, FLAG_INHERIT_RT | 0x7f)?.serve_urgently(0, 30)),
    case("realtime.lent.waiting", Libbinder("Binder::setInheritRt"))
        .expects("also by a server that slept in a read")
        .by(|stage| {
            let lending = urgent(stage, 0x7f)?;
            let sleeper = stage.client_of(&*lending.server, true)?;
            // A blocking opening cannot be asked for what may not be there: its object is sent in a oneway call.
            let object = Parcel::default().binder_flags(0x2000, 0x2001, FLAG_INHERIT_RT | 0x17f);
            sleeper.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(object))?;
            let given = lending.manager.receive()?.handle(0)?;
            lending.manager.send(Message::new().word(BC_ACQUIRE, given))?;
            sleeper.read_once(ROOM)?;
            let handle = lending.calls.takes(given, &lending.manager)?;
            sleeper.process.start_exchange(&Message::new(), ROOM);
            that(sleeper.process.finish_exchange(SHORT).is_none(), "a read of nothing came back")?;
            lending.calls.call(&Call::to(handle, 1))?;
            that(sleeper.process.finish_exchange(LONG).is_some(), "the call did not arrive")?;
            let serving = priority(&*lending.server)?;
            if serving.policy == Policy::Other {
                return not_here("this driver lends a nice value at most, as all of mainline do");
            }
            same("policy and priority while serving", serving, Priority::fifo(30))?;
            sleeper.answer()?;
            lending.has_its_own()
        }),
    case("realtime.restored", Libbinder("Binder::setInheritRt"))
        .expects("the server has its own again after the reply")
        .by(|stage| {
            let lending = urgent(stage, FLAG_INHERIT_RT | 0x7f)?;
            lending.serve_urgently(0, 30)?;
            lending.serves.answer()?;
            lending.has_its_own()
        }),
    case("realtime.restored.dead-caller", Libbinder("Binder::setInheritRt"))
        .expects("the server has its own again though its caller was killed")
        .by(|stage| {
            let mut lending = urgent(stage, FLAG_INHERIT_RT | 0x7f)?;
            lending.serve_urgently(0, 30)?;
            lending.caller.kill();
            lending.serves.answer()?;
            lending.has_its_own()
        }),
    case("realtime.restored.thread-exit", Libbinder("Binder::setInheritRt"))
        .expects("the server has its own again if its thread leaves Binder instead of replying")
        .by(|stage| {
            let lending = urgent(stage, FLAG_INHERIT_RT | 0x7f)?;
            lending.serve_urgently(0, 30)?;
            errno("BINDER_THREAD_EXIT", lending.serves.process.ioctl(BINDER_THREAD_EXIT, &mut [0; 4]), 0)?;
            lending.has_its_own()
        }),
    case("realtime.not-asked", Libbinder("Binder::setInheritRt"))
        .expects("an object that does not ask for it is served as before")
        .by(|stage| same("policy and priority", urgent(stage, 0x7f)?.serve(0)?, Priority::other(0))),
    case("realtime.oneway", Libbinder("Binder::setInheritRt")).expects("a oneway caller lends nothing").by(
        |stage| {
            let lending = urgent(stage, FLAG_INHERIT_RT | 0x7f)?;
            same("policy and priority", lending.serve(TF_ONE_WAY)?, Priority::other(0))
        },
    ),
    case("realtime.least", Libbinder("Binder::setMinSchedulerPolicy"))
        .expects("no less than the object asks for: SCHED_FIFO 20, called without any")
        .by(|stage| lending(stage, LEAST_FIFO | 20, 0, 0)?.serve_urgently(0, 20)),
    case("realtime.least.better-caller", Libbinder("Binder::setMinSchedulerPolicy"))
        .expects("a better caller is lent: 30, where 20 is asked for")
        .by(|stage| urgent(stage, FLAG_INHERIT_RT | LEAST_FIFO | 20)?.serve_urgently(0, 30)),
    case("realtime.least.oneway", Libbinder("Binder::setMinSchedulerPolicy"))
        .expects("also for a oneway call, and the server has its own again when it waits")
        .by(|stage| {
            let lending = lending(stage, LEAST_FIFO | 20, 0, 0)?;
            lending.serve_urgently(TF_ONE_WAY, 20)?;
            lending.serves.returns()?;
            lending.serves.returns()?;
            lending.has_its_own()
        }),
];
