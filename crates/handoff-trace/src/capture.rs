//! Recording: from a choice of events to the raw pages of every CPU.
//!
//! A *stream* reads the buffers all the while, up to a limit of memory; a *flight recorder* leaves
//! them to overwrite their oldest events and reads them once, when it is frozen. Neither wakes the
//! tasks that it watches.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::context::Watch;
use crate::error::{Result, TraceError};
use crate::event::Tid;
use crate::ring::PageLayout;
use crate::trace::RawTrace;
use crate::tracefs::{Instance, TraceFs, read};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRequest {
    /// The system, such as `sched`.
    pub system: String,
    /// The event, such as `sched_switch`.
    pub event: String,
    /// Whether a kernel without it is an error.
    pub required: bool,
}

impl EventRequest {
    /// An event without which the recording makes no sense.
    pub fn required(system: &str, event: &str) -> Self {
        Self { system: system.to_owned(), event: event.to_owned(), required: true }
    }

    /// An event that is recorded where the kernel has it.
    pub fn optional(system: &str, event: &str) -> Self {
        Self { required: false, ..Self::required(system, event) }
    }
}

/// The systems of a Binder driver's events: of the driver in C, and of the one in Rust. Both have events of the same
/// names and fields.
pub const BINDER_SYSTEMS: [&str; 2] = ["binder", "rust_binder"];

/// The events that a wake graph needs: who ran, who woke whom, who moved.
#[must_use]
pub fn scheduling_events() -> Vec<EventRequest> {
    let mut events = vec![
        EventRequest::required("sched", "sched_switch"),
        EventRequest::required("sched", "sched_wakeup"),
    ];
    for event in
        ["sched_waking", "sched_wakeup_new", "sched_migrate_task", "sched_process_fork", "sched_process_exit"]
    {
        events.push(EventRequest::optional("sched", event));
    }
    events
}

/// [`scheduling_events`] and what else can make a hand-off late: interrupts, idle states,
/// frequencies, inherited priorities, Binder's transactions, and the marks that programs write.
#[must_use]
pub fn diagnosis_events() -> Vec<EventRequest> {
    let mut events = scheduling_events();
    for (system, event) in [
        ("sched", "sched_pi_setprio"),
        ("irq", "irq_handler_entry"),
        ("irq", "irq_handler_exit"),
        ("irq", "softirq_entry"),
        ("irq", "softirq_exit"),
        ("power", "cpu_idle"),
        ("power", "cpu_frequency"),
    ] {
        events.push(EventRequest::optional(system, event));
    }
    for system in BINDER_SYSTEMS {
        events.extend(
            ["binder_transaction", "binder_transaction_received"]
                .map(|event| EventRequest::optional(system, event)),
        );
    }
    events
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Everything, up to so many bytes in all; what comes after that is counted as lost.
    Stream {
        /// The limit, in bytes.
        limit: usize,
    },
    /// What fits into the buffers, the newest.
    Flight,
}

/// What is recorded, of whom and how.
#[derive(Debug, Clone)]
pub struct Config {
    pub events: Vec<EventRequest>,
    /// Only of these tasks and what concerns them; empty for the whole system.
    pub tasks: Vec<Tid>,
    /// Also of the tasks that those start.
    pub children: bool,
    /// The size of each CPU's buffer, in KiB.
    pub buffer_kib: usize,
    /// The clock of the time stamps, as `trace_clock` names it. `mono` is `CLOCK_MONOTONIC`.
    pub clock: String,
    pub keep: Keep,
}

impl Default for Config {
    /// Streams scheduling events of the whole system, 16 MiB a CPU, up to 1 GiB, with `mono`.
    fn default() -> Self {
        Self {
            events: scheduling_events(),
            tasks: Vec::new(),
            children: true,
            buffer_kib: 16 << 10,
            clock: "mono".to_owned(),
            keep: Keep::Stream { limit: 1 << 30 },
        }
    }
}

#[derive(Debug)]
pub struct Capture {
    // Before the instance, which cannot be removed while the reader has its files open.
    reader: Option<Reader>,
    instance: Instance,
    raw: RawTrace,
    watch: Watch,
    limit: usize,
}

/// Stops a recording with one system call and nothing else: for the moment of a missed deadline.
///
/// The buffer cannot be removed while one is open (also in a forked process): drop it before
/// [`Capture::finish`], or `handoff sched restore` has to remove the buffer later.
#[derive(Debug)]
pub struct Stopper {
    file: File,
}

impl Stopper {
    pub fn stop(&self) -> io::Result<()> {
        (&self.file).write_all(b"0")
    }
}

/// How often a stream looks for full pages.
const PERIOD: Duration = Duration::from_millis(10);

