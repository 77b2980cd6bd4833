//! The agent's end: requests on standard input, answers on standard output.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Line, Request, VERSION};

/// How often it says that it is still there.
const BEAT: Duration = Duration::from_secs(1);

/// The longest request: the rounds of an experiment that goes on.
const LONGEST: u64 = 256 << 20;

/// What a service answers: a result, or why there is none.
pub type Reply = Result<Value, String>;

/// Says what happens while a request is answered.
#[derive(Debug)]
pub struct Teller<'a> {
    out: &'a Out,
}

impl Teller<'_> {
    /// Tells it to whoever asked. It sets the flag that [`serve`] was given if nobody listens any more.
    pub fn tell(&self, event: &impl Serialize) {
        self.out.say(&Line::<_, ()>::Event(event));
    }
}

/// Answers requests until standard input ends. `answer` gets each, and `stop` is set when nobody listens any more.
pub fn serve(
    input: impl Read,
    out: impl Write + Send + 'static,
    program: &str,
    stop: &'static AtomicBool,
    answer: &mut dyn FnMut(&Request, &Teller<'_>) -> Reply,
) -> io::Result<()> {
    let out = Arc::new(Out { to: Mutex::new(Box::new(out)), stop });
    out.say(&Line::<(), ()>::Agent { version: VERSION, program: program.to_owned() });
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply = Request::read(line).and_then(|request| {
            let _alive = request.alive.then(|| Beat::start(&out));
            answer(&request, &Teller { out: &out })
        });
        out.say(&match reply {
            Ok(done) => Line::<(), _>::Done(done),
            Err(why) => Line::Failed(why),
        });
    }
}

struct Out {
    to: Mutex<Box<dyn Write + Send>>,
    stop: &'static AtomicBool,
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl Out {
    fn say(&self, line: &Line<impl Serialize, impl Serialize>) {
        let text = serde_json::to_vec(line).or_else(|error| {
            serde_json::to_vec(&Line::<(), ()>::Failed(format!("the answer cannot be written: {error}")))
        });
        let mut text = text.unwrap_or_default();
        text.push(b'\n');
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if to.write_all(&text).and_then(|()| to.flush()).is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Says that the agent is still there, until it is dropped.
struct Beat {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Beat {
    fn start(out: &Arc<Out>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (out, end) = (Arc::clone(out), Arc::clone(&over));
        let beat = move || {
            for count in 0.. {
                thread::park_timeout(BEAT);
                if end.load(Ordering::Relaxed) {
                    return;
                }
                out.say(&Line::<(), ()>::Alive(count));
            }
        };
        Beat { over, thread: thread::Builder::new().name("heart-beat".to_owned()).spawn(beat).ok() }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}
