//! Whom a rule matches, and when it holds.

use super::state::{Process, SystemState};
use super::text::matches;
use std::fmt;
use std::time::Duration;

/// Whom a rule is for; every field that is given must match. Names are patterns with `*` and `?`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// Name of the process (`/proc/PID/comm`, 15 bytes at most).
    pub comm: Option<String>,
    pub exe: Option<String>,
    /// Control group (v2 path, or that of the v1 cpu controller).
    pub cgroup: Option<String>,
    pub uid: Option<u32>,
    /// Name under which the process offers a service to others.
    pub service: Option<String>,
    /// Name of the threads to place; the whole process without it.
    pub thread: Option<String>,
}

impl Match {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Does the process match? Otherwise, what does not.
    pub fn check(&self, process: &Process) -> Result<(), String> {
        let name = |what: &str, pattern: &Option<String>, text: Option<&str>| match (pattern, text) {
            (Some(pattern), Some(text)) if matches(pattern, text) => Ok(()),
            (Some(pattern), Some(text)) => Err(format!("{what} is `{text}`, not `{pattern}`")),
            (Some(pattern), None) => Err(format!("it has no {what}, let alone `{pattern}`")),
            (None, _) => Ok(()),
        };
        name("comm", &self.comm, Some(&process.comm))?;
        name("exe", &self.exe, process.exe.as_deref())?;
        name("cgroup", &self.cgroup, Some(&process.cgroup))?;
        match self.uid {
            Some(uid) if uid != process.uid => return Err(format!("uid is {}, not {uid}", process.uid)),
            _ => {}
        }
        let Some(service) = &self.service else { return Ok(()) };
        if process.services.iter().any(|name| matches(service, name)) {
            return Ok(());
        }
        Err(format!("it offers no service `{service}`"))
    }
}

/// When a rule holds; every condition that is given must. A figure that the machine does not have
/// never meets a condition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct When {
    /// Is the process in the foreground, as it or the session has told?
    pub foreground: Option<bool>,
    /// CPU pressure: percent of the last ten seconds in which something waited for a CPU (PSI).
    pub cpu_pressure: Option<Threshold>,
    /// Highest temperature of the machine, in degrees Celsius.
    pub temperature: Option<Threshold>,
    pub battery: Option<Threshold>,
    /// Is it charging (or without a battery)?
    pub charging: Option<bool>,
    /// The process has used no CPU for this long.
    pub idle: Option<Duration>,
}

impl When {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Does it look at anything that is read from sensors?
    pub fn needs_sensors(&self) -> bool {
        self.cpu_pressure.is_some()
            || self.temperature.is_some()
            || self.battery.is_some()
            || self.charging.is_some()
    }

