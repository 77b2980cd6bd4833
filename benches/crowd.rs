//! What many clients of one server get, and what newcomers, names, objects and descriptors cost, beside other people's.
//!
//! `cargo xtask bench crowd` runs it; without `--rows FILE` it measures a few rounds and prints them. Nothing is pinned.
//! All clients are connected all the time, and those that are not asked sleep.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use handoff_benches::tables::{Table, Written, fastest, grouped, interval, time};
use handoff_benches::{
    LOOK, Pair, ROUNDS, WARM_UP, beside_hogs, exit, in_turns, keep, rows_file, subject, timed,
};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Runtime, Service, Transaction};
use handoff_lab::interleave::{InterleaveOutcome, Subject, SubjectError};
use handoff_lab::stats::describe::{median, sorted};
use handoff_peers::{Clients, Kind};
use handoff_workloads::Placement;

const PAGE: &str = "reference/peers.md";
const PAYLOAD: usize = 8;
/// Clients of one server that ask at once.
const COUNTS: [usize; 4] = [1, 4, 8, 64];
/// Servers, and clients of each.
const SERVERS: usize = 4;
const OF_EACH: usize = 4;
/// Clients whose rates are compared while the hogs run, and the hogs.
const RIVALS: usize = 8;
const HOGS: usize = 2;
/// How long clients ask at once.
const TURN: Duration = Duration::from_millis(120);
/// With hogs each waits for whole slices of the scheduler's: a second shows who is passed over.
const LONG_TURN: Duration = Duration::from_secs(1);
/// What the slowest of the rivals is to have at least, of the one in the middle.
const FAIR: f64 = 0.5;

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

fn run() -> Result<()> {
    let file = rows_file();
    // A notification of iceoryx2 0.10.0 can be lost, and its listener then sleeps for ever: reference/peers.md says how.
    let others = Kind::ALL.into_iter().filter(|kind| kind.most_clients() > 1 && *kind != Kind::Iceoryx2);
    let kinds = std::iter::once(Kind::OURS).chain(others);
    let crowds: Vec<Crowd> = kinds.filter_map(Crowd::start).collect();
    let others: Vec<Kind> =
        crowds.iter().map(|crowd| crowd.kind).filter(|kind| *kind != Kind::OURS).collect();
    let mut subjects: Vec<Subject<'static>> = Vec::new();
    for crowd in &crowds {
        for what in crowd.asked() {
            let against = if crowd.kind == Kind::OURS { &others[..] } else { &[] };
            let able = against.iter().filter(|other| what.is_for(**other));
            let one = crowd.subject(what);
            subjects.push(able.fold(one, |one, other| one.against(named(*other, what))));
        }
    }
    subjects.extend(ours()?);
    let outcome = in_turns(if file.is_some() { ROUNDS / 3 } else { LOOK }, subjects)?;

    let compared = Load::all().filter(|what| !matches!(what, Load::WithHogs));
    let rows = compared.filter_map(|what| fastest(&outcome, &named(Kind::OURS, what), 1.0, None)).collect();
    for crowd in &crowds {
        let share = median(&crowd.shares());
        if crowd.kind == Kind::OURS && share < FAIR {
            eprintln!(
                "warning: the slowest of our clients has {share:.2} of the rate of the one in the middle"
            );
        }
    }
    let each_second =
        OURS.iter().map(|name| vec![(*name).to_owned(), cell(&outcome, name, Shown::PerSecond)]).collect();
    let tables = vec![
        table(
            "peers-clients",
            "calls/s",
            &crowds,
            &outcome,
            Shown::PerSecond,
            &[
                Load::OfOne(COUNTS[0]),
                Load::OfOne(COUNTS[1]),
                Load::OfOne(COUNTS[2]),
                Load::OfOne(COUNTS[3]),
                Load::OfSeveral,
            ],
        ),
        fairness(&crowds, &outcome),
        table("peers-newcomers", "first reply", &crowds, &outcome, Shown::Time, &[Load::Newcomer]),
        Table {
            page: PAGE,
            mark: "own-rates".to_owned(),
            columns: vec!["ours".to_owned(), "a second".to_owned()],
            rows: each_second,
        },
    ];
    keep(file, &Written { rows, tables })
}

/// What a crowd is asked for in one turn.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// So many clients of one server.
    OfOne(usize),
    /// Clients of several servers.
    OfSeveral,
    /// As `OfOne`, beside threads that never sleep.
    WithHogs,
    /// One process more, until its first reply.
    Newcomer,
}

impl Load {
    fn all() -> impl Iterator<Item = Load> {
        COUNTS.into_iter().map(Load::OfOne).chain([Load::OfSeveral, Load::WithHogs, Load::Newcomer])
    }

