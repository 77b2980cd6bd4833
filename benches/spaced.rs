//! Calls that come now and then: clients of each way that ask with a pause before each request, as subjects of an
//! interleaved run.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use handoff_lab::interleave::{Subject, SubjectError};
use handoff_peers::{Clients, Kind, Spaced};
use handoff_workloads::Placement;

use crate::tables::middle;
use crate::{WARM_UP, beside_hogs};

const PAYLOAD: usize = 8;
/// What ours is to take at most, of the fastest peer's median.
pub const GOAL: f64 = 1.25;

/// When and beside what a client asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub pause: Duration,
    /// Requests of a turn.
    pub samples: u32,
    /// Threads that run without end meanwhile, on any CPU.
    pub hogs: usize,
    /// The client is a real-time process.
    pub is_urgent: bool,
}

/// On a machine that does nothing else.
pub const fn idle(pause: Duration, samples: u32) -> Load {
    Load { pause, samples, hogs: 0, is_urgent: false }
}

/// A request every 10 ms while so many threads never sleep.
pub const fn beside(hogs: usize, is_urgent: bool) -> Load {
    Load { pause: Duration::from_millis(10), samples: 5, hogs, is_urgent }
}

impl Load {
    /// Such as `beside 2 hogs`; nothing if none runs.
    pub fn spoken_hogs(self) -> String {
        match self.hogs {
            0 => String::new(),
            1 => "beside 1 hog".to_owned(),
            count => format!("beside {count} hogs"),
        }
    }

    /// Such as `every 10 ms`.
    pub fn spoken_pause(self) -> String {
        format!("every {} ms", self.pause.as_secs_f64() * 1e3)
    }
}

/// The name of a subject.
pub fn named(kind: Kind, load: Load) -> String {
    let caller = if load.is_urgent { " of a FIFO caller" } else { "" };
    format!("{kind}, one call{caller} {} {}", load.spoken_pause(), load.spoken_hogs()).trim_end().to_owned()
}

/// All requests of one way under one load.
#[derive(Debug)]
pub struct Seen {
    pub kind: Kind,
    pub load: Load,
    spaced: Rc<RefCell<Vec<Spaced>>>,
}

impl Seen {
    /// What of the rounds that count `each` gives.
    pub fn counted<T>(&self, each: impl Fn(&Spaced) -> Vec<T>) -> Vec<T> {
        self.spaced.borrow().iter().skip(WARM_UP).flat_map(each).collect()
    }
}

/// A server and a client of one way, and the same with a real-time client where this process may have one.
struct Started {
    kind: Kind,
    ordinary: Rc<RefCell<Clients>>,
    urgent: Option<Rc<RefCell<Clients>>>,
}

impl Started {
    fn clients(&self, load: Load) -> Option<&Rc<RefCell<Clients>>> {
        if load.is_urgent { self.urgent.as_ref() } else { Some(&self.ordinary) }
    }
}

/// What of one way this build and this machine have.
fn start(kind: Kind) -> Option<Started> {
    let started = |clients: handoff_workloads::Result<Clients>, whose: &str| match clients {
        Ok(clients) => Some(Rc::new(RefCell::new(clients))),
        Err(error) => {
            eprintln!("warning: {kind} is not measured{whose}: {error}");
            None
        }
    };
    let ordinary = started(Clients::start(kind, Placement::Unpinned, 1), "")?;
    let urgent = started(Clients::start_urgent(kind, Placement::Unpinned), " with a real-time client");
    Some(Started { kind, ordinary, urgent })
}

/// A subject for each way of this build under each load, ours at the head and compared with all others.
pub fn subjects(loads: &[Load]) -> (Vec<Subject<'static>>, Vec<Seen>) {
    let started: Vec<_> = std::iter::once(Kind::OURS).chain(Kind::ALL).filter_map(start).collect();
    let (mut subjects, mut all) = (Vec::new(), Vec::new());
    for way in &started {
        for &load in loads {
            let Some(clients) = way.clients(load) else { continue };
            let seen = Seen { kind: way.kind, load, spaced: Rc::default() };
            let (clients, spaced) = (Rc::clone(clients), Rc::clone(&seen.spaced));
            let turn = move || -> Result<f64, SubjectError> {
                let mut clients = clients.borrow_mut();
                let requests = beside_hogs(load.hogs, || clients.spaced(PAYLOAD, load.samples, load.pause))?;
                let median = middle(&requests.took);
                spaced.borrow_mut().push(requests);
                Ok(median)
            };
            let others = started.iter().filter(|other| {
                way.kind == Kind::OURS && other.kind != Kind::OURS && other.clients(load).is_some()
            });
            let subject = Subject::new(named(way.kind, load), turn);
            subjects.push(others.fold(subject, |all, other| all.against(named(other.kind, load))));
            all.push(seen);
        }
    }
    (subjects, all)
}
