//! A trace, decoded: events in the order of time, and what must be known to trust them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::decode::{DecodedEvents, Decoder, Other};
use crate::error::{Result, TraceError};
use crate::event::{Cpu, Event, Tid};
use crate::format::EventFormat;
use crate::names::Names;
use crate::ring::{LostEvents, Page, PageLayout};

/// What the kernel's buffers held, not yet decoded: what a session ends with and what a
/// `trace.dat` file keeps.
#[derive(Debug, Clone)]
pub struct RawTrace {
    /// How a page is laid out.
    pub layout: PageLayout,
    /// The text of `events/header_page`.
    pub header_page: String,
    /// The text of `events/header_event`.
    pub header_event: String,
    /// The text of each event's `format` file, with its system.
    pub formats: Vec<(String, String)>,
    /// The pages of each CPU, one after the other.
    pub pages: Vec<Vec<u8>>,
    /// What each CPU's buffer said of itself at the end.
    pub stats: Vec<BufferStats>,
    /// The clock of the time stamps, as `trace_clock` names it.
    pub clock: String,
    /// Whether the buffer was left to overwrite its oldest events (flight recorder).
    pub flight: bool,
    /// Names of tasks, known from outside the events.
    pub names: HashMap<Tid, String>,
    /// The process (thread group) of tasks.
    pub processes: HashMap<Tid, Tid>,
    /// What changed beside the events while it was recorded.
    pub context: TraceContext,
}

/// The counters of `per_cpu/cpu*/stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferStats {
    /// Events overwritten before they were read. In a flight recorder that is its purpose.
    pub overrun: u64,
    /// Events lost because a writer was interrupted too deeply.
    pub commit_overrun: u64,
    /// Events refused because the buffer was full.
    pub dropped: u64,
    /// Pages that the session could not keep for want of memory.
    pub not_kept: u64,
}

/// What is known of the time of the recording from elsewhere than its events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceContext {
    /// Nanoseconds that each CPU was taken away by the hypervisor (`steal` of `/proc/stat`).
    pub steal_ns: Vec<u64>,
    /// Control groups whose CPU quota ran out meanwhile.
    pub throttled: Vec<ThrottledGroup>,
    /// `sched_rt_runtime_us` and `sched_rt_period_us`, when real-time tasks are limited.
    pub rt_limit_us: Option<(u64, u64)>,
}

/// A control group whose CPU quota ran out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottledGroup {
    pub group: PathBuf,
    pub times: u64,
    /// The tasks that were in it at the end.
    pub tasks: Vec<Tid>,
}

/// Something that a program says it did from one moment to another, on the trace's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub name: String,
    pub tid: Tid,
    /// When it began, in nanoseconds.
    pub start: u64,
    /// When it ended, in nanoseconds.
    pub end: u64,
}

/// How much of what happened on one CPU is in the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    pub events: u64,
    /// Events that should be in the trace but were lost.
    pub lost: u64,
    /// Older events that the flight recorder overwrote, as it should.
    pub overwritten: u64,
    /// The first moment from which on nothing was overwritten, in nanoseconds.
    pub from: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Trace {
    events: Vec<Event>,
    pub(crate) names: Names,
    texts: Vec<String>,
    others: Vec<Other>,
    formats: BTreeMap<u16, EventFormat>,
    coverage: Vec<Coverage>,
    gaps: Vec<(u64, Cpu)>,
    unknown: u64,
    clock: String,
    processes: HashMap<Tid, Tid>,
    slices: Vec<Slice>,
    context: TraceContext,
}

/// What a reader of another format found, in any order.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) events: Vec<Event>,
    pub(crate) names: Names,
    pub(crate) texts: Vec<String>,
    pub(crate) processes: HashMap<Tid, Tid>,
    pub(crate) slices: Vec<Slice>,
    /// At least so many CPUs.
    pub(crate) cpus: usize,
    pub(crate) lost: HashMap<Cpu, u64>,
    /// When events of that CPU had been lost.
    pub(crate) gaps: Vec<(u64, Cpu)>,
    /// From when on a CPU's events are there, where that is later than from the beginning.
    pub(crate) from: HashMap<Cpu, u64>,
    pub(crate) unknown: u64,
    pub(crate) clock: String,
}

