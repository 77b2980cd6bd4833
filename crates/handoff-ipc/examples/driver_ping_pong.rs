//! Calls on the kernel's Binder driver beside a bare ioctl ping-pong in C, batch by batch in turns: the part
//! of `cargo xtask bench binder` that runs in a guest.
//!
//! `driver_ping_pong RAW ROUNDS CALLS` prints, for each round, a line with the median of each subject's batch
//! in nanoseconds; the first line names the subjects. RAW is the program of `benches/binder/raw.c`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use handoff_ipc::binder::{BinderEngine, find_device};
use handoff_ipc::engine::Engine as _;
use handoff_ipc::{Binder, Context, Proxy, Service, Transaction};

const SMALL: usize = 8;
const LARGE: usize = 64 << 10;

/// The stub: sends back what it was sent.
struct Echo;

impl Service for Echo {
    fn descriptor(&self) -> &str {
        EchoProxy::DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { data, reply, .. } = transaction;
        match transaction.call.code() {
            1 => reply.write_shared(data.read_bytes()?),
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

struct EchoProxy(Binder);

impl Proxy for EchoProxy {
    const DESCRIPTOR: &'static str = "handoff.benches.IEcho";

    fn wrap(binder: Binder) -> Self {
        EchoProxy(binder)
    }
}

impl EchoProxy {
    /// Gives the length and the first byte of what came back.
    fn echo(&self, bytes: &[u8]) -> handoff_ipc::Result<(usize, Option<u8>)> {
        self.0.transaction(1).lend(&[bytes]).call(
            |to| to.write_lent(0),
            |from| {
                let back = from.read_bytes()?;
                Ok((back.len(), back.get(0)))
            },
        )
    }
}

type BoxResult<T> = Result<T, Box<dyn std::error::Error>>;

/// Something whose calls are timed.
trait Subject {
    /// The median of so many calls, in nanoseconds.
    fn batch(&mut self, calls: usize) -> BoxResult<u64>;
}

/// The program in C; its server lives as long.
struct Raw {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Raw {
    fn start(program: &str, device: &Path, bytes: usize) -> BoxResult<Self> {
        let mut process = Command::new(program)
            .args(["call".as_ref(), device, bytes.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (to, from) = (process.stdin.take(), process.stdout.take());
        let (Some(to), Some(from)) = (to, from) else { return Err("no pipes".into()) };
        Ok(Raw { process, to, from: BufReader::new(from) })
    }
}

impl Subject for Raw {
    fn batch(&mut self, calls: usize) -> BoxResult<u64> {
        writeln!(self.to, "{calls}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The runtime's call, through proxy and stub.
struct Ours {
    _engine: BinderEngine,
    proxy: EchoProxy,
    payload: Vec<u8>,
}

impl Ours {
    fn start(context: Context, bytes: usize) -> BoxResult<Self> {
        let engine = BinderEngine::open_for(find_device(context)?, context)?;
        let proxy = EchoProxy::from_binder(engine.context_object()?)?;
        Ok(Ours { _engine: engine, proxy, payload: vec![0; bytes] })
    }
}

impl Subject for Ours {
    fn batch(&mut self, calls: usize) -> BoxResult<u64> {
        let mut times = Vec::with_capacity(calls);
        for index in 0..calls {
            let begin = Instant::now();
            self.payload[0] = index as u8;
            let back = self.proxy.echo(&self.payload)?;
            if back != (self.payload.len(), Some(index as u8)) {
                return Err(format!("sent {} bytes, {back:?} came back", self.payload.len()).into());
            }
            times.push(begin.elapsed().as_nanos() as u64);
        }
        times.sort_unstable();
        Ok(times[calls / 2])
    }
}

/// A server that lives as long as this value.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> BoxResult<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take();
        let server = Server(child);
        let mut line = String::new();
        BufReader::new(stdout.ok_or("no pipe")?).read_line(&mut line)?;
        if line.trim() == "ready" { Ok(server) } else { Err("a server did not start".into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Serves until the parent ends.
fn serve(context: Context) -> BoxResult<()> {
    let engine = BinderEngine::open_for(find_device(context)?, context)?;
    // As the program in C: on one CPU a second thread would only make the two take turns.
    engine.set_max_threads(1);
    engine.become_context_manager(Binder::new(Echo))?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn measure(raw: &str, rounds: usize, calls: usize) -> BoxResult<()> {
    let itself = std::env::current_exe()?;
    let device = find_device(Context::Vendor)?;
    let _servers = [
        Server::start(Command::new(raw).arg("serve").arg(&device))?,
        Server::start(Command::new(&itself).args(["serve", "binder"]))?,
        Server::start(Command::new(&itself).args(["serve", "hwbinder"]))?,
    ];
    let mut subjects: Vec<(&str, Box<dyn Subject>)> = vec![
        ("raw 8 B", Box::new(Raw::start(raw, &device, SMALL)?)),
        ("call 8 B", Box::new(Ours::start(Context::Framework, SMALL)?)),
        ("raw 64 KiB", Box::new(Raw::start(raw, &device, LARGE)?)),
        ("call 64 KiB", Box::new(Ours::start(Context::Framework, LARGE)?)),
        ("gathered 64 KiB", Box::new(Ours::start(Context::Hardware, LARGE)?)),
    ];
    println!("{}", subjects.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("\t"));
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..rounds {
        // Another order each round (xorshift64: Marsaglia, 2003).
        for last in (1..order.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            order.swap(last, (random % (last as u64 + 1)) as usize);
        }
        let mut medians = vec![0; subjects.len()];
        for index in &order {
            // The first calls find cold caches.
            subjects[*index].1.batch(calls / 10 + 1)?;
            medians[*index] = subjects[*index].1.batch(calls)?;
        }
        println!("{}", medians.iter().map(u64::to_string).collect::<Vec<_>>().join("\t"));
    }
    Ok(())
}

fn main() -> BoxResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", device] => serve(device.parse()?),
        [raw, rounds, calls] => measure(raw, rounds.parse()?, calls.parse()?),
        _ => Err("driver_ping_pong RAW ROUNDS CALLS, in a guest with the Binder driver".into()),
    }
}
