//! What the bare machine offers: the floors that calls are compared with, and other primitives.

use super::{Batch, ChoosePlacement, Entry, Group, Kind, Start, Suite, batch_size, unpinned};
use handoff_workloads::Placement;
use handoff_workloads::floor::{Parameters, Primitive, Session};
use std::time::Duration;

/// The group of round trips on one CPU.
pub const ONE_CPU: &str = "one-cpu";
/// The group of round trips between two running CPUs.
pub const TWO_CPUS: &str = "two-cpus";
/// The group of round trips that nothing pins.
pub const UNPINNED: &str = "unpinned";
/// The group of 64 KiB round trips on one CPU.
pub const LARGE: &str = "large";

/// The payload of the small groups, in bytes.
pub const SMALL_BYTES: usize = 8;
/// The payload of the large group, in bytes.
pub const LARGE_BYTES: usize = 64 << 10;

/// An entry that does less than its group's job.
pub(super) const COPY_ALONE: &str = "one copy alone, no hand-off";

/// The four groups with their primitives. `batch` is how long one batch of one entry takes about.
pub fn suite(batch: Duration) -> Suite {
    let mut suite = Suite { tests: super::Calls::default(), groups: groups(), entries: Vec::new() };
    let mut add = |group: &str, placement: ChoosePlacement, primitive: Primitive, kind: Kind, name: &str| {
        let payload = if group == LARGE { LARGE_BYTES } else { SMALL_BYTES };
        suite.entries.push(Entry {
            group: group.to_owned(),
            name: name.to_owned(),
            kind,
            start: session(primitive, payload, placement, batch),
        });
    };
    add(ONE_CPU, Placement::same_cpu, Primitive::SchedYield, Kind::Floor, "sched_yield ping-pong");
    add(ONE_CPU, Placement::same_cpu, Primitive::Futex, Kind::Primitive, "futex ping-pong");
    add(ONE_CPU, Placement::same_cpu, Primitive::Pipe, Kind::Primitive, "two pipes");
    add(ONE_CPU, Placement::same_cpu, Primitive::UnixStream, Kind::Primitive, "Unix stream socket");
    add(ONE_CPU, Placement::same_cpu, Primitive::UnixSeqpacket, Kind::Primitive, "Unix seqpacket socket");
    add(TWO_CPUS, Placement::two_cpus, Primitive::CacheLine, Kind::Floor, "cache-line ping-pong");
    add(TWO_CPUS, Placement::two_cpus, Primitive::SchedYield, Kind::Primitive, "sched_yield ping-pong");
    add(TWO_CPUS, Placement::two_cpus, Primitive::Futex, Kind::Primitive, "futex ping-pong");
    add(TWO_CPUS, Placement::two_cpus, Primitive::UnixStream, Kind::Primitive, "Unix stream socket");
    add(UNPINNED, Placement::two_cpus, Primitive::CacheLine, Kind::Floor, "cache-line ping-pong on two CPUs");
    add(UNPINNED, Placement::same_cpu, Primitive::Futex, Kind::Primitive, "futex ping-pong on one CPU");
    add(UNPINNED, unpinned, Primitive::Futex, Kind::Primitive, "futex ping-pong");
    add(UNPINNED, unpinned, Primitive::UnixStream, Kind::Primitive, "Unix stream socket");
    add(LARGE, Placement::same_cpu, Primitive::SchedYield, Kind::Floor, "sched_yield and one copy each way");
    add(LARGE, Placement::same_cpu, Primitive::Futex, Kind::Primitive, "futex and one copy each way");
    add(LARGE, Placement::same_cpu, Primitive::Memcpy, Kind::Primitive, COPY_ALONE);
    add(LARGE, Placement::same_cpu, Primitive::Pipe, Kind::Primitive, "two pipes");
    add(LARGE, Placement::same_cpu, Primitive::UnixStream, Kind::Primitive, "Unix stream socket");
    suite
}

fn groups() -> Vec<Group> {
    let group = |id: &str, title: &str, explains: &str| Group {
        id: id.to_owned(),
        title: title.to_owned(),
        explains: explains.to_owned(),
    };
    vec![
        group(
            ONE_CPU,
            "Both on one CPU, 8 B",
            "Client and server take turns on one CPU: each round trip is two switches, and no CPU is woken from \
             idle. The floor yields the CPU and wakes nobody. A direct call (local engine) stays within one thread.",
        ),
        group(
            TWO_CPUS,
            "On two CPUs, 8 B",
            "Each side has a CPU of its own. Those that spin hand over within the cache; those that sleep pay \
             for waking an idle CPU.",
        ),
        group(
            UNPINNED,
            "Nothing pinned, 8 B",
            "As a program runs that says nothing of CPUs: the scheduler decides. The floor is the fastest that it \
             could decide on: two CPUs that spin on one cache line.",
        ),
        group(
            LARGE,
            "Both on one CPU, 64 KiB",
            "The same with a payload that must be copied into shared memory, once each way. One copy alone shows \
             what of it is copying.",
        ),
    ]
}

fn session(primitive: Primitive, payload: usize, placement: ChoosePlacement, batch: Duration) -> Start {
    Box::new(move || {
        let placement = placement()?;
        let mut session = Session::start(&Parameters { primitive, payload, placement })?;
        let (samples, trips) = batch_size(&session.batch(31, 8)?, batch);
        let run: Batch = Box::new(move || Ok(session.batch(samples, trips)?));
        Ok(run)
    })
}