impl Parts {
    pub(crate) fn into_trace(mut self) -> Trace {
        self.events.sort_by_key(|event| event.time);
        self.gaps.sort_unstable();
        let known = self.events.iter().map(|event| event.cpu).chain(self.lost.keys().copied());
        let cpus = known.map(|cpu| usize::from(cpu) + 1).max().unwrap_or(0).max(self.cpus);
        let mut coverage = vec![Coverage::default(); cpus];
        for event in &self.events {
            coverage[usize::from(event.cpu)].events += 1;
        }
        for (cpu, lost) in self.lost {
            coverage[usize::from(cpu)].lost = lost;
        }
        for (cpu, from) in self.from {
            if let Some(coverage) = coverage.get_mut(usize::from(cpu)) {
                coverage.from = from;
            }
        }
        let mut trace = Trace {
            events: self.events,
            names: self.names,
            texts: self.texts,
            coverage,
            gaps: self.gaps,
            unknown: self.unknown,
            clock: self.clock,
            processes: self.processes,
            ..Trace::default()
        };
        trace.add_slices(self.slices);
        trace
    }
}

impl RawTrace {
    /// How many bytes of pages it holds.
    pub fn bytes(&self) -> usize {
        self.pages.iter().map(Vec::len).sum()
    }

    pub fn decode(&self) -> Result<Trace> {
        let formats = self.formats.iter().map(|(system, text)| EventFormat::parse(system, text));
        let decoder = Decoder::new(formats.collect::<Result<Vec<_>>>()?)?;
        let mut decoded = DecodedEvents::default();
        // A sched event takes about 60 bytes; growing step by step would copy all of them anew.
        decoded.events.reserve(self.bytes() / 56);
        let (mut coverage, mut gaps) = (Vec::new(), Vec::new());
        for (cpu, pages) in self.pages.iter().enumerate() {
            let cpu = Cpu::try_from(cpu)
                .map_err(|_| TraceError::format("the trace", "it has more than 65536 CPUs"))?;
            let stats = self.stats.get(usize::from(cpu)).copied().unwrap_or_default();
            let before = decoded.events.len();
            let lost = self.decode_cpu(cpu, pages, &decoder, &mut decoded, &mut gaps)?;
            let first = decoded.events.get(before).map_or(0, |event| event.time);
            let overwritten = if self.flight { stats.overrun } else { 0 };
            let lost = if self.flight { 0 } else { lost.max(stats.overrun) };
            coverage.push(Coverage {
                events: (decoded.events.len() - before) as u64,
                lost: [stats.dropped, stats.commit_overrun, stats.not_kept]
                    .into_iter()
                    .fold(lost, u64::saturating_add),
                overwritten,
                from: if overwritten > 0 { first } else { 0 },
            });
        }
        // Each CPU's events are in order already, which this sort makes use of.
        decoded.events.sort_by_key(|event| event.time);
        let mut names = decoded.names;
        for (tid, name) in &self.names {
            names.add_if_missing(*tid, name);
        }
        gaps.sort_unstable();
        Ok(Trace {
            events: decoded.events,
            names,
            texts: decoded.texts,
            others: decoded.others,
            formats: decoder.into_formats(),
            coverage,
            gaps,
            unknown: decoded.unknown,
            clock: self.clock.clone(),
            processes: self.processes.clone(),
            slices: Vec::new(),
            context: self.context.clone(),
        })
    }

    /// Decodes the pages of one CPU; gives how many events were lost between them.
    fn decode_cpu(
        &self,
        cpu: Cpu,
        pages: &[u8],
        decoder: &Decoder,
        out: &mut DecodedEvents,
        gaps: &mut Vec<(u64, Cpu)>,
    ) -> Result<u64> {
        let mut lost = 0_u64;
        for (index, bytes) in pages.chunks(self.layout.page_size()).enumerate() {
            let damaged = |why| TraceError::Page { cpu, page: index, why };
            let page = Page::parse(&self.layout, bytes).map_err(damaged)?;
            let count = match page.missed {
                LostEvents::Nothing => 0,
                LostEvents::Unknown => 1,
                LostEvents::Count(count) => count,
            };
            let mut records = page.records().peekable();
            if let (true, Some(Ok(first))) = (count > 0, records.peek()) {
                gaps.push((first.time, cpu));
            }
            lost = lost.saturating_add(count);
            for record in records {
                decoder.decode(cpu, record.map_err(damaged)?, out);
            }
        }
        Ok(lost)
    }
}

impl Trace {
    /// Makes a trace of events from elsewhere (another format, a test). They are sorted by time.
    #[must_use]
    pub fn from_events(
        events: Vec<Event>,
        names: impl IntoIterator<Item = (Tid, String)>,
        cpus: usize,
    ) -> Self {
        let mut all = Names::default();
        for (tid, name) in names {
            all.add_if_missing(tid, &name);
        }
        Parts { events, names: all, cpus, clock: "mono".to_owned(), ..Parts::default() }.into_trace()
    }

    /// All events, in the order of time.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events from `start` to before `end`, in nanoseconds.
    pub fn between(&self, start: u64, end: u64) -> &[Event] {
        let from = self.events.partition_point(|event| event.time < start);
        let to = self.events.partition_point(|event| event.time < end);
        self.events.get(from..to).unwrap_or_default()
    }

