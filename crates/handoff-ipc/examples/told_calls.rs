//! Calls under a sched_ext scheduler that is told who calls whom, beside the same calls under others: the figures of the
//! book's page on it. `contrib/sched-ext/run.sh` runs it in a guest.
//!
//! `told_calls compare ENGINE SEED ROUNDS SITUATION... -- TOLD OBJECT` starts itself under each scheduler in turns, and prints
//! a line for each figure of each run. `told_calls tables FILE...` makes tables of such lines, those of several guests, too.
//! `told_calls calls ENGINE ARM SITUATION...` makes the calls of one run.
//! To tell, a thread writes who it calls into its entry of a map that it inherited: see `contrib/sched-ext/handoff.bpf.c`.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use handoff_ipc::binder::{BinderEngine, find_device};
use handoff_ipc::engine::Engine as _;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Context, InterfaceId, Runtime, Service, Transaction};
use handoff_placement::fast::{cpu_time, current_cpu};
use handoff_placement::{Policy, Priority, Tid};

type BoxResult<T> = Result<T, Box<dyn std::error::Error>>;

const INTERFACE: InterfaceId = InterfaceId::new("handoff.benches.ITold");
const WORK: u32 = 1;

/// Threads that the map has entries for, as `contrib/sched-ext/told.h` has it.
const THREADS: usize = 32768;

/// The map in which threads tell whom they call, as an array of thread ids, 8 bytes each.
#[derive(Clone, Copy)]
struct CallMap(NonNull<AtomicI64>);

// SAFETY: the mapping lives as long as the process, and is only read and written as atomics.
unsafe impl Send for CallMap {}
// SAFETY: as above.
unsafe impl Sync for CallMap {}

impl CallMap {
    /// The map that this process inherited.
    fn inherited() -> BoxResult<Self> {
        let fd = std::env::var("HANDOFF_TOLD")
            .map_err(|_| "no scheduler to tell: HANDOFF_TOLD names no descriptor")?;
        let (fd, protection) = (fd.parse()?, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice, of as many entries as the map has.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), 8 * THREADS, protection, libc::MAP_SHARED, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(format!("cannot map who calls whom: {}", std::io::Error::last_os_error()).into());
        }
        Ok(Self(NonNull::new(address.cast()).ok_or("a mapping at address 0")?))
    }

    /// Says whom the calling thread calls; 0: nobody.
    fn tell(self, callee: i32) {
        if let Some(own) = usize::try_from(Tid::current().as_raw()).ok().filter(|own| *own < THREADS) {
            // SAFETY: the entry lies inside the mapping, which nothing removes.
            unsafe { self.0.add(own).as_ref() }.store(callee.into(), Ordering::Release);
        }
    }
}

/// Says which thread serves on which CPU.
struct Worker(Option<CallMap>);

impl Service for Worker {
    fn descriptor(&self) -> &str {
        INTERFACE.descriptor()
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { call, data, reply } = transaction;
        if call.code() != WORK {
            return Err(transaction.unknown(self.descriptor()));
        }
        let (caller, work): (i32, i32) = (data.read()?, data.read()?);
        if let Ok(work @ 1..) = u64::try_from(work) {
            let end = cpu_time() + Duration::from_micros(work);
            while cpu_time() < end {}
        }
        reply.write(&Tid::current().as_raw())?;
        reply.write(&(current_cpu() as i32))?;
        // The reply wakes the caller, and this thread blocks after it.
        if let Some(told) = self.0 {
            told.tell(caller);
        }
        Ok(())
    }
}

/// A caller, and the thread that served it last.
struct Caller {
    object: Binder,
    told: Option<CallMap>,
    callee: i32,
    /// What a call has the callee compute, in microseconds.
    work: i32,
}

impl Caller {
    /// Makes a call; gives its time in nanoseconds and whether it was served on the caller's CPU.
    fn call(&mut self) -> BoxResult<(u64, bool)> {
        let own = Tid::current().as_raw();
        let cpu = current_cpu() as i32;
        let begin = Instant::now();
        if let Some(told) = self.told {
            told.tell(self.callee);
        }
        let call = self.object.transaction(WORK).interface(INTERFACE);
        let (callee, served): (i32, i32) = call.call(
            |data| data.write(&own).and_then(|()| data.write(&self.work)),
            |reply| Ok((reply.read()?, reply.read()?)),
        )?;
        if let Some(told) = self.told {
            told.tell(0);
        }
        self.callee = callee;
        Ok((begin.elapsed().as_nanos() as u64, served == cpu))
    }
}

/// Threads that compute at the usual priority until they are dropped.
struct Hogs(Arc<AtomicBool>);

