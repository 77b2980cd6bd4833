//! Energy of the whole machine, where it counts it: RAPL's packages, or the battery while it discharges.
//!
//! References: `Documentation/power/powercap/powercap.rst` and
//! `Documentation/ABI/testing/sysfs-class-power` in Linux.

use handoff_placement::Root;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

const POWERCAP: &str = "/sys/class/powercap";
const SUPPLIES: &str = "/sys/class/power_supply";

/// Where a figure of energy is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergySource {
    /// The processor packages, counted by themselves.
    Rapl,
    /// The battery's power, added up: the whole device, its screen included.
    Battery,
}

impl fmt::Display for EnergySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rapl => "of the processor packages (RAPL)",
            Self::Battery => "of the whole device (its battery)",
        })
    }
}

/// Measures from [`Meter::start`] on.
#[derive(Debug)]
pub(crate) struct Meter {
    root: Root,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Each package with its counter, in microjoules.
    Rapl(Vec<(u32, u64)>),
    /// The battery, its power at the last look, and what was added up so far.
    Battery { folder: String, last: (Instant, f64), joules: f64 },
}

impl Meter {
    /// `None` where the machine tells nothing of energy, or not to this user (RAPL is root's).
    pub(crate) fn start(root: &Root, now: Instant) -> Option<Self> {
        let root = root.clone();
        let packages: Vec<u32> = root.numbered(POWERCAP, "intel-rapl:");
        let counters: Option<Vec<(u32, u64)>> =
            packages.into_iter().map(|package| Some((package, counter(&root, package)?))).collect();
        if let Some(counters) = counters.filter(|counters| !counters.is_empty()) {
            return Some(Self { root, source: Source::Rapl(counters) });
        }
        let folder = discharging(&root)?;
        let watts = watts(&root, &folder)?;
        Some(Self { source: Source::Battery { folder, last: (now, watts), joules: 0.0 }, root })
    }

    /// To be called every now and then: a battery tells its power, and nobody else adds it up.
    pub(crate) fn look(&mut self, now: Instant) {
        let Source::Battery { folder, last, joules } = &mut self.source else { return };
        // What cannot be read for a moment is taken to be as it was.
        let watts = watts(&self.root, folder).unwrap_or(last.1);
        *joules += now.saturating_duration_since(last.0).as_secs_f64() * (last.1 + watts) / 2.0;
        *last = (now, watts);
    }

    /// What was used so far, in joules.
    pub(crate) fn joules(&mut self, now: Instant) -> Option<(f64, EnergySource)> {
        self.look(now);
        match &self.source {
            Source::Battery { joules, .. } => Some((*joules, EnergySource::Battery)),
            Source::Rapl(counters) => {
                let used = counters.iter().map(|&(package, before)| {
                    let after = counter(&self.root, package)?;
                    // The counter starts again from 0 at the end of its range.
                    let range = || {
                        self.root
                            .number::<u64>(format!("{POWERCAP}/intel-rapl:{package}/max_energy_range_uj"))
                    };
                    after.checked_sub(before).or_else(|| after.checked_add(range()?)?.checked_sub(before))
                });
                let microjoules = used.sum::<Option<u64>>()?;
                Some((microjoules as f64 / 1e6, EnergySource::Rapl))
            }
        }
    }
}

fn counter(root: &Root, package: u32) -> Option<u64> {
    root.number(format!("{POWERCAP}/intel-rapl:{package}/energy_uj"))
}

/// The folder of the first battery that discharges: a charger would pay for the work otherwise.
fn discharging(root: &Root) -> Option<String> {
    let names = std::fs::read_dir(root.path(SUPPLIES)).ok()?;
    let mut names: Vec<String> = names.filter_map(|name| name.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let says = |name: &str, file: &str, what: &str| {
        root.text(format!("{SUPPLIES}/{name}/{file}")).is_ok_and(|text| text == what)
    };
    let is_wanted = |name: &String| says(name, "type", "Battery") && says(name, "status", "Discharging");
    names.into_iter().find(is_wanted).map(|name| format!("{SUPPLIES}/{name}"))
}

/// Power in watts: told as such, or as current and voltage; drivers differ in the sign of a discharge.
fn watts(root: &Root, folder: &str) -> Option<f64> {
    let number =
        |file: &str| root.number::<f64>(format!("{folder}/{file}")).filter(|value| value.is_finite());
    let power = number("power_now").map(|microwatts| microwatts / 1e6);
    power.or_else(|| Some(number("current_now")? / 1e6 * (number("voltage_now")? / 1e6))).map(f64::abs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> Root {
            Root::at(self.0.path())
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.root().path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn packages_are_added_up_also_over_the_end_of_a_counter() {
        let (machine, now) = (Machine::new(), Instant::now());
        assert!(Meter::start(&machine.root(), now).is_none(), "a machine that tells nothing");
        let package = |id: u32, energy: u64| {
            machine.put(&format!("{POWERCAP}/intel-rapl:{id}/energy_uj"), &energy.to_string());
            machine.put(&format!("{POWERCAP}/intel-rapl:{id}/max_energy_range_uj"), "10000000");
        };
        package(0, 1_000_000);
        package(1, 9_000_000);
        // A part of a package is counted with it.
        machine.put(&format!("{POWERCAP}/intel-rapl:0:0/energy_uj"), "5");
        let mut meter = Meter::start(&machine.root(), now).unwrap();
        package(0, 2_500_000);
        package(1, 500_000);
        assert_eq!(meter.joules(now), Some((3.0, EnergySource::Rapl)));
        fs::remove_file(machine.root().path(format!("{POWERCAP}/intel-rapl:1/energy_uj"))).unwrap();
        assert_eq!(meter.joules(now), None);
    }

    #[test]
    fn a_battery_counts_while_it_discharges() {
        let (machine, now) = (Machine::new(), Instant::now());
        let battery = |file: &str, text: &str| machine.put(&format!("{SUPPLIES}/BAT0/{file}"), text);
        machine.put(&format!("{SUPPLIES}/AC/type"), "Mains\n");
        battery("type", "Battery\n");
        battery("current_now", "-500000\n");
        battery("voltage_now", "4000000\n");
        battery("status", "Charging\n");
        assert!(Meter::start(&machine.root(), now).is_none());
        battery("status", "Discharging\n");
        let mut meter = Meter::start(&machine.root(), now).unwrap();
        battery("power_now", "4000000\n"); // 4 W from now on, after 2 W.
        meter.look(now + Duration::from_secs(2));
        battery("power_now", "nonsense");
        battery("voltage_now", "nan");
        assert_eq!(meter.joules(now + Duration::from_secs(3)), Some((10.0, EnergySource::Battery)));
    }
}
