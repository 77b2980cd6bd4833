//! An honest client: ten calls a second on a connection that it keeps, and ten on a new one each time.

use std::io::{BufRead as _, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use handoff_ipc::engine::Engine;
use handoff_ipc::frames::FrameConsumer;
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error, Result, Runtime};

use crate::bank;
use crate::common::{ECHO, HOLD, MAKE_FD};
use crate::process::{self, Helper, Users};

/// How long a call may take: a limit on behaviour, not on speed.
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// What came of the calls of one kind.
#[derive(Debug, Clone, Default)]
struct Calls {
    times: Vec<Duration>,
    failed: usize,
    error: String,
}

impl Calls {
    /// Calls, failures, the 99th percentile in microseconds, the first error.
    fn report(mut self) -> String {
        self.times.sort_unstable();
        let p99 = self.times.get((self.times.len() * 99).div_ceil(100).saturating_sub(1));
        let p99 = p99.map_or(0, Duration::as_micros);
        format!("{} {} {p99} {}", self.times.len(), self.failed, self.error.replace([';', '\n'], ","))
    }
}

fn echo(root: &Binder) -> Result<()> {
    let answer = root
        .transaction(ECHO)
        .deadline(DEADLINE)
        .call(|w| w.write_bytes(b"honest"), |r| Ok(r.read_bytes()?.to_vec()))?;
    assert_eq!(answer, b"honest");
    // A descriptor back, too.
    root.transaction(MAKE_FD).deadline(DEADLINE).call(
        |w| {
            w.write_string16("honest")?;
            w.write_i32(1)
        },
        |r| r.read::<OwnedFd>().map(drop),
    )?;
    // And one that nobody waits for; the service says that it serves it.
    let (mut here, there) = UnixStream::pair().unwrap();
    here.set_read_timeout(Some(DEADLINE)).unwrap();
    root.transaction(HOLD).oneway(|w| w.write(&OwnedFd::from(there)))?;
    here.read_exact(&mut [0]).map_err(|error| Error::io("a oneway call is not served", error))
}

fn over_a_new_connection(socket: &Path) -> Result<()> {
    let engine = ShmEngine::new(socket)?;
    echo(&engine.context_object()?)
}

pub fn client(role: &str, socket: &Path) {
    process::become_user(Users::here().honest());
    let at = socket.to_owned();
    let (old, new) = match role {
        "honest customer" => {
            let runtime = Runtime::builder().socket(socket).connect().unwrap();
            let old = call_again_and_again(move || bank::pay(&runtime, DEADLINE));
            (old, call_again_and_again(move || bank::register_and_pay(&at, DEADLINE)))
        }
        "honest viewer" => {
            let engine = ShmEngine::new(socket).unwrap();
            let mut frames = FrameConsumer::subscribe(&engine.context_object().unwrap()).unwrap();
            let old = call_again_and_again(move || {
                let _kept = &engine;
                bank::look(&mut frames, DEADLINE)
            });
            (old, call_again_and_again(move || bank::subscribe_and_look(&at, DEADLINE)))
        }
        _ => {
            let engine = ShmEngine::new(socket).unwrap();
            let root = engine.context_object().unwrap();
            let old = call_again_and_again(move || {
                let _kept = &engine;
                echo(&root)
            });
            (old, call_again_and_again(move || over_a_new_connection(&at)))
        }
    };
    process::tell("calling");
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        assert_eq!(line, "window");
        // A call that is under way ends first: so that one which hangs is counted.
        let [old, new] = [&old, &new].map(|calls| std::mem::take(&mut *calls.lock().unwrap()).report());
        process::tell(&format!("window {old};{new}"));
    }
    std::process::exit(0);
}

fn call_again_and_again(mut call: impl FnMut() -> Result<()> + Send + 'static) -> Arc<Mutex<Calls>> {
    let all = Arc::new(Mutex::new(Calls::default()));
    let calls = Arc::clone(&all);
    std::thread::spawn(move || {
        loop {
            let mut calls = calls.lock().unwrap();
            let began = Instant::now();
            let outcome = call();
            calls.times.push(began.elapsed());
            if let Err(error) = outcome {
                calls.failed += 1;
                if calls.error.is_empty() {
                    calls.error = error.to_string();
                }
            }
            drop(calls);
            std::thread::sleep(PAUSE);
        }
    });
    all
}

/// What a client reports of one kind of call.
#[derive(Debug, Clone, Default)]
pub struct Window {
    pub calls: usize,
    pub failed: usize,
    pub p99: Duration,
    pub error: String,
}

impl Window {
    fn parse(text: &str) -> Self {
        let mut words = text.trim().splitn(4, ' ');
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (calls, failed) = (number() as usize, number() as usize);
        let p99 = Duration::from_micros(number());
        Window { calls, failed, p99, error: words.next().unwrap_or("").to_owned() }
    }
}

/// The client as its test sees it.
pub struct Honest(Helper);

impl Honest {
    pub fn start(role: &str, socket: &Path) -> Self {
        let helper = Helper::start(role, socket);
        helper.hear("calling").expect("the honest client starts");
        Honest(helper)
    }

    /// What came of the calls since the last time: over the connection that it keeps, and over new ones.
    pub fn window(&mut self) -> [Window; 2] {
        self.0.say("window");
        let text = self.0.hear("window").expect("the honest client reports");
        let (old, new) = text.split_once(';').unwrap();
        [Window::parse(old), Window::parse(new)]
    }
}
