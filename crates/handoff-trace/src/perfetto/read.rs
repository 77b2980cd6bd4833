//! Reads Perfetto trace files: the scheduling events, the tree of processes and the slices of threads that
//! Perfetto's own recorder, Android's or ours wrote. Nothing in one is believed unchecked.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use super::wire::{Fields, Value, Why, varint};
use super::{BEGIN, END};
use crate::error::{Result, TraceError};
use crate::event::{Context, Cpu, Event, EventKind, LeftAs, MAX_CPUS, TF_ONE_WAY, Tid, Wakee};
use crate::trace::{Parts, Slice, Trace};

/// The most that compressed packets may hold.
const MAX_INFLATED: u64 = 1 << 30;

/// Stands for the task that left a CPU where the format leaves it out: the one that came before.
const WHO_RAN: Tid = -1;

const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// Reads a trace from the bytes of a file; `path` is for messages only.
///
/// Events that only other readers know are passed over. Time stamps stay as they are.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Trace> {
    let mut reader = Reader { left: MAX_INFLATED, ..Reader::default() };
    let done = reader.packets(bytes, true).and_then(|()| {
        let none = reader.parts.events.is_empty();
        if none {
            Err("no scheduling event is in it: record with the data source linux.ftrace")
        } else {
            Ok(())
        }
    });
    match done {
        Ok(()) => Ok(reader.into_trace()),
        Err(why) => Err(TraceError::NotATrace { path: path.to_owned(), why: why.to_owned() }),
    }
}

#[derive(Default)]
struct Reader {
    parts: Parts,
    /// How much may still come out of compressed packets.
    left: u64,
    /// Whose a thread's track is.
    tracks: HashMap<u64, Tid>,
    /// Slices that were begun, the innermost last.
    open: HashMap<u64, Vec<(String, u64)>>,
    /// Names by sequence and number.
    interned: HashMap<(u64, u64), String>,
    clocks: HashMap<u64, u64>,
}

/// The numbers and texts of a small message, by field; the events read here have no more.
struct Small<'a> {
    numbers: [Option<i64>; SMALL],
    texts: [&'a [u8]; SMALL],
}

const SMALL: usize = 8;

impl<'a> Small<'a> {
    fn of(bytes: &'a [u8]) -> Why<Self> {
        let mut small = Self { numbers: [None; SMALL], texts: [&[]; SMALL] };
        for field in Fields(bytes) {
            let (number, value) = field?;
            let Some(slot) = usize::try_from(number).ok().filter(|slot| *slot < SMALL) else { continue };
            match value {
                Value::Number(value) => small.numbers[slot] = Some(value as i64),
                Value::Bytes(value) => small.texts[slot] = value,
            }
        }
        Ok(small)
    }

    /// A number; one that is left out is 0, as in every message of this format.
    fn get<T: TryFrom<i64>>(&self, field: usize) -> Option<T> {
        T::try_from(self.numbers[field].unwrap_or(0)).ok()
    }

    fn tid(&self, field: usize) -> Option<Tid> {
        self.get(field).filter(|tid| *tid >= 0)
    }

    fn cpu(&self, field: usize) -> Option<Cpu> {
        self.get(field).filter(|cpu| *cpu < MAX_CPUS)
    }
}

impl Reader {
    fn into_trace(mut self) -> Trace {
        self.parts.events.sort_by_key(|event| event.time);
        self.fill_in();
        // Our own files say that both clocks are one.
        let same =
            self.clocks.contains_key(&BOOTTIME) && self.clocks.get(&BOOTTIME) == self.clocks.get(&MONOTONIC);
        self.parts.clock = if same { "mono" } else { "boot" }.to_owned();
        self.parts.into_trace()
    }

    /// Says who ran, where the compact form left that out; what cannot be known is dropped.
    fn fill_in(&mut self) {
        let mut current: HashMap<Cpu, (Tid, i16)> = HashMap::new();
        self.parts.events.retain_mut(|event| {
            let before = current.get(&event.cpu).copied();
            if let EventKind::Switch { prev, next, prev_prio, next_prio, .. } = &mut event.what {
                current.insert(event.cpu, (*next, *next_prio));
                if *prev == WHO_RAN {
                    let Some(before) = before else { return false };
                    (*prev, *prev_prio) = before;
                }
            }
            if event.tid == WHO_RAN {
                let Some((tid, _)) = before else { return false };
                event.tid = tid;
            }
            true
        });
    }