    /// Does it hold? Otherwise, what does not. `latched` says whether it held the last time: a
    /// threshold that was passed stays so until the figure is back beyond `until`.
    pub fn check(&self, process: &Process, state: &SystemState, latched: bool) -> Result<(), String> {
        if let Some(wanted) = self.foreground {
            let found = state.foreground.contains(&process.key);
            if found != wanted {
                return Err(
                    if found { "it is in the foreground" } else { "it is not in the foreground" }.to_owned()
                );
            }
        }
        if let Some(wanted) = self.charging {
            match state.charging {
                Some(found) if found == wanted => {}
                Some(found) => return Err(format!("charging is {found}")),
                None => return Err("there is no battery that tells whether it charges".to_owned()),
            }
        }
        let figures = [
            ("CPU pressure", &self.cpu_pressure, state.cpu_pressure, "%"),
            ("temperature", &self.temperature, state.temperature, " °C"),
            ("battery", &self.battery, state.battery, "%"),
        ];
        for (what, threshold, figure, unit) in figures {
            let Some(threshold) = threshold else { continue };
            let Some(figure) = figure else { return Err(format!("this machine tells no {what}")) };
            if !threshold.holds(figure, latched) {
                return Err(format!("{what} is {figure:.1}{unit}, not {threshold}{unit}"));
            }
        }
        match self.idle {
            Some(wanted) if process.idle < wanted => Err(format!(
                "it used a CPU {:.1} s ago, less than {:.1} s",
                process.idle.as_secs_f64(),
                wanted.as_secs_f64()
            )),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Holds above `above`, and then until the figure is at or below `until`.
    Above { above: f64, until: f64 },
    /// Holds below `below`, and then until the figure is at or above `until`.
    Below { below: f64, until: f64 },
}

impl Threshold {
    fn holds(self, figure: f64, latched: bool) -> bool {
        match self {
            Self::Above { above, until } => figure > if latched { until } else { above },
            Self::Below { below, until } => figure < if latched { until } else { below },
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Above { above, .. } => write!(f, "above {above}"),
            Self::Below { below, .. } => write!(f, "below {below}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name in logs; `rule 2` if it has none.
    pub name: String,
    /// The line of the file where it starts.
    pub line: usize,
    pub matches: Match,
    pub when: When,
    /// The profile that it gives.
    pub profile: String,
    /// Once chosen for a process, it stays at least this long.
    pub hold: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_does_not_flap() {
        let hot = Threshold::Above { above: 80.0, until: 70.0 };
        assert!(!hot.holds(75.0, false) && hot.holds(75.0, true));
        assert!(hot.holds(80.1, false) && !hot.holds(70.0, true));
        let low = Threshold::Below { below: 20.0, until: 30.0 };
        assert!(!low.holds(25.0, false) && low.holds(25.0, true));
        assert!(low.holds(19.0, false) && !low.holds(30.0, true));
    }

    #[test]
    fn each_condition_holds_or_says_what_does_not() {
        use handoff_placement::process::ProcessKey;
        let key = ProcessKey { pid: handoff_placement::Tid::new(7).unwrap(), start: 1 };
        let process = Process {
            key,
            comm: "app".to_owned(),
            exe: None,
            cgroup: "/".to_owned(),
            uid: 0,
            services: Vec::new(),
            idle: Duration::from_secs(4),
        };
        let state = SystemState {
            cpu_pressure: Some(30.0),
            temperature: Some(81.5),
            battery: Some(15.0),
            charging: Some(false),
            foreground: [key].into(),
            ..SystemState::default()
        };
        let above = |above| Some(Threshold::Above { above, until: above - 5.0 });
        let below = |below| Some(Threshold::Below { below, until: below + 5.0 });
        let none = When::default;
        for (holds, does_not, says) in [
            (
                When { cpu_pressure: above(20.0), ..none() },
                When { cpu_pressure: above(40.0), ..none() },
                "CPU pressure is 30.0%, not above 40%",
            ),
            (
                When { temperature: above(80.0), ..none() },
                When { temperature: below(50.0), ..none() },
                "temperature is 81.5 °C, not below 50 °C",
            ),
            (
                When { battery: below(20.0), ..none() },
                When { battery: below(10.0), ..none() },
                "battery is 15.0%, not below 10%",
            ),
            (
                When { charging: Some(false), ..none() },
                When { charging: Some(true), ..none() },
                "charging is false",
            ),
            (
                When { foreground: Some(true), ..none() },
                When { foreground: Some(false), ..none() },
                "it is in the foreground",
            ),
            (
                When { idle: Some(Duration::from_secs(4)), ..none() },
                When { idle: Some(Duration::from_secs(5)), ..none() },
                "it used a CPU 4.0 s ago, less than 5.0 s",
            ),
        ] {
            assert_eq!(holds.check(&process, &state, false), Ok(()), "{holds:?}");
            assert_eq!(does_not.check(&process, &state, false), Err(says.to_owned()));
            // A machine without the sensor never meets a condition on it.
            let unknown = SystemState { foreground: state.foreground.clone(), ..SystemState::default() };
            assert_eq!(holds.check(&process, &unknown, false).is_err(), holds.needs_sensors(), "{holds:?}");
        }
    }
}
