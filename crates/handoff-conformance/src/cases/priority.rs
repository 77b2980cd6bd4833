//! What the driver lends of a caller's nice value, and gives back.

use super::prelude::*;
use crate::seam::Peer;

/// A caller and a server, each a process of its own; the server's object asks for `least`.
struct Lending {
    _manager: Party,
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
    Ok(Lending { _manager: manager, caller, calls, server, serves, handle })
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
];