    /// The packets of a trace, or of a compressed packet, which holds no other.
    fn packets(&mut self, bytes: &[u8], may_inflate: bool) -> Why<()> {
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(packet)) => self.packet(packet, may_inflate)?,
                (1, _) | (0, _) => return Err("it does not begin as a Perfetto trace does"),
                _ => {}
            }
        }
        Ok(())
    }

    fn packet(&mut self, bytes: &[u8], may_inflate: bool) -> Why<()> {
        let (mut time, mut sequence, mut clock, mut names) = (None, 0, BOOTTIME, None);
        for field in Fields(bytes) {
            match field? {
                (8, Value::Number(value)) => time = Some(value),
                (10, Value::Number(value)) => sequence = value,
                (12, Value::Bytes(data)) => names = Some(data),
                (58, Value::Number(value)) => clock = value,
                _ => {}
            }
        }
        // The packet's own event may use them, wherever they are in it.
        if let Some(names) = names {
            self.intern(names, sequence)?;
        }
        // Clocks of a sequence's own count from elsewhere: its slices cannot be laid beside the events.
        let time = time.filter(|_| matches!(clock, MONOTONIC | BOOTTIME));
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(bundle)) => self.bundle(bundle)?,
                (2, Value::Bytes(tree)) => self.processes(tree)?,
                (6, Value::Bytes(snapshot)) => self.snapshot(snapshot)?,
                (11, Value::Bytes(event)) => self.track_event(event, sequence, time)?,
                (50, Value::Bytes(packed)) if may_inflate => {
                    let inflated = self.inflate(packed)?;
                    self.packets(&inflated, false)?;
                }
                (50, _) => return Err("a compressed packet is within another"),
                (60, Value::Bytes(track)) => self.track(track)?,
                (133, _) => {
                    return Err("its packets are compressed by zstd: record it without, or by deflate");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn inflate(&mut self, packed: &[u8]) -> Why<Vec<u8>> {
        let mut inflated = Vec::new();
        let read = flate2::read::ZlibDecoder::new(packed).take(self.left + 1).read_to_end(&mut inflated);
        let size = read.map_err(|_| "a compressed packet is damaged")? as u64;
        self.left = self.left.checked_sub(size).ok_or("its compressed packets hold more than 1 GiB")?;
        Ok(inflated)
    }

    fn snapshot(&mut self, bytes: &[u8]) -> Why<()> {
        for field in Fields(bytes) {
            if let (1, Value::Bytes(clock)) = field? {
                let clock = Small::of(clock)?;
                if let (Some(id), Some(time)) = (clock.get::<u64>(1), clock.get(2)) {
                    self.clocks.entry(id).or_insert(time);
                }
            }
        }
        Ok(())
    }

    fn processes(&mut self, bytes: &[u8]) -> Why<()> {
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(process)) => {
                    let Some(pid) = Small::of(process)?.tid(1) else { continue };
                    self.parts.processes.insert(pid, pid);
                    // The first word of its command line, without the folder, as the kernel would call it.
                    let is_word = |field| match field {
                        Ok((3, Value::Bytes(word))) => Some(word),
                        _ => None,
                    };
                    let word = Fields(process).find_map(is_word).unwrap_or_default();
                    self.name(pid, word.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
                }
                (2, Value::Bytes(thread)) => {
                    let thread = Small::of(thread)?;
                    let Some(tid) = thread.tid(1) else { continue };
                    if let Some(process) = thread.tid(3) {
                        self.parts.processes.insert(tid, process);
                    }
                    self.name(tid, thread.texts[2]);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn name(&mut self, tid: Tid, name: &[u8]) {
        if !name.is_empty() {
            self.parts.names.add_if_missing(tid, &String::from_utf8_lossy(name));
        }
    }

    fn bundle(&mut self, bytes: &[u8]) -> Why<()> {
        let head = Small::of(bytes)?;
        let Some(cpu) = head.cpu(1) else {
            self.parts.unknown += 1;
            return Ok(());
        };
        let before = self.parts.events.len();
        for field in Fields(bytes) {
            match field? {
                (2, Value::Bytes(event)) => self.event(event, cpu)?,
                (4, Value::Bytes(compact)) => self.compact(compact, cpu)?,
                _ => {}
            }
        }
        if head.numbers[3].is_some_and(|lost| lost != 0) {
            *self.parts.lost.entry(cpu).or_default() += 1;
            let first = self.parts.events[before..].iter().map(|event| event.time).min();
            self.parts.gaps.extend(first.map(|time| (time, cpu)));
        }
        Ok(())
    }

    fn event(&mut self, bytes: &[u8], cpu: Cpu) -> Why<()> {
        let head = Small::of(bytes)?;
        for field in Fields(bytes) {
            let (kind, Value::Bytes(fields)) = field? else { continue };
            if !KNOWN.contains(&kind) {
                continue;
            }
            let time = head.numbers[1].unwrap_or(0) as u64;
            let fields = Small::of(fields)?;
            match head.tid(2).zip(self.what(kind, &fields, time)) {
                Some((tid, what)) => {
                    let context = Context(head.numbers[5].unwrap_or(0) as u8);
                    self.parts.events.push(Event { time, tid, cpu, context, what });
                }
                None => self.parts.unknown += 1,
            }
        }
        Ok(())
    }

    /// What an event of this field says; none if its numbers make no sense.
    fn what(&mut self, kind: u64, of: &Small<'_>, time: u64) -> Option<EventKind> {
        let mut saw = |tid: Tid, name: &[u8]| {
            if !name.is_empty() {
                self.parts.names.saw(time, tid, name);
            }
        };
        let mut wakee = || {
            let tid = of.tid(2)?;
            saw(tid, of.texts[1]);
            Some(Wakee { tid, cpu: of.cpu(5)?, prio: of.get(3)? })
        };
        Some(match kind {
            3 => {
                let text = String::from_utf8_lossy(of.texts[2]).trim_end().to_owned();
                self.parts.texts.push(text);
                EventKind::Marker(u32::try_from(self.parts.texts.len() - 1).ok()?)
            }
            4 => {
                let (prev, next) = (of.tid(2)?, of.tid(6)?);
                saw(prev, of.texts[1]);
                saw(next, of.texts[5]);
                let prev_state = LeftAs(of.numbers[4].unwrap_or(0) as u16);
                EventKind::Switch { prev, next, prev_prio: of.get(3)?, next_prio: of.get(7)?, prev_state }
            }
            11 => EventKind::Frequency { khz: of.get(1)?, cpu: of.cpu(2)? },
            // The way out is state (u32)-1.
            13 => EventKind::Idle { cpu: of.cpu(2)?, state: of.get::<u32>(1)?.try_into().ok() },
            17 => EventKind::Wakeup(wakee()?),
            20 => EventKind::Waking(wakee()?),
            24 => EventKind::SoftIrqEntry { vector: of.get(1)? },
            25 => EventKind::SoftIrqExit { vector: of.get(1)? },
            36 => EventKind::IrqEntry { irq: of.get(1)? },
            37 => EventKind::IrqExit { irq: of.get(1)? },
            50 => {
                let oneway = of.numbers[7].unwrap_or(0) & TF_ONE_WAY != 0;
                EventKind::BinderTransaction { debug_id: of.get(1)?, reply: of.get::<i64>(5)? != 0, oneway }
            }
            51 => EventKind::BinderReceived { debug_id: of.get(1)? },
            114 => EventKind::WakeupNew(wakee()?),
            237 => EventKind::Exec { tid: of.tid(2)? },
            238 => EventKind::Exit { tid: of.tid(2)? },
            239 => {
                let child = of.tid(4)?;
                saw(child, of.texts[3]);
                EventKind::Fork { parent: of.tid(2)?, child }
            }
            353 => EventKind::PriorityInherited { tid: of.tid(4)?, old: of.get(3)?, new: of.get(2)? },
            491 => EventKind::Migrate { tid: of.tid(2)?, from: of.cpu(4)?, to: of.cpu(5)? },
            _ => return None,
        })
    }

    /// Switches and wake-ups as columns: times as differences, names as numbers, and without who left.
    fn compact<'a>(&mut self, bytes: &'a [u8], cpu: Cpu) -> Why<()> {
        /// What happened, to whom, its name, and in what context.
        type Row<'a> = Option<(EventKind, Tid, &'a [u8], u8)>;
        let mut names: Vec<&'a [u8]> = Vec::new();
        let mut columns: [Vec<u64>; 13] = Default::default();
        for field in Fields(bytes) {
            match field? {
                (5, Value::Bytes(name)) => names.push(name),
                (field @ 1..=12, Value::Bytes(mut packed)) => {
                    let column = &mut columns[field as usize];
                    while !packed.is_empty() {
                        column.push(varint(&mut packed)?);
                    }
                }
                (field @ 1..=12, Value::Number(number)) => columns[field as usize].push(number),
                _ => {}
            }
        }
        let at = |column: usize, row: usize| columns[column].get(row).copied();
        let named = |index: u64| usize::try_from(index).ok().and_then(|index| names.get(index)).copied();
        let tid = |number: u64| Tid::try_from(number as i64).ok().filter(|tid| *tid >= 0);
        let prio = |number: u64| i16::try_from(number as i64).ok();
        let mut add = |column: usize, read: &dyn Fn(usize) -> Row<'a>| {
            let mut time = 0_u64;
            for (row, step) in columns[column].iter().enumerate() {
                time = time.wrapping_add(*step);
                let Some((what, named, name, flags)) = read(row) else {
                    self.parts.unknown += 1;
                    continue;
                };
                self.parts.names.saw(time, named, name);
                let event = Event { time, tid: WHO_RAN, cpu, context: Context(flags), what };
                self.parts.events.push(event);
            }
        };
        add(1, &|row| {
            let next = tid(at(3, row)?)?;
            let what = EventKind::Switch {
                prev: WHO_RAN,
                next,
                prev_prio: 0,
                next_prio: prio(at(4, row)?)?,
                prev_state: LeftAs(at(2, row)? as u16),
            };
            Some((what, next, named(at(6, row)?)?, 0))
        });
        add(7, &|row| {
            let wakee = tid(at(8, row)?)?;
            let cpu = Cpu::try_from(at(9, row)?).ok().filter(|cpu| *cpu < MAX_CPUS)?;
            let what = EventKind::Waking(Wakee { tid: wakee, cpu, prio: prio(at(10, row)?)? });
            // Perfetto before 2021 wrote no flags.
            Some((what, wakee, named(at(11, row)?)?, at(12, row).unwrap_or(0) as u8))
        });
        Ok(())
    }

    fn track(&mut self, bytes: &[u8]) -> Why<()> {
        let track = Small::of(bytes)?;
        let thread = Small::of(track.texts[4])?;
        if let (Some(uuid), Some(tid)) = (track.numbers[1], thread.numbers[2].and_then(|_| thread.tid(2))) {
            self.tracks.insert(uuid as u64, tid);
            self.name(tid, thread.texts[5]);
        }
        Ok(())
    }

    fn intern(&mut self, bytes: &[u8], sequence: u64) -> Why<()> {
        for field in Fields(bytes) {
            if let (2, Value::Bytes(entry)) = field? {
                let entry = Small::of(entry)?;
                let name = String::from_utf8_lossy(entry.texts[2]).into_owned();
                self.interned.insert((sequence, entry.numbers[1].unwrap_or(0) as u64), name);
            }
        }
        Ok(())
    }

    /// A slice's begin or end on a thread's own track; others are passed over.
    fn track_event(&mut self, bytes: &[u8], sequence: u64, time: Option<u64>) -> Why<()> {
        let (mut kind, mut track, mut name) = (0, None, String::new());
        for field in Fields(bytes) {
            match field? {
                (9, Value::Number(value)) => kind = value,
                (10, Value::Number(id)) => {
                    name = self.interned.get(&(sequence, id)).cloned().unwrap_or_default();
                }
                (11, Value::Number(value)) => track = Some(value),
                (23, Value::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
                _ => {}
            }
        }
        let thread = track.and_then(|track| Some((track, *self.tracks.get(&track)?)));
        let (Some(time), Some((track, tid))) = (time, thread) else { return Ok(()) };
        match kind {
            BEGIN => self.open.entry(track).or_default().push((name, time)),
            END => {
                if let Some((name, start)) = self.open.get_mut(&track).and_then(Vec::pop) {
                    self.parts.slices.push(Slice { name, tid, start, end: time });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The fields of `FtraceEvent` that are read.
const KNOWN: [u64; 18] = [3, 4, 11, 13, 17, 20, 24, 25, 36, 37, 50, 51, 114, 237, 238, 239, 353, 491];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::wire::Message;
    use super::*;
    use crate::model::requests::requests;
    use crate::model::timeline::Timeline;

    fn packed(numbers: &[u64]) -> String {
        // Numbers below 128 are their own varints, and text.
        numbers.iter().map(|number| char::from(u8::try_from(*number).expect("small"))).collect()
    }

    /// Three switches and a wake-up on CPU 1 in the compact form.
    fn compact() -> Vec<u8> {
        let mut file = Message::default();
        file.message(1, |packet| {
            packet.message(1, |bundle| {
                bundle.number(1, 1);
                bundle.message(4, |compact| {
                    compact.text(5, "one");
                    compact.text(5, "two");
                    compact.text(1, &packed(&[10, 5, 7]));
                    compact.text(2, &packed(&[1, 0, 1]));
                    compact.text(3, &packed(&[1, 2, 1]));
                    compact.text(4, &packed(&[120, 100, 120]));
                    compact.text(6, &packed(&[0, 1, 0]));
                    compact.text(7, &packed(&[12]));
                    compact.text(8, &packed(&[2]));
                    compact.text(9, &packed(&[1]));
                    compact.text(10, &packed(&[100]));
                    compact.text(11, &packed(&[1]));
                });
            });
        });
        file.into_bytes()
    }

    fn read(bytes: &[u8]) -> Trace {
        from_bytes(bytes, Path::new("x")).expect("a trace")
    }

    #[test]
    fn who_left_is_who_came_before() {
        let trace = read(&compact());
        let event = |time, tid, what| Event { time, tid, cpu: 1, context: Context(0), what };
        let switch = |prev, prev_prio, state, next, next_prio| EventKind::Switch {
            prev,
            next,
            prev_prio,
            next_prio,
            prev_state: LeftAs(state),
        };
        // Nobody knows who left at 10, so that one only says who ran from then on.
        let expected = [
            event(12, 1, EventKind::Waking(Wakee { tid: 2, cpu: 1, prio: 100 })),
            event(15, 1, switch(1, 120, 0, 2, 100)),
            event(22, 2, switch(2, 100, 1, 1, 120)),
        ];
        assert_eq!(trace.events(), expected);
        assert_eq!((trace.last_name(1).as_str(), trace.last_name(2).as_str()), ("one", "two"));
    }

    #[test]
    fn a_compressed_packet_holds_others() {
        use std::io::Write as _;
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&compact()).expect("into memory");
        let packed = packer.finish().expect("into memory");
        let mut bytes = vec![0x0a, (packed.len() + 3) as u8, 0x92, 0x03, packed.len() as u8];
        bytes.extend(&packed);
        assert_eq!(read(&bytes).events(), read(&compact()).events());

        let mut reader = Reader { left: 20, ..Reader::default() };
        assert!(reader.packets(&bytes, true).is_err_and(|why| why.contains("more than")), "a bomb");
    }

    #[test]
    fn binders_events_join_into_requests() {
        let mut file = Message::default();
        file.message(1, |packet| {
            packet.message(1, |bundle| {
                let mut event = |time, tid, kind, fill: &dyn Fn(&mut Message)| {
                    bundle.message(2, |event| {
                        event.number(1, time);
                        event.number(2, tid);
                        event.message(kind, fill);
                    });
                };
                event(10, 1, 50, &|sends| sends.number(1, 7));
                event(12, 1, 50, &|sends| {
                    sends.number(1, 9);
                    sends.number(7, 0x11);
                });
                event(20, 2, 51, &|takes| takes.number(1, 7));
                event(30, 2, 50, &|replies| {
                    replies.number(1, 8);
                    replies.number(5, 1);
                });
                event(40, 1, 51, &|takes| takes.number(1, 8));
                event(41, 3, 51, &|takes| takes.number(1, 9));
            });
        });
        let trace = read(&file.into_bytes());
        let found = requests(&trace, &Timeline::of(&trace));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].start, found[0].served, found[0].end), (10, Some((20, 30)), 40));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
        #[test]
        fn a_damaged_file_does_no_harm(at in 0usize..200, byte in any::<u8>(), cut in 0usize..60) {
            let mut bytes = compact();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(trace) = from_bytes(&bytes, Path::new("x")) {
                prop_assert!(trace.events().is_sorted_by_key(|event| event.time));
                prop_assert!(trace.events().iter().all(|event| event.tid >= 0));
            }
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut packet = vec![0x0a];
            packet.push((bytes.len() & 0x7f) as u8);
            packet.extend(&bytes);
            let _ = from_bytes(&packet, Path::new("x"));
            let _ = from_bytes(&bytes, Path::new("x"));
        }
    }
}