    /// Whether a server of this way takes as many clients, and the newcomer.
    fn is_for(self, kind: Kind) -> bool {
        let clients = match self {
            Load::OfOne(clients) => clients,
            Load::OfSeveral => OF_EACH,
            Load::WithHogs => RIVALS,
            Load::Newcomer => 1,
        };
        clients < kind.most_clients()
    }

    fn spoken(self) -> String {
        match self {
            Load::OfOne(1) => "1 client".to_owned(),
            Load::OfOne(clients) => format!("{clients} clients"),
            Load::OfSeveral => format!("{} clients of {SERVERS} servers", SERVERS * OF_EACH),
            Load::WithHogs => format!("{RIVALS} clients beside {HOGS} hogs"),
            Load::Newcomer => "a process, started".to_owned(),
        }
    }
}

fn named(kind: Kind, what: Load) -> String {
    format!("{kind}, {}, 8 B", what.spoken())
}

/// Servers of one way with their clients.
struct Crowd {
    kind: Kind,
    servers: Rc<RefCell<Vec<Clients>>>,
    /// Of each turn with hogs, the slowest client's rate by that of the one in the middle.
    shares: Rc<RefCell<Vec<f64>>>,
}

impl Crowd {
    /// `None`, and why is said, where this build or machine has no such way.
    fn start(kind: Kind) -> Option<Self> {
        let most = COUNTS.into_iter().filter(|count| Load::OfOne(*count).is_for(kind)).max().unwrap_or(1);
        let counts = [most, OF_EACH, OF_EACH, OF_EACH];
        let servers = counts.into_iter().map(|clients| Clients::start(kind, Placement::Unpinned, clients));
        match servers.collect::<Result<Vec<_>, _>>() {
            Ok(servers) => {
                Some(Crowd { kind, servers: Rc::new(RefCell::new(servers)), shares: Rc::default() })
            }
            Err(error) => {
                eprintln!("warning: {kind} is not measured: {error}");
                None
            }
        }
    }

    /// What there are clients enough for.
    fn asked(&self) -> impl Iterator<Item = Load> + use<'_> {
        Load::all().filter(|what| what.is_for(self.kind))
    }

    /// A value is nanoseconds a call.
    fn subject(&self, what: Load) -> Subject<'static> {
        let (servers, shares) = (Rc::clone(&self.servers), Rc::clone(&self.shares));
        let turn = move || -> Result<f64, SubjectError> {
            let mut servers = servers.borrow_mut();
            let rate = match what {
                Load::OfOne(clients) => Clients::rates(&mut servers[..1], clients, PAYLOAD, TURN)?,
                Load::OfSeveral => Clients::rates(&mut servers, OF_EACH, PAYLOAD, TURN)?,
                Load::WithHogs => {
                    let each =
                        beside_hogs(HOGS, || Clients::rates(&mut servers[..1], RIVALS, PAYLOAD, LONG_TURN))?;
                    let slowest = sorted(&each)[0];
                    shares.borrow_mut().push(slowest / median(&each).max(1.0));
                    each
                }
                Load::Newcomer => return Ok(servers[0].newcomer(PAYLOAD)?.as_nanos() as f64),
            };
            Ok(1e9 / rate.iter().sum::<f64>().max(1e-3))
        };
        Subject::new(named(self.kind, what), turn)
    }

    /// Of the rounds that count.
    fn shares(&self) -> Vec<f64> {
        self.shares.borrow().iter().skip(WARM_UP).copied().collect()
    }
}

const OURS: [&str; 5] = [
    "new objects in replies, one each",
    "descriptors in replies, one each",
    "look-ups of a name",
    "registrations of a name, each taken back",
    "oneway calls of 8 B, until they were served",
];

/// Objects, descriptors and names of ours; a value is nanoseconds for one.
fn ours() -> Result<Vec<Subject<'static>>> {
    let pair = Rc::new(Pair::start(Gives)?);
    let each = |code: u32, pair: Rc<Pair>| {
        move |samples: u32, trips: u32| -> Result<Vec<f64>, SubjectError> {
            Ok(timed(samples, trips, || {
                let proxy = pair.proxy().transaction(code);
                match code {
                    OBJECT => drop(proxy.call(|_| Ok(()), |from| from.read::<Binder>())?),
                    _ => drop(proxy.call(|_| Ok(()), |from| from.read::<OwnedFd>())?),
                }
                Ok(())
            })?)
        }
    };
    let names = Runtime::private()?;
    let socket = names.socket().context("a private manager has a socket")?.to_owned();
    names.services().add("subject", Binder::new(Gives), ServiceOptions::default())?;
    let look = Rc::new(Runtime::builder().socket(&socket).connect()?);
    let (found, added) = (Rc::clone(&look), Binder::new(Gives));
    let look_up = move |samples, trips| {
        let _kept = &names;
        Ok(timed(samples, trips, || {
            found.services().get("subject")?;
            Ok(())
        })?)
    };
    let register = move |samples, trips| {
        Ok(timed(samples, trips, || {
            look.services().add("another", added.clone(), ServiceOptions::default())?;
            Ok(look.services().remove("another", &added)?)
        })?)
    };
    let [object, descriptor, found, registered, oneway] = OURS;
    Ok(vec![
        subject(object, each(OBJECT, Rc::clone(&pair)))?,
        subject(descriptor, each(DESCRIPTOR, pair))?,
        subject(found, look_up)?,
        subject(registered, register)?,
        subject(oneway, oneway_calls()?)?,
    ])
}