impl Capture {
    /// Starts to record.
    ///
    /// # Errors
    ///
    /// [`TraceError::Control`] if tracing is not permitted or the buffer does not fit into memory,
    /// [`TraceError::NoEvent`] if a required event is not there.
    pub fn start(tracefs: &TraceFs, config: &Config) -> Result<Self> {
        let instance = Instance::create(tracefs)?;
        instance.set("trace_clock", &config.clock)?;
        instance.set("buffer_size_kb", &config.buffer_kib.max(16).to_string())?;
        instance.set("options/overwrite", "1")?;
        let mut formats = Vec::new();
        for EventRequest { system, event, required } in &config.events {
            if *required || instance.has_event(system, event) {
                formats.push((
                    system.clone(),
                    instance.format(system, event).or_else(|error| {
                        // A missing event is said to be missing, not that a file of it is.
                        instance.enable(system, event).and(Err(error))
                    })?,
                ));
            }
        }
        // `trace_marker` is always on; its format is not among those of the instance.
        let marker = tracefs.root().join("events/ftrace/print/format");
        formats.push(("ftrace".to_owned(), read(&marker)?));
        for EventRequest { system, event, required } in &config.events {
            if *required || instance.has_event(system, event) {
                instance.enable(system, event)?;
            }
        }
        let header_page = read(&tracefs.root().join("events/header_page"))?;
        let layout = page_layout(&instance, &header_page)?;
        let cpus = instance.cpus()?.last().map_or(0, |last| last + 1);
        let watch = Watch::start();
        let raw = RawTrace {
            layout,
            header_page,
            header_event: read(&tracefs.root().join("events/header_event"))?,
            formats,
            pages: vec![Vec::new(); cpus],
            stats: Vec::new(),
            clock: config.clock.clone(),
            flight: config.keep == Keep::Flight,
            names: Default::default(),
            processes: Default::default(),
            context: Default::default(),
        };
        let limit = match config.keep {
            Keep::Stream { limit } => limit,
            Keep::Flight => usize::MAX,
        };
        let mut capture = Self { instance, raw, reader: None, watch, limit };
        if config.keep != Keep::Flight {
            // Before the list of tasks is set, so that this thread is not recorded as a child.
            capture.reader = Some(Reader::start(capture.open_pipes()?, &capture.raw, limit)?);
        }
        if !config.tasks.is_empty() {
            capture.instance.only_tasks(&config.tasks, config.children)?;
        }
        capture.instance.set("tracing_on", "1")?;
        Ok(capture)
    }

    /// The folder of its buffer in tracefs.
    pub fn path(&self) -> &Path {
        self.instance.path()
    }

    /// Writes a line into the trace, at the moment of the call.
    pub fn mark(&self, text: &str) -> Result<()> {
        self.instance.set("trace_marker", text)
    }

    /// Stops at once and keeps what is in the buffers. Cheap: one system call.
    pub fn halt(&self) -> Result<()> {
        self.instance.set("tracing_on", "0")
    }

    /// What stops the recording later, also from a forked process.
    pub fn stopper(&self) -> Result<Stopper> {
        let path = self.instance.path().join("tracing_on");
        let file = OpenOptions::new().write(true).open(&path);
        file.map(|file| Stopper { file }).map_err(|source| TraceError::control("open", &path, source))
    }

    /// Goes on after [`Capture::halt`].
    pub fn resume(&self) -> Result<()> {
        self.instance.set("tracing_on", "1")
    }

    /// Stops, reads what is left and removes the instance.
    pub fn finish(mut self) -> Result<RawTrace> {
        self.halt()?;
        let mut not_kept = vec![0; self.raw.pages.len()];
        if let Some(reader) = self.reader.take() {
            let result = reader.stop()?;
            self.raw.pages = result.pages;
            not_kept = result.not_kept;
        } else {
            self.drain()?;
        }
        self.fill_in(&not_kept)?;
        let Self { instance, raw, .. } = self;
        drop(instance);
        Ok(raw)
    }

    /// What a stopped flight recorder holds; it can go on afterwards with [`Capture::resume`],
    /// from an empty buffer.
    pub fn snapshot(&mut self) -> Result<RawTrace> {
        self.halt()?;
        self.drain()?;
        self.fill_in(&vec![0; self.raw.pages.len()])?;
        let empty = vec![Vec::new(); self.raw.pages.len()];
        let snapshot = self.raw.clone();
        self.raw.pages = empty;
        Ok(snapshot)
    }

