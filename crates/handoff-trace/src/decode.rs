//! From the bytes of a record to an [`Event`], by the formats that the kernel printed.
//!
//! The field offsets are looked up once for each event; the hot path is a table look-up by the
//! event's number and a few bounded reads.

use std::collections::BTreeMap;

use crate::error::{Result, TraceError};
use crate::event::{Context, Cpu, Event, EventKind, LeftAs, TF_ONE_WAY, Tid, Wakee};
use crate::format::{EventFormat, FieldKind, FieldLocation};
use crate::names::Names;
use crate::ring::Record;

/// Knows every event of a session.
#[derive(Debug)]
pub struct Decoder {
    table: Vec<Option<EventLayout>>,
    formats: BTreeMap<u16, EventFormat>,
}

/// Where the numbers of one event are.
#[derive(Debug)]
struct EventLayout {
    flags: Option<FieldLocation>,
    pid: FieldLocation,
    shape: Shape,
}

/// The fields of each typed event, in the order of [`EventKind`].
#[derive(Debug)]
enum Shape {
    Switch {
        prev: FieldLocation,
        next: FieldLocation,
        prev_prio: FieldLocation,
        next_prio: FieldLocation,
        state: FieldLocation,
        comms: [FieldLocation; 2],
    },
    Waking(WakeShape),
    Wakeup(WakeShape),
    WakeupNew(WakeShape),
    Migrate {
        tid: FieldLocation,
        from: FieldLocation,
        to: FieldLocation,
    },
    Inherit {
        tid: FieldLocation,
        old: FieldLocation,
        new: FieldLocation,
    },
    Fork {
        parent: FieldLocation,
        child: FieldLocation,
        comm: FieldLocation,
    },
    Exec {
        tid: FieldLocation,
    },
    Exit {
        tid: FieldLocation,
    },
    IrqEntry(FieldLocation),
    IrqExit(FieldLocation),
    SoftIrqEntry(FieldLocation),
    SoftIrqExit(FieldLocation),
    Idle {
        state: FieldLocation,
        cpu: FieldLocation,
    },
    Frequency {
        khz: FieldLocation,
        cpu: FieldLocation,
    },
    Binder {
        debug_id: FieldLocation,
        reply: FieldLocation,
        flags: FieldLocation,
    },
    BinderReceived(FieldLocation),
    Marker(FieldLocation),
    Other {
        id: u16,
        numbers: Vec<FieldLocation>,
    },
}

#[derive(Debug)]
struct WakeShape {
    tid: FieldLocation,
    cpu: FieldLocation,
    prio: FieldLocation,
    comm: FieldLocation,
}

#[derive(Debug, Default)]
pub(crate) struct DecodedEvents {
    pub(crate) events: Vec<Event>,
    pub(crate) names: Names,
    pub(crate) texts: Vec<String>,
    pub(crate) others: Vec<Other>,
    /// Records whose number no format describes, or that are too short for their format.
    pub(crate) unknown: u64,
}

/// An event with no type of its own: its fields by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The event's number, for [`crate::Trace::format`].
    pub id: u16,
    /// The numbers among its own fields, in the order of its format.
    pub numbers: Vec<i64>,
}

impl Decoder {
    /// Prepares to decode these events.
    ///
    /// # Errors
    ///
    /// [`TraceError::Format`] if a known event lacks a field that it always had, or if two events
    /// have one number.
    pub fn new(formats: impl IntoIterator<Item = EventFormat>) -> Result<Self> {
        let mut decoder = Self { table: Vec::new(), formats: BTreeMap::new() };
        for format in formats {
            let index = usize::from(format.id);
            if decoder.table.len() <= index {
                decoder.table.resize_with(index + 1, || None);
            }
            decoder.table[index] = Some(EventLayout::new(&format)?);
            if let Some(other) = decoder.formats.insert(format.id, format) {
                let what = format!("{}:{}", other.system, other.name);
                return Err(TraceError::format(what, "another event has the same number"));
            }
        }
        Ok(decoder)
    }

    pub fn formats(&self) -> &BTreeMap<u16, EventFormat> {
        &self.formats
    }

    pub(crate) fn into_formats(self) -> BTreeMap<u16, EventFormat> {
        self.formats
    }