    /// When the trace starts and ends, in nanoseconds, or none if it is empty.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.events.first()?.time, self.events.last()?.time))
    }

    /// What a task was called at a moment; its number if that is not known.
    pub fn name(&self, tid: Tid, time: u64) -> String {
        self.names.at(tid, time).map_or_else(|| format!("task {tid}"), str::to_owned)
    }

    /// What a task was called last; its number if that is not known.
    pub fn last_name(&self, tid: Tid) -> String {
        self.names.last(tid).map_or_else(|| format!("task {tid}"), str::to_owned)
    }

    /// All tasks that have a name in the trace, by number.
    pub fn tasks(&self) -> Vec<(Tid, &str)> {
        self.names.tasks()
    }

    /// The process of a task, if it was alive when the recording began or ended.
    pub fn process(&self, tid: Tid) -> Option<Tid> {
        self.processes.get(&tid).copied()
    }

    /// The process of each task that was alive when the recording began or ended.
    pub fn processes(&self) -> &HashMap<Tid, Tid> {
        &self.processes
    }

    /// The text of a [`crate::EventKind::Marker`].
    pub fn text(&self, index: u32) -> Option<&str> {
        self.texts.get(index as usize).map(String::as_str)
    }

    /// The fields of a [`crate::EventKind::Other`].
    pub fn other(&self, index: u32) -> Option<&Other> {
        self.others.get(index as usize)
    }

    /// The format of an event, by the number that [`Other::id`] holds.
    pub fn format(&self, id: u16) -> Option<&EventFormat> {
        self.formats.get(&id)
    }

    /// What is known of each CPU's part.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// Events lost on all CPUs.
    pub fn lost(&self) -> u64 {
        self.coverage.iter().fold(0_u64, |sum, cpu| sum.saturating_add(cpu.lost))
    }

    /// Records that could not be understood.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The moment from which on the flight recorder still held everything on every CPU.
    pub fn covered_from(&self) -> u64 {
        self.coverage.iter().map(|cpu| cpu.from).max().unwrap_or(0)
    }

    /// Whether events were lost on some CPU just before a moment between `start` and `end`, or the
    /// trace does not reach back to `start`.
    pub fn incomplete(&self, start: u64, end: u64) -> bool {
        let after = self.gaps.partition_point(|(time, _)| *time <= start);
        let gap = self.gaps.get(after).is_some_and(|(time, _)| *time <= end);
        gap || self.covered_from() > start
            || self.span().is_none_or(|(first, last)| first > end || last < start)
    }

    /// Whether events were lost on a CPU just before the one at that moment.
    pub(crate) fn is_gap(&self, time: u64, cpu: Cpu) -> bool {
        self.gaps.binary_search(&(time, cpu)).is_ok()
    }

    /// The clock of the time stamps.
    pub fn clock(&self) -> &str {
        &self.clock
    }

    /// Adds what a program noted of itself, on the trace's clock.
    pub fn add_slices(&mut self, slices: impl IntoIterator<Item = Slice>) {
        self.slices.extend(slices.into_iter().filter(|slice| slice.start <= slice.end));
        self.slices.sort_by_key(|slice| (slice.tid, slice.start));
    }

    /// What programs noted of themselves, by task and time.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// What is known from elsewhere than the events.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Says what is known from elsewhere than the events.
    #[cfg(test)]
    pub(crate) fn set_context(&mut self, context: TraceContext) {
        self.context = context;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Context, EventKind};

    fn at(time: u64, cpu: Cpu) -> Event {
        Event { time, tid: 1, cpu, context: Context(0), what: EventKind::Exec { tid: 1 } }
    }

    #[test]
    fn a_window_is_cut_out_by_time() {
        let trace = Trace::from_events(vec![at(30, 1), at(10, 0), at(20, 0)], [(1, "a".to_owned())], 2);
        assert_eq!(trace.span(), Some((10, 30)));
        assert_eq!(trace.between(10, 30).len(), 2);
        assert_eq!(trace.between(40, 30).len(), 0);
        assert_eq!(trace.coverage()[0].events, 2);
        assert_eq!((trace.name(1, 0).as_str(), trace.name(2, 0).as_str()), ("a", "task 2"));
    }

    #[test]
    fn a_window_before_the_flight_recorders_memory_is_incomplete() {
        let mut trace = Trace::from_events(vec![at(10, 0), at(20, 0), at(30, 0)], [], 1);
        assert!(!trace.incomplete(10, 20));
        trace.coverage[0].from = 15;
        assert!(trace.incomplete(12, 20));
        assert!(!trace.incomplete(15, 20));
        trace.gaps = vec![(25, 0)];
        assert!(trace.incomplete(20, 30));
        assert!(!trace.incomplete(26, 30));
    }
}