impl Hogs {
    fn start(count: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..count {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let usual = Priority { policy: Policy::Other, rt: 0, nice: 0 };
                usual.apply(Tid::current()).expect("back to the usual priority");
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The other process, which serves until this value goes.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn serve(engine: &str, told: Option<CallMap>) -> BoxResult<()> {
    let service = Binder::new(Worker(told));
    let (_driver, _runtime);
    match engine {
        "binder" => {
            let driver = BinderEngine::open_for(find_device(Context::Framework)?, Context::Framework)?;
            driver.set_max_threads(1);
            driver.become_context_manager(service)?;
            println!("ready");
            _driver = driver;
        }
        "shm" => {
            let runtime = Runtime::private()?;
            runtime.services().add("worker", service, ServiceOptions::default())?;
            println!("{}", runtime.socket().ok_or("a private manager has a socket")?.display());
            _runtime = runtime;
        }
        _ => return Err(format!("there is no engine {engine}").into()),
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Context switches of the whole machine so far.
fn switches() -> BoxResult<u64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    Ok(line.ok_or("no ctxt in /proc/stat")?.trim().parse()?)
}

/// What is measured at a time: threads that compute, calls, and the pause before each.
struct Situation<'a> {
    name: &'a str,
    hogs: usize,
    calls: usize,
    pause: Duration,
    work: i32,
}

impl<'a> Situation<'a> {
    /// `4`: 4 hogs, and a pause of 2 ms before each call; `4+`: one call after the other; `4w`: as `4`, and the callee computes
    /// for 1 ms; `0`: one call after the other, and no hogs.
    fn parse(name: &'a str) -> BoxResult<Self> {
        let hogs: usize = name.trim_end_matches(['+', 'w']).parse()?;
        let many = hogs == 0 || name.ends_with('+');
        let (calls, pause) = if many { (200, Duration::ZERO) } else { (25, Duration::from_millis(2)) };
        let work = if name.ends_with('w') { 1000 } else { 0 };
        Ok(Self { name, hogs, calls, pause, work })
    }

    fn measure(&self, caller: &mut Caller) -> BoxResult<()> {
        caller.work = self.work;
        let hogs = Hogs::start(self.hogs);
        let mut times = Vec::with_capacity(self.calls);
        let (mut beside, mut switched) = (0_u32, 0);
        let (begin, all) = (Instant::now(), switches()?);
        for _ in 0..self.calls {
            if self.pause.is_zero() {
                let (time, same) = caller.call()?;
                times.push(time);
                beside += u32::from(same);
                continue;
            }
            std::thread::sleep(self.pause);
            // Of the call alone: to read them takes longer than a call.
            let before = switches()?;
            let (time, same) = caller.call()?;
            switched += switches()? - before;
            times.push(time);
            beside += u32::from(same);
        }
        let whole = begin.elapsed();
        if self.pause.is_zero() {
            switched = switches()? - all;
        }
        drop(hogs);
        times.sort_unstable();
        let calls = self.calls as f64;
        let at = |share: usize| times[(times.len() - 1) * share / 100] as f64 / 1000.0;
        let figures = [
            ("median_us", at(50)),
            ("mean_us", times.iter().sum::<u64>() as f64 / 1000.0 / calls),
            ("p95_us", at(95)),
            ("max_us", at(100)),
            ("cycle_us", whole.as_nanos() as f64 / 1000.0 / calls),
            ("switches", switched as f64 / calls),
            ("same_cpu", f64::from(beside) / calls),
        ];
        figures.iter().for_each(|(figure, value)| println!("{}\t{figure}\t{value:.3}", self.name));
        Ok(())
    }
}

/// One run: prints a figure a line.
fn calls(engine: &str, arm: &str, situations: &[&str]) -> BoxResult<()> {
    if arm == "fifo" {
        // The server inherits it, as with chrt(1).
        Priority { policy: Policy::Fifo, rt: 1, nice: 0 }.apply(Tid::current())?;
    }
    let tell = arm == "told";
    let told = tell.then(CallMap::inherited).transpose()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", engine]).args(tell.then_some("told"));
    let mut server = Server(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let mut first = String::new();
    BufReader::new(server.0.stdout.take().ok_or("no pipe")?).read_line(&mut first)?;
    let (_driver, _runtime);
    let object = match (engine, first.trim()) {
        (_, "") => return Err("the server did not start".into()),
        ("binder", _) => {
            let driver = BinderEngine::open_for(find_device(Context::Framework)?, Context::Framework)?;
            let object = driver.context_object()?;
            _driver = driver;
            object
        }
        (_, socket) => {
            let runtime = Runtime::builder().socket(socket).connect()?;
            let object = runtime.services().get("worker")?;
            _runtime = runtime;
            object
        }
    };
    let mut caller = Caller { object, told, callee: 0, work: 0 };
    // The first calls find out who serves, and have memory mapped.
    for _ in 0..20 {
        caller.call()?;
    }
    for name in situations {
        std::thread::sleep(SETTLE);
        Situation::parse(name)?.measure(&mut caller)?;
    }
    Ok(())
}

/// After a scheduler was loaded, the kernel gives memory of the verifier's back for some milliseconds; and hogs need a moment to end.
const SETTLE: Duration = Duration::from_millis(100);

/// The schedulers: the kernel's own; with both sides SCHED_FIFO; ours, told nothing; ours.
const ARMS: [&str; 4] = ["default", "fifo", "untold", "told"];

/// Makes the calls of every situation under one scheduler; gives the lines.
fn run(engine: &str, arm: &str, situations: &[&str], told: &[&str]) -> BoxResult<String> {
    let itself = std::env::current_exe()?;
    let counts = std::env::temp_dir().join("told-counts");
    let loaded = matches!(arm, "told" | "untold");
    let mut command = Command::new(&itself);
    if loaded {
        command = Command::new(told[0]);
        command.args([told[1], "--"]).arg(&itself).env("TOLD_COUNTS", &counts);
    }
    let output = command.args(["calls", engine, arm]).args(situations).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the run of {arm} failed: {}", output.status).into());
    }
    let mut lines = String::from_utf8(output.stdout)?;
    if loaded {
        for pair in std::fs::read_to_string(&counts)?.trim().trim_matches(['{', '}']).split(", ") {
            let (name, value) = pair.split_once(": ").ok_or("a count has a name and a value")?;
            lines += &format!("all\t{}\t{value}\n", name.trim_matches('"'));
        }
    }
    Ok(lines)
}

/// Median, and the order statistics that enclose it with at least 95% where there are enough values, else the ends.
fn interval(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    // How likely at most `below` of n values lie on one side of the median.
    let tail = |below: usize| {
        let mut choose = 1.0;
        let mut sum = 1.0;
        for index in 0..below {
            choose *= (n - index) as f64 / (index + 1) as f64;
            sum += choose;
        }
        sum / 2f64.powi(n as i32)
    };
    let cut = (0..n / 2).take_while(|cut| tail(*cut) <= 0.025).count().saturating_sub(1);
    let middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    [middle, sorted[cut], sorted[n - 1 - cut]]
}

/// Rounds of runs under each scheduler, each round in another order (xorshift64: Marsaglia, 2003).
fn compare(engine: &str, seed: u64, rounds: usize, situations: &[&str], told: &[&str]) -> BoxResult<()> {
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ seed;
    for round in 0..rounds {
        let mut order = ARMS;
        for last in (1..order.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            order.swap(last, (random % (last as u64 + 1)) as usize);
        }
        for arm in order {
            for line in run(engine, arm, situations, told)?.lines() {
                println!("{engine}\t{seed}.{round}\t{arm}\t{line}");
            }
        }
    }
    Ok(())
}

/// Writes a table for each figure that the lines of all files have: medians, and the median of the rounds' ratios.
fn tables(files: &[&str]) -> BoxResult<()> {
    // By figure, engine and situation; then by round and arm.
    let mut kept: BTreeMap<[String; 3], BTreeMap<(String, String), f64>> = BTreeMap::new();
    for file in files {
        for line in std::fs::read_to_string(file)?.lines() {
            let [engine, round, arm, situation, figure, value] =
                line.split('\t').collect::<Vec<_>>().try_into().map_err(|_| format!("no figure: {line}"))?;
            let key = [figure, engine, situation].map(str::to_owned);
            kept.entry(key).or_default().insert((round.to_owned(), arm.to_owned()), value.parse()?);
        }
    }
    let mut above = "";
    for ([figure, engine, situation], values) in &kept {
        if figure != above {
            println!("\n| {figure} | {} | told / default | told / untold | rounds |", ARMS.join(" | "));
            println!("|{}", "---|".repeat(ARMS.len() + 4));
            above = figure;
        }
        let of = |arm: &str| {
            let of_arm = values.iter().filter(|((_, of), _)| of == arm);
            of_arm.map(|((round, _), value)| (round.as_str(), *value)).collect::<BTreeMap<_, _>>()
        };
        let cells = ARMS.map(|arm| {
            let values: Vec<f64> = of(arm).into_values().collect();
            if values.is_empty() { String::new() } else { format!("{:.2}", interval(&values)[0]) }
        });
        let told = of("told");
        let ratio = |to: &str| {
            let to = of(to);
            let ratios: Vec<f64> = told.iter().filter_map(|(round, a)| Some(a / to.get(round)?)).collect();
            if ratios.is_empty() || ratios.iter().any(|ratio| !ratio.is_finite()) {
                return String::new();
            }
            let [middle, low, high] = interval(&ratios);
            format!("{middle:.3} [{low:.3}, {high:.3}]")
        };
        println!(
            "| {engine}, {situation} | {} | {} | {} | {} |",
            cells.join(" | "),
            ratio("default"),
            ratio("untold"),
            told.len()
        );
    }
    Ok(())
}

fn main() -> BoxResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", engine] => serve(engine, None),
        ["serve", engine, "told"] => serve(engine, Some(CallMap::inherited()?)),
        ["calls", engine, arm, ref situations @ ..] => calls(engine, arm, situations),
        ["tables", ref files @ ..] => tables(files),
        ["compare", engine, seed, rounds, ref situations @ .., "--", told, object] => {
            compare(engine, seed.parse()?, rounds.parse()?, situations, &[told, object])
        }
        _ => Err("told_calls compare ENGINE SEED ROUNDS SITUATION... -- TOLD OBJECT".into()),
    }
}