    /// Adds one record; a record that cannot be understood is counted.
    #[inline]
    pub(crate) fn decode(&self, cpu: Cpu, record: Record<'_>, out: &mut DecodedEvents) {
        if self.try_decode(cpu, record, out).is_none() {
            out.unknown += 1;
        }
    }

    #[inline]
    fn try_decode(&self, cpu: Cpu, record: Record<'_>, out: &mut DecodedEvents) -> Option<()> {
        let data = record.data;
        let id = u16::from_ne_bytes(*data.first_chunk()?);
        let known = self.table.get(usize::from(id))?.as_ref()?;
        let context = Context(known.flags.as_ref().and_then(|f| f.number(data)).unwrap_or(0) as u8);
        let tid = known.pid.number(data)? as Tid;
        let what = known.shape.read(data, record.time, out)?;
        out.events.push(Event { time: record.time, tid, cpu, context, what });
        Some(())
    }
}

impl EventLayout {
    fn new(format: &EventFormat) -> Result<Self> {
        let get = |name: &str| {
            format.field(name).map(|field| field.place).ok_or_else(|| {
                let what = format!("{}:{}", format.system, format.name);
                TraceError::format(what, format!("it has no field `{name}`"))
            })
        };
        let wake = || -> Result<WakeShape> {
            Ok(WakeShape {
                tid: get("pid")?,
                cpu: get("target_cpu")?,
                prio: get("prio")?,
                comm: get("comm")?,
            })
        };
        let shape = match (format.system.as_str(), format.name.as_str()) {
            ("sched", "sched_switch") => Shape::Switch {
                prev: get("prev_pid")?,
                next: get("next_pid")?,
                prev_prio: get("prev_prio")?,
                next_prio: get("next_prio")?,
                state: get("prev_state")?,
                comms: [get("prev_comm")?, get("next_comm")?],
            },
            ("sched", "sched_waking") => Shape::Waking(wake()?),
            ("sched", "sched_wakeup") => Shape::Wakeup(wake()?),
            ("sched", "sched_wakeup_new") => Shape::WakeupNew(wake()?),
            ("sched", "sched_migrate_task") => {
                Shape::Migrate { tid: get("pid")?, from: get("orig_cpu")?, to: get("dest_cpu")? }
            }
            ("sched", "sched_pi_setprio") => {
                Shape::Inherit { tid: get("pid")?, old: get("oldprio")?, new: get("newprio")? }
            }
            ("sched", "sched_process_fork") => {
                Shape::Fork { parent: get("parent_pid")?, child: get("child_pid")?, comm: get("child_comm")? }
            }
            ("sched", "sched_process_exec") => Shape::Exec { tid: get("pid")? },
            ("sched", "sched_process_exit") => Shape::Exit { tid: get("pid")? },
            ("irq", "irq_handler_entry") => Shape::IrqEntry(get("irq")?),
            ("irq", "irq_handler_exit") => Shape::IrqExit(get("irq")?),
            ("irq", "softirq_entry") => Shape::SoftIrqEntry(get("vec")?),
            ("irq", "softirq_exit") => Shape::SoftIrqExit(get("vec")?),
            ("power", "cpu_idle") => Shape::Idle { state: get("state")?, cpu: get("cpu_id")? },
            ("power", "cpu_frequency") => Shape::Frequency { khz: get("state")?, cpu: get("cpu_id")? },
            ("binder" | "rust_binder", "binder_transaction") => {
                Shape::Binder { debug_id: get("debug_id")?, reply: get("reply")?, flags: get("flags")? }
            }
            ("binder" | "rust_binder", "binder_transaction_received") => {
                Shape::BinderReceived(get("debug_id")?)
            }
            ("ftrace", "print") => Shape::Marker(get("buf")?),
            _ => {
                let own = format.fields.iter().filter(|field| !field.name.starts_with("common_"));
                let numbers =
                    own.map(|field| field.place).filter(|place| place.kind == FieldKind::Number).collect();
                Shape::Other { id: format.id, numbers }
            }
        };
        Ok(Self {
            flags: format.field("common_flags").map(|field| field.place),
            pid: get("common_pid")?,
            shape,
        })
    }
}

