//! One attack: a victim, an honest client, an attacker that stays; and what is judged.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::common::Place;
use crate::honest::{Honest, Window};
use crate::process::{GENEROUS, Helper, Users};
use crate::raw::LEAKED;
use crate::usage::Usage;

/// How long the honest client's calls are watched: before, and while the attacker is there.
const BEFORE: Duration = Duration::from_millis(500);
const DURING: Duration = Duration::from_secs(2);
/// A call that has a thread for longer than its attack is watched, also on a machine that starts it late.
pub const SLOW_MS: i32 = 6 * DURING.as_millis() as i32;
const STRICT: &str = "HANDOFF_ATTACK_STRICT";
/// Threads that the pool may keep for a while after an attack, beside those that were there.
const POOL: usize = 16;
/// What an allocator keeps of memory that was given back.
const KEPT: usize = 24 << 10;

/// What an attack may take of its victim beyond what the victim had before.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Share of one CPU, over the time that the attacker is there.
    pub cpu: f64,
    pub threads: usize,
    pub fds: usize,
    pub maps: usize,
    /// Resident memory, MiB.
    pub rss: usize,
    /// Messages in a second that the victim reads.
    pub rate: u64,
}

/// Of an attacker that does nothing any longer.
pub const IDLE: Bounds = Bounds { cpu: 0.25, threads: 24, fds: 64, maps: 160, rss: 32, rate: u64::MAX };
/// Of one that goes on: its victim works for it as it would for an honest client.
pub const BUSY: Bounds = Bounds { cpu: 1.5, ..IDLE };
/// Of one that keeps two threads of its victim busy, and with them two CPUs: it asks again as soon as either has answered.
pub const TWICE: Bounds = Bounds { cpu: 1.9, ..BUSY };

/// Of one that takes its share of descriptors: three eighths of the 896 that the victim may give to peers, three eighths of
/// the 112 that may wait to be closed, and those of the last message that was read before that was full. With a few for the
/// honest client.
pub const SHARE: Bounds = Bounds { fds: 336 + 42 + 60 + 12, ..BUSY };

/// MiB of replies that one process may have a victim keep, and of arguments, on a machine of whatever size: three eighths
/// of a GiB.
pub const FILLED: usize = 384;

/// An attack by its name.
pub type Attack = (&'static str, fn(&std::path::Path));

/// A table of attacks, and a test for each.
macro_rules! attacks {
    ($($name:ident: $victim:literal, $bounds:expr;)*) => {
        /// The attacks of this module, by name.
        pub const ALL: &[$crate::case::Attack] = &[$((stringify!($name), $name),)*];

        mod holds {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $name() {
                    handoff_testkit::require!(handoff_testkit::require_root());
                    $crate::case::run(stringify!($name), $victim, &$bounds);
                }
            )*
        }
    };
}

/// The processes that are attacked; what they hold is taken together.
#[derive(Default)]
struct Victims(Vec<Helper>);

impl Victims {
    /// `None`: one has ended.
    fn usage(&self) -> Option<Usage> {
        self.0.iter().map(|victim| Usage::of(victim.pid())).sum()
    }

    /// Control messages that the first of them has read.
    fn messages(&mut self) -> u64 {
        self.0[0].say("how many");
        self.0[0].hear("did").and_then(|count| count.parse().ok()).expect("the victim counts its messages")
    }

    fn has_ended(&mut self) -> Option<String> {
        self.0.iter_mut().find_map(Helper::has_ended)
    }
}