/// Sends so many and waits until the last one was served: nanoseconds of each.
fn oneway_calls() -> Result<impl FnMut(u32, u32) -> Result<Vec<f64>, SubjectError>> {
    const MANY: u64 = 1000;
    let served = Arc::new(AtomicU64::new(0));
    let (pair, mut sent) = (Pair::start(Counts(Arc::clone(&served)))?, 0);
    Ok(move |samples: u32, _: u32| {
        // A sample here is a thousand calls: fewer of them fill a batch.
        let times = timed(samples.div_ceil(100).max(8), 1, || {
            for value in 0..MANY {
                while let Err(error) = pair.proxy().transaction(1).oneway(|to| to.write(&value)) {
                    let handoff_ipc::Error::OnewayFull(_) = error else { return Err(error.into()) };
                    std::thread::yield_now();
                }
            }
            sent += MANY;
            while served.load(Ordering::Acquire) < sent {
                std::thread::yield_now();
            }
            Ok(())
        })?;
        Ok(times.into_iter().map(|time| time / MANY as f64).collect())
    })
}

/// Counts the calls that it is sent.
struct Counts(Arc<AtomicU64>);

impl Service for Counts {
    fn descriptor(&self) -> &str {
        "handoff.benches.ICounts"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        transaction.data.read::<u64>()?;
        self.0.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

const OBJECT: u32 = 1;
const DESCRIPTOR: u32 = 2;

/// Gives an object or a descriptor.
struct Gives;

impl Service for Gives {
    fn descriptor(&self) -> &str {
        "handoff.benches.IGives"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { call, reply, .. } = transaction;
        match call.code() {
            OBJECT => reply.write(&Binder::new(Gives)),
            _ => {
                let file = std::io::stderr().as_fd().try_clone_to_owned();
                reply.write(&file.map_err(|error| handoff_ipc::Error::io("cannot duplicate", error))?)
            }
        }
    }
}

/// How a value is told.
#[derive(Debug, Clone, Copy)]
enum Shown {
    PerSecond,
    Time,
}

fn cell(outcome: &InterleaveOutcome, subject: &str, shown: Shown) -> String {
    let Some(series) = outcome.series(subject) else { return "-".to_owned() };
    match shown {
        Shown::PerSecond => {
            let rates: Vec<f64> = series.values.iter().map(|ns| 1e9 / ns).collect();
            interval(&rates, |rate| grouped(*rate))
        }
        Shown::Time => interval(&series.values, |ns| time(*ns)),
    }
}

/// One row a way, one column for each that it is asked for.
fn table(
    mark: &'static str,
    what: &str,
    crowds: &[Crowd],
    outcome: &InterleaveOutcome,
    shown: Shown,
    asked: &[Load],
) -> Table {
    let row = |crowd: &Crowd| {
        let cells = asked.iter().map(|what| cell(outcome, &named(crowd.kind, *what), shown));
        std::iter::once(format!("{} {}", crowd.kind, crowd.kind.version())).chain(cells).collect()
    };
    Table {
        page: PAGE,
        mark: mark.to_owned(),
        columns: std::iter::once(what.to_owned()).chain(asked.iter().map(|what| what.spoken())).collect(),
        rows: crowds.iter().map(row).collect(),
    }
}

fn fairness(crowds: &[Crowd], outcome: &InterleaveOutcome) -> Table {
    let row = |crowd: &Crowd| {
        vec![
            format!("{} {}", crowd.kind, crowd.kind.version()),
            cell(outcome, &named(crowd.kind, Load::WithHogs), Shown::PerSecond),
            interval(&crowd.shares(), |share| format!("{share:.2}")),
        ]
    };
    Table {
        page: PAGE,
        mark: "peers-fair".to_owned(),
        columns: ["beside two hogs", "calls/s", "slowest of the middle one"].map(str::to_owned).to_vec(),
        rows: crowds.iter().map(row).collect(),
    }
}