impl Shape {
    #[inline]
    fn read(&self, data: &[u8], time: u64, out: &mut DecodedEvents) -> Option<EventKind> {
        Some(match self {
            Self::Switch { prev, next, prev_prio, next_prio, state, comms } => {
                let (prev, next) = (tid(prev, data)?, tid(next, data)?);
                out.names.saw(time, prev, comms[0].bytes(data)?);
                out.names.saw(time, next, comms[1].bytes(data)?);
                EventKind::Switch {
                    prev,
                    next,
                    prev_prio: prio(prev_prio, data)?,
                    next_prio: prio(next_prio, data)?,
                    prev_state: LeftAs(state.number(data)? as u16),
                }
            }
            Self::Waking(shape) => EventKind::Waking(shape.read(data, time, out)?),
            Self::Wakeup(shape) => EventKind::Wakeup(shape.read(data, time, out)?),
            Self::WakeupNew(shape) => EventKind::WakeupNew(shape.read(data, time, out)?),
            Self::Migrate { tid: who, from, to } => {
                EventKind::Migrate { tid: tid(who, data)?, from: cpu(from, data)?, to: cpu(to, data)? }
            }
            Self::Inherit { tid: who, old, new } => EventKind::PriorityInherited {
                tid: tid(who, data)?,
                old: prio(old, data)?,
                new: prio(new, data)?,
            },
            Self::Fork { parent, child, comm } => {
                let child = tid(child, data)?;
                out.names.saw(time, child, comm.bytes(data)?);
                EventKind::Fork { parent: tid(parent, data)?, child }
            }
            Self::Exec { tid: who } => EventKind::Exec { tid: tid(who, data)? },
            Self::Exit { tid: who } => EventKind::Exit { tid: tid(who, data)? },
            Self::IrqEntry(irq) => EventKind::IrqEntry { irq: irq.number(data)? as i32 },
            Self::IrqExit(irq) => EventKind::IrqExit { irq: irq.number(data)? as i32 },
            Self::SoftIrqEntry(vector) => EventKind::SoftIrqEntry { vector: vector.number(data)? as u8 },
            Self::SoftIrqExit(vector) => EventKind::SoftIrqExit { vector: vector.number(data)? as u8 },
            Self::Idle { state, cpu: which } => {
                // The way out is written as state (u32)-1.
                let state = u32::try_from(state.number(data)?).ok()?;
                EventKind::Idle { cpu: cpu(which, data)?, state: u8::try_from(state).ok() }
            }
            Self::Frequency { khz, cpu: which } => {
                EventKind::Frequency { cpu: cpu(which, data)?, khz: khz.number(data)? as u32 }
            }
            Self::Binder { debug_id, reply, flags } => EventKind::BinderTransaction {
                debug_id: debug_id.number(data)? as i32,
                reply: reply.number(data)? != 0,
                oneway: flags.number(data)? & TF_ONE_WAY != 0,
            },
            Self::BinderReceived(debug_id) => {
                EventKind::BinderReceived { debug_id: debug_id.number(data)? as i32 }
            }
            Self::Marker(text) => {
                let bytes = text.bytes(data)?;
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                let index = u32::try_from(out.texts.len()).ok()?;
                out.texts.push(String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned());
                EventKind::Marker(index)
            }
            Self::Other { id, numbers } => {
                let index = u32::try_from(out.others.len()).ok()?;
                let numbers = numbers.iter().map(|field| field.number(data)).collect::<Option<_>>()?;
                out.others.push(Other { id: *id, numbers });
                EventKind::Other(index)
            }
        })
    }
}

impl WakeShape {
    #[inline]
    fn read(&self, data: &[u8], time: u64, out: &mut DecodedEvents) -> Option<Wakee> {
        let who = tid(&self.tid, data)?;
        out.names.saw(time, who, self.comm.bytes(data)?);
        Some(Wakee { tid: who, cpu: cpu(&self.cpu, data)?, prio: prio(&self.prio, data)? })
    }
}

#[inline]
fn tid(field: &FieldLocation, data: &[u8]) -> Option<Tid> {
    Tid::try_from(field.number(data)?).ok()
}

#[inline]
fn cpu(field: &FieldLocation, data: &[u8]) -> Option<Cpu> {
    Cpu::try_from(field.number(data)?).ok()
}

#[inline]
fn prio(field: &FieldLocation, data: &[u8]) -> Option<i16> {
    i16::try_from(field.number(data)?).ok()
}