/// Runs the attack that is called so.
pub fn run(name: &str, victim: &str, bounds: &Bounds) {
    let place = Place::new();
    let folder = place.dir.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let owner = Some(Users::choose(name).victim());
    std::os::unix::fs::chown(folder, owner, owner).unwrap();
    let strict = std::env::var_os(STRICT).is_some_and(|value| value == "1");
    let socket = place.socket();
    let (victims, honest): (&[&str], _) = match victim {
        "bank" => (&["manager", "bank", "teller"], "honest customer"),
        "camera" => (&["camera"], "honest viewer"),
        "root server" => (&["root server"], "honest"),
        "tasks" => (&["tasks"], "honest"),
        _ => (&["server"], "honest"),
    };
    let mut server = Victims::default();
    for role in victims {
        let helper = Helper::start(role, &socket);
        helper.hear("serving").expect("the victim starts");
        server.0.push(helper);
    }
    let mut honest = Honest::start(honest, &socket);
    std::thread::sleep(if strict { DURING } else { BEFORE });
    let before = honest.window();
    let calm = server.usage().unwrap();

    let mut attacker = Helper::start(name, &socket);
    let mut most = calm;
    let began = Instant::now();
    attacker.hear("attacking").expect("the attacker does what it was made for");
    // What the attack's beginning cost is in the measure of memory, threads and descriptors, but no part of
    // what an attacker costs that stays.
    let from = server.usage().unwrap_or(most);
    let has_rate = bounds.rate < u64::MAX;
    let messages = if has_rate { server.messages() } else { 0 };
    let (end, since) = (Instant::now() + DURING, Instant::now());
    while Instant::now() < end {
        most = server.usage().map_or(most, |now| most.max(now));
        std::thread::sleep(Duration::from_millis(200));
    }
    most = server.usage().map_or(most, |now| most.max(now));
    let share = (most.cpu.saturating_sub(from.cpu)).as_secs_f64() / since.elapsed().as_secs_f64();
    let rate = if has_rate {
        let lasted = since.elapsed().as_secs_f64();
        (server.messages() - messages) as f64 / lasted
    } else {
        0.0
    };
    let during = honest.window();
    let ended = server.has_ended();

    let more = |now: usize, before: usize| now.saturating_sub(before);
    let used = [
        ("threads", more(most.threads, calm.threads), bounds.threads),
        ("descriptors", more(most.fds, calm.fds), bounds.fds),
        ("mappings", more(most.maps, calm.maps), bounds.maps),
        ("MiB resident", more(most.rss, calm.rss) / 1024, bounds.rss),
    ];
    attacker.say("what did you do");
    let did = attacker.hear("did").unwrap_or_default();
    let lasted = began.elapsed();
    println!("attack {name}, {:.1} s, {did}:", lasted.as_secs_f64());
    for (kind, before, during) in [("kept", &before[0], &during[0]), ("new", &before[1], &during[1])] {
        println!(
            "  {kind} connection: {} calls, {} failed (0 allowed), p99 {:.1} ms, before {:.1} ms {}",
            during.calls,
            during.failed,
            during.p99.as_secs_f64() * 1e3,
            before.p99.as_secs_f64() * 1e3,
            during.error,
        );
    }
    println!("  victim: CPU {share:.2} of one (at most {:.2})", bounds.cpu);
    used.iter().for_each(|(what, used, most)| println!("  victim: {used} more {what} (at most {most})"));

    assert_eq!(ended, None, "{name}: the victim lives");
    assert!(!did.contains(LEAKED), "{name}: the attacker was {LEAKED}");
    for (kind, window) in [("kept", &during[0]), ("new", &during[1])] {
        assert_eq!(window.failed, 0, "{name}: calls over a {kind} connection failed: {}", window.error);
        assert!(window.calls > 0, "{name}: calls are made over a {kind} connection");
    }
    assert!(share <= bounds.cpu, "{name}: the victim used {share:.2} of a CPU, {:.2} allowed", bounds.cpu);
    for (what, used, most) in used {
        assert!(used <= most, "{name}: the victim has {used} more {what}, {most} allowed");
    }
    if has_rate {
        println!("  victim: {rate:.0} messages a second (at most {})", bounds.rate);
        assert!(rate <= bounds.rate as f64, "{name}: the victim read {rate:.0} messages a second");
        assert!(rate > 0.0, "{name}: the victim reads what comes");
    }
    if strict {
        in_time(name, &before, &during);
    }

    attacker.kill();
    // Asked for its messages, a server gives memory back that its allocator keeps.
    let trims = victim.ends_with("server") || victim == "tasks";
    back_to(name, &mut server, &calm, trims);
    let after = honest.window();
    for window in &after {
        assert_eq!(window.failed, 0, "{name}: calls after the attack failed: {}", window.error);
    }
}

/// Honest calls take three times what they took, and one scheduling period, at the most.
fn in_time(name: &str, before: &[Window; 2], during: &[Window; 2]) {
    const PERIOD: Duration = Duration::from_millis(24);
    for (before, during) in before.iter().zip(during) {
        let most = before.p99 * 3 + PERIOD;
        assert!(during.p99 <= most, "{name}: p99 {:?}, at most {most:?} allowed", during.p99);
    }
}

/// After the attacker all is as it was before.
fn back_to(name: &str, server: &mut Victims, calm: &Usage, trims: bool) {
    let end = Instant::now() + GENEROUS;
    loop {
        let now = server.usage().unwrap_or_else(|| panic!("{name}: the victim lives on"));
        // A few of each: the honest client has a new connection now and then.
        let left = [
            ("threads", now.threads, calm.threads + POOL),
            ("descriptors", now.fds, calm.fds + 4),
            ("mappings", now.maps, calm.maps + 6 * POOL),
            ("KiB resident", now.rss, calm.rss + KEPT),
        ];
        let Some((what, has, had)) = left.into_iter().find(|(_, has, had)| has > had) else { return };
        if trims {
            server.messages();
        }
        assert!(Instant::now() < end, "{name}: the victim keeps {has} {what}, at most {had} are as before");
        std::thread::sleep(Duration::from_millis(50));
    }
}
