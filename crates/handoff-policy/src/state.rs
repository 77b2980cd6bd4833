//! What the rules look at, as it is now.

use handoff_placement::Root;
use handoff_placement::Tid;
use handoff_placement::cgroup;
use handoff_placement::process::{ProcessKey, Status};
use handoff_placement::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// A process, with what rules match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub key: ProcessKey,
    pub comm: String,
    /// Its program, where that may be seen.
    pub exe: Option<String>,
    pub cgroup: String,
    pub uid: u32,
    /// The services that it offers.
    pub services: Vec<String>,
    /// How long it has used no CPU.
    pub idle: Duration,
}

impl Process {
    /// A process as it is now, not known to have been idle.
    pub fn look(pid: Tid, state: &SystemState) -> Result<Self> {
        Observer::default().look(pid, state, Instant::now()).ok_or(Error::NoSuchThread(pid))
    }
}

/// Everything that is not about one process, and what was told about processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemState {
    pub foreground: BTreeSet<ProcessKey>,
    /// The services that processes offer.
    pub services: BTreeMap<ProcessKey, Vec<String>>,
    /// Percent of the last ten seconds in which something waited for a CPU.
    pub cpu_pressure: Option<f64>,
    /// Highest temperature, in degrees Celsius.
    pub temperature: Option<f64>,
    pub battery: Option<f64>,
    pub charging: Option<bool>,
}

impl SystemState {
    /// Reads the sensors that the machine has.
    pub fn read_sensors(&mut self, root: &Root) {
        self.cpu_pressure = root.text("/proc/pressure/cpu").ok().and_then(|text| pressure(&text));
        self.temperature = temperature(root);
        (self.battery, self.charging) = battery(root);
    }

    /// Forgets processes that ended, so that another with the same number is not taken for them.
    pub fn forget_ended(&mut self) {
        self.foreground.retain(ProcessKey::is_alive);
        self.services.retain(|key, _| key.is_alive());
    }
}

/// `some avg10=1.23 avg60=...`; see `Documentation/accounting/psi.rst` in Linux.
fn pressure(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value: f64 = some.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()?;
    value.is_finite().then_some(value)
}

fn temperature(root: &Root) -> Option<f64> {
    let zones: Vec<u32> = root.numbered("/sys/class/thermal", "thermal_zone");
    let degrees = |zone: u32| root.number::<i64>(format!("/sys/class/thermal/thermal_zone{zone}/temp"));
    // Sensors that are absent answer with impossible values, in thousandths.
    let plausible = zones.into_iter().filter_map(degrees).filter(|milli| (-50_000..=200_000).contains(milli));
    plausible.max().map(|milli| milli as f64 / 1000.0)
}

/// The level of the first battery, and whether it is being charged or full.
fn battery(root: &Root) -> (Option<f64>, Option<bool>) {
    const SUPPLIES: &str = "/sys/class/power_supply";
    let Ok(entries) = fs::read_dir(root.path(SUPPLIES)) else { return (None, None) };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let is_battery =
        |name: &&String| root.text(format!("{SUPPLIES}/{name}/type")).is_ok_and(|kind| kind == "Battery");
    let Some(name) = names.iter().find(is_battery) else { return (None, None) };
    let level = root
        .number::<f64>(format!("{SUPPLIES}/{name}/capacity"))
        .filter(|level| (0.0..=100.0).contains(level));
    let status = root.text(format!("{SUPPLIES}/{name}/status")).ok();
    (level, status.map(|status| status == "Charging" || status == "Full"))
}

/// Watches processes: tells how long each has been idle.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// CPU time when it last grew, and when that was.
    seen: BTreeMap<ProcessKey, (u64, Instant)>,
}

impl Observer {
    /// A process as it is now; `None` if it is gone or a thread of the kernel.
    pub(super) fn look(&mut self, pid: Tid, state: &SystemState, now: Instant) -> Option<Process> {
        let status = Status::of(pid).ok()?;
        // Not by its command line, of which a kernel thread has none: a process's is read from its memory, which may be
        // a mapped file of its own file system (FUSE). Then the read never comes back if the process does not want it to.
        if status.is_kernel_thread {
            return None;
        }
        let key = ProcessKey { pid, start: status.start };
        let (ticks, since) = self.seen.entry(key).or_insert((status.cpu_ticks, now));
        if *ticks != status.cpu_ticks {
            (*ticks, *since) = (status.cpu_ticks, now);
        }
        let idle = now.saturating_duration_since(*since);
        Some(Process {
            key,
            comm: status.comm,
            exe: fs::read_link(format!("/proc/{pid}/exe"))
                .ok()
                .map(|path| path.to_string_lossy().into_owned()),
            cgroup: cgroup::path_of(&Root::host(), pid).unwrap_or_default(),
            uid: fs::metadata(format!("/proc/{pid}")).ok()?.uid(),
            services: state.services.get(&key).cloned().unwrap_or_default(),
            idle,
        })
    }

    pub(super) fn forget_ended(&mut self) {
        self.seen.retain(|key, _| key.is_alive());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_are_read_from_a_tree() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let put = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mut state = SystemState::default();
        state.read_sensors(&root);
        assert_eq!(state, SystemState::default(), "a machine without any");
        put("/proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00\n");
        put("/sys/class/thermal/thermal_zone0/temp", "45000\n");
        put("/sys/class/thermal/thermal_zone1/temp", "81500\n");
        put("/sys/class/thermal/thermal_zone2/temp", "-274000\n");
        put("/sys/class/power_supply/AC/type", "Mains\n");
        put("/sys/class/power_supply/BAT0/type", "Battery\n");
        put("/sys/class/power_supply/BAT0/capacity", "17\n");
        put("/sys/class/power_supply/BAT0/status", "Discharging\n");
        state.read_sensors(&root);
        assert_eq!((state.cpu_pressure, state.temperature), (Some(12.5), Some(81.5)));
        assert_eq!((state.battery, state.charging), (Some(17.0), Some(false)));
    }

    #[test]
    fn an_observer_sees_idleness_and_not_the_kernel() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Tid::new(child.id() as i32).unwrap();
        let (mut observer, start) = (Observer::default(), Instant::now());
        // It has to get through its start first.
        while !Status::of(pid).unwrap().comm.starts_with("sleep") {
            std::thread::yield_now();
        }
        // What is left of its start takes as long as the machine lets it.
        let mut looks = (1..=600).map(|n| {
            std::thread::sleep(Duration::from_millis(if n > 2 { 100 } else { 0 }));
            observer.look(pid, &SystemState::default(), start + Duration::from_secs(9 * n)).unwrap()
        });
        let later = looks.find(|seen| seen.idle.as_secs() == 9).expect("idle within a minute");
        assert_eq!(later.comm, "sleep");
        drop(looks);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(observer.look(pid, &SystemState::default(), start).is_none());
        if let Some(kthreadd) =
            Tid::new(2).filter(|&tid| Status::of(tid).is_ok_and(|status| status.comm == "kthreadd"))
        {
            assert!(observer.look(kthreadd, &SystemState::default(), start).is_none());
        }
    }
}