    /// Reads the buffers of a recording without a reader.
    fn drain(&mut self) -> Result<()> {
        let mut pipes = self.open_pipes()?;
        let size = self.raw.layout.page_size();
        for (cpu, pipe) in &mut pipes {
            let pages = &mut self.raw.pages[*cpu];
            while read_page(pipe, pages, size, self.limit)
                .map_err(|source| pipe_error(&self.instance, *cpu, source))?
            {}
        }
        Ok(())
    }

    fn fill_in(&mut self, not_kept: &[u64]) -> Result<()> {
        self.raw.stats = (0..self.raw.pages.len())
            .map(|cpu| {
                let mut stats = self.instance.stats(cpu).unwrap_or_default();
                stats.not_kept = not_kept.get(cpu).copied().unwrap_or(0);
                Ok(stats)
            })
            .collect::<Result<_>>()?;
        let seen = self.watch.look();
        self.raw.names = seen.names;
        self.raw.processes = seen.processes;
        self.raw.context = seen.context;
        Ok(())
    }

    fn open_pipes(&self) -> Result<Vec<(usize, File)>> {
        self.instance
            .cpus()?
            .into_iter()
            .map(|cpu| {
                let path = self.instance.path().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
                OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open(&path)
                    .map(|file| (cpu, file))
                    .map_err(|source| TraceError::control("open", &path, source))
            })
            .collect()
    }
}

/// The layout of a page of this instance: kernels since 6.8 may have larger ones.
fn page_layout(instance: &Instance, header_page: &str) -> Result<PageLayout> {
    let layout = PageLayout::parse(header_page)?;
    match instance.get("buffer_subbuf_size_kb") {
        Err(_) => Ok(layout),
        Ok(text) => match text.trim().parse::<usize>() {
            Ok(kib) if kib << 10 != layout.page_size() => layout.with_page_size(kib << 10),
            _ => Ok(layout),
        },
    }
}

fn pipe_error(instance: &Instance, cpu: usize, source: io::Error) -> TraceError {
    TraceError::control("read", &instance.path().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")), source)
}

/// Reads the next page, if there is one. A page above the limit is read, so that the buffer goes
/// on, and forgotten.
fn read_page(pipe: &mut File, pages: &mut Vec<u8>, size: usize, limit: usize) -> io::Result<bool> {
    let start = pages.len();
    pages.resize(start + size, 0);
    let result = loop {
        match pipe.read(&mut pages[start..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    match result {
        Ok(0) => pages.truncate(start),
        Err(error) => {
            pages.truncate(start);
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
        }
        Ok(_) if start + size > limit => pages.truncate(start),
        // The kernel fills the page behind the data with zeros only up to what it gave.
        Ok(_) => return Ok(true),
    }
    Ok(matches!(result, Ok(n) if n > 0))
}

/// The thread that empties the buffers of a stream.
#[derive(Debug)]
struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Pages>>>,
}

#[derive(Debug)]
struct Pages {
    pages: Vec<Vec<u8>>,
    not_kept: Vec<u64>,
}

impl Reader {
    fn start(pipes: Vec<(usize, File)>, raw: &RawTrace, limit: usize) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, size) = (Arc::clone(&stop), raw.layout.page_size());
        let per_cpu = limit / raw.pages.len().max(1);
        let count = raw.pages.len();
        let thread = std::thread::Builder::new()
            .name("trace-reader".to_owned())
            .spawn(move || collect(pipes, count, size, per_cpu, &flag))
            .map_err(|source| TraceError::Command {
                action: "start",
                command: "the reading thread".to_owned(),
                source,
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Lets it read to the end, and takes what it has.
    fn stop(mut self) -> Result<Pages> {
        match self.join() {
            Some(Ok(result)) => {
                result.map_err(|source| TraceError::control("read", Path::new("trace_pipe_raw"), source))
            }
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Pages { pages: Vec::new(), not_kept: Vec::new() }),
        }
    }

    fn join(&mut self) -> Option<std::thread::Result<io::Result<Pages>>> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A recording that is given up: what was read is of no use.
        drop(self.join());
    }
}

fn collect(
    mut pipes: Vec<(usize, File)>,
    cpus: usize,
    size: usize,
    limit: usize,
    stop: &AtomicBool,
) -> io::Result<Pages> {
    let mut all = Pages { pages: vec![Vec::new(); cpus], not_kept: vec![0; cpus] };
    loop {
        // Looked at before the round, so that the last round sees all there is.
        let last = stop.load(Ordering::Acquire);
        for (cpu, pipe) in &mut pipes {
            let pages = &mut all.pages[*cpu];
            loop {
                let before = pages.len();
                if !read_page(pipe, pages, size, limit)? {
                    break;
                }
                if pages.len() == before {
                    all.not_kept[*cpu] += 1;
                }
            }
        }
        if last {
            return Ok(all);
        }
        std::thread::sleep(PERIOD);
    }
}
