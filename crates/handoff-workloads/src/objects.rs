//! Many objects of one process in the hands of another: what each costs to get, to call and to keep, and how long it
//! takes until the holder has heard that all of them are dead.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Unit};
use crate::outcome::Outcome;
use crate::rpc::hold::BATCH;
use crate::rpc::role::{AskClient, ObjectTimes};
use crate::rpc::service::CALL_LIMIT;
use crate::rpc::{self, EngineKind, Processes, ServerOptions};
use crate::sys::clock::now;

/// Most objects of one run.
pub const MAX_OBJECTS: u32 = 1 << 20;

/// How many objects, and on which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub engine: EngineKind,
    pub objects: u32,
    /// Calls to objects that are spread over all.
    pub calls: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { engine: EngineKind::default(), objects: 1000, calls: 200 }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.engine == EngineKind::Local {
            return Err(Error::parameter("engine", "local: objects of the same process are not held"));
        }
        in_range("objects", self.objects, 10..=MAX_OBJECTS)?;
        in_range("calls", self.calls, 1..=rpc::MAX_SAMPLES)
    }
}

/// Runs it once. `objects/take` has a value for each reply of 100 objects; `take_first` and `take_last` are those of the
/// first tenth and of the last, when the holder has nearly all.
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let Parameters { engine, objects, calls } = *parameters;
    let of_calls = rpc::Parameters { engine, ..rpc::Parameters::default() };
    let mut processes = Processes::start(&of_calls, ServerOptions::default(), 1)?;
    let slab_before = slab_bytes()?;
    let client = &mut processes.clients[0];
    let ObjectTimes { take, call, link } = client.ask(&AskClient::Hold { objects, calls }, CALL_LIMIT)?;
    let slab = slab_bytes()?.saturating_sub(slab_before);
    let killed = now();
    // Kills the server.
    processes.server = None;
    let last_notice: u64 = processes.clients[0].answer(CALL_LIMIT)?;

    let mut map = of_calls.to_map();
    map.insert("objects".to_owned(), objects.into());
    map.insert("batch".to_owned(), BATCH.into());
    let mut outcome = Outcome::of("objects", map);
    let tenth = take.len().div_ceil(10);
    let (first, last) = (take[..tenth].to_vec(), take[take.len() - tenth..].to_vec());
    let mut timed =
        |quantity, values| outcome.add(quantity, Unit::Nanoseconds, Clock::Monotonic, Better::Lower, values);
    timed("take", take)?;
    timed("take_first", first)?;
    timed("take_last", last)?;
    timed("call", call.into_iter().map(|took| took as f64).collect())?;
    timed("link", vec![link])?;
    timed("deaths", vec![last_notice.saturating_sub(killed) as f64])?;
    let each = slab as f64 / f64::from(objects);
    outcome.add("kernel_memory", Unit::Bytes, Clock::KernelCounter, Better::Lower, vec![each])?;
    let note = "kernel_memory is what all slabs grew by, whoever took it: of use where nothing else runs";
    outcome.notes.push(note.to_owned());
    Ok(outcome)
}

/// Bytes that the kernel's slabs take.
fn slab_bytes() -> Result<u64> {
    let read = |error| Error::io("cannot read /proc/meminfo", error);
    let text = std::fs::read_to_string("/proc/meminfo").map_err(read)?;
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(':')).collect();
    let kib = fields.get("Slab").and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| read(std::io::Error::other("it has no Slab")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_taken_called_and_die_together() {
        crate::rpc::play_here();
        let outcome = run(&Parameters { objects: 250, calls: 30, ..Parameters::default() }).expect("it runs");
        for (name, values) in
            [("take", 3), ("take_first", 1), ("take_last", 1), ("call", 30), ("link", 1), ("deaths", 1)]
        {
            let measured = outcome.measurement(&format!("objects/{name}")).expect(name).summary();
            assert_eq!(measured.count, values, "{name}");
            assert!(measured.min > 0.0, "{name}");
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { engine: EngineKind::Local, ..good }).contains("same process"));
        assert!(refused(Parameters { objects: 9, ..good }).contains("10 to"));
        assert!(refused(Parameters { calls: 0, ..good }).contains("1 to"));
    }
}
