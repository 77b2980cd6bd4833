//! Arms probes in a guest's kernel, and reads them afterwards.

use std::path::{Path, PathBuf};

use super::counters;
use super::gcov::{self, Branch};
use super::probe::{Counted, Probe};
use super::{Finding, ProveError};
use handoff_guest::{Guest, GuestCommand, GuestOutput};

const TRACING: &str = "/sys/kernel/tracing";
/// Each CPU's share of a probe's ring buffer: it only has to count, and overwrites itself.
const BUFFER_KIB: u32 = 64;
const TRACEPOINT: &str = "tracepoint";
const NETWORK: &str = "cat /proc/net/netstat /proc/net/snmp";

/// Probes while a load runs.
pub(super) struct Session {
    armed: Vec<Armed>,
    profiled: bool,
}

struct Armed {
    probe: Probe,
    source: Source,
}

/// Where a probe's count is.
enum Source {
    /// In the function profiler's tables.
    Profile(String),
    /// In a trace instance of its own.
    Instance {
        name: String,
        means: &'static str,
    },
    /// In a text of the guest that was read before.
    Counter {
        script: String,
        name: String,
        before: Option<f64>,
    },
    /// In what the load prints.
    Output(String),
    /// In gcov's file in the guest.
    Gcov {
        build: PathBuf,
        file: String,
        function: String,
    },
    /// The kernel has no such place, so it is passed 0 times.
    Absent(String),
    Unknown(String),
}

impl Session {
    pub(super) fn arm(guest: &mut Guest, probes: &[Probe], build: Option<&Path>) -> Result<Self, ProveError> {
        let mut session = Self { armed: Vec::new(), profiled: false };
        let mut profiled = Vec::new();
        for (number, probe) in probes.iter().enumerate() {
            let name = format!("handoff_{number}");
            let source = match &probe.what {
                Counted::Calls(function) => {
                    let source = calls(guest, &name, function)?;
                    if let Source::Profile(function) = &source {
                        profiled.push(function.clone());
                    }
                    source
                }
                Counted::Passes(place) => kprobe(guest, &name, &format!("p:handoff/{name} {place}"), None)?,
                Counted::Returns { function, kind, operator, value } => {
                    let definition = format!("r:handoff/{name} {function} value=$retval:{kind}");
                    kprobe(guest, &name, &definition, Some(&format!("value {operator} {value}")))?
                }
                Counted::Events { system, event, filter } => {
                    let event = format!("{system}/{event}");
                    if exists(guest, &format!("{TRACING}/events/{event}"))? {
                        instance(guest, &name, &event, filter.as_deref(), TRACEPOINT)?
                    } else {
                        Source::Unknown(format!("this kernel has no tracepoint {event}"))
                    }
                }
                Counted::Counter(counter) => self::counter(guest, counter)?,
                Counted::Result(name) => Source::Output(name.clone()),
                Counted::Branches { file, function } => match build {
                    Some(build) => Source::Gcov {
                        build: build.to_owned(),
                        file: file.clone(),
                        function: function.clone(),
                    },
                    None => Source::Unknown(
                        "branches are counted of kernels that were built here: name the build folder"
                            .to_owned(),
                    ),
                },
            };
            session.armed.push(Armed { probe: probe.clone(), source });
        }
        if !profiled.is_empty() {
            session.profiled = true;
            let names = profiled.join("\n");
            let script = format!(
                "cd {TRACING} && echo '{names}' >set_ftrace_filter && echo 0 >function_profile_enabled && \
                 echo 1 >function_profile_enabled"
            );
            must(guest, &script)?;
        }
        if session.armed.iter().any(|armed| matches!(armed.source, Source::Gcov { .. })) {
            must(guest, &gcov::reset_script())?;
        }
        // Last, so that what arming does is not counted.
        for armed in &mut session.armed {
            if let Source::Counter { script, name, before } = &mut armed.source {
                *before = read_counter(guest, script, name)?;
            }
        }
        Ok(session)
    }

    /// Stops the counting that costs time, and leaves the counts.
    pub(super) fn disarm(&mut self, guest: &mut Guest) -> Result<(), ProveError> {
        let mut script = String::new();
        if self.profiled {
            script.push_str(&format!("echo 0 >{TRACING}/function_profile_enabled; "));
        }
        for armed in &self.armed {
            if let Source::Instance { name, .. } = &armed.source {
                script.push_str(&format!("echo 0 >{TRACING}/instances/{name}/tracing_on; "));
            }
        }
        if script.is_empty() { Ok(()) } else { must(guest, &script).map(drop) }
    }

    /// Takes everything out of the kernel again.
    pub(super) fn clear(self, guest: &mut Guest) -> Result<(), ProveError> {
        let mut script = format!("cd {TRACING}; ");
        if self.profiled {
            script.push_str("echo >set_ftrace_filter; ");
        }
        for armed in &self.armed {
            if let Source::Instance { name, means } = &armed.source {
                script.push_str(&format!("rmdir instances/{name}; "));
                if *means != TRACEPOINT {
                    script.push_str(&format!("echo '-:handoff/{name}' >>kprobe_events; "));
                }
            }
        }
        must(guest, &script).map(drop)
    }

    /// What was counted.
    pub(super) fn findings(
        &self,
        guest: &mut Guest,
        output: &str,
        seconds: f64,
    ) -> Result<Vec<Finding>, ProveError> {
        let mut findings = Vec::new();
        for armed in &self.armed {
            let (mut branches, mut note) = (Vec::<Branch>::new(), None);
            let (means, count) = match &armed.source {
                Source::Profile(function) => {
                    let tables = must(guest, &format!("cat {TRACING}/trace_stat/function*"))?.stdout_text();
                    ("function profiler", Some(counters::profile(&tables, function)))
                }
                Source::Instance { name, means } => {
                    let script = format!("cat {TRACING}/instances/{name}/per_cpu/cpu*/stats");
                    (*means, Some(counters::events(&must(guest, &script)?.stdout_text())))
                }
                Source::Counter { script, name, before } => {
                    let after = read_counter(guest, script, name)?;
                    let count = after.zip(*before).map(|(after, before)| after - before);
                    if count.is_none() {
                        note = Some(format!("this kernel does not tell {name}"));
                    }
                    ("kernel's counter", count)
                }
                Source::Output(name) => {
                    let count = counters::result(output, name);
                    if count.is_none() {
                        note = Some(format!("the load prints no JSON with the counter {name}"));
                    }
                    ("load's counter", count)
                }
                Source::Gcov { build, file, function } => match gcov::read(guest, build, file, function)? {
                    Ok((calls, of_function)) => {
                        branches = of_function;
                        ("branch counts of gcov", Some(calls))
                    }
                    Err(why) => {
                        note = Some(why);
                        ("branch counts of gcov", None)
                    }
                },
                Source::Absent(why) => {
                    note = Some(why.clone());
                    ("kernel's table of symbols", Some(0.0))
                }
                Source::Unknown(why) => {
                    note = Some(why.clone());
                    ("", None)
                }
            };
            findings.push(Finding {
                probe: armed.probe.clone(),
                means: means.to_owned(),
                count,
                holds: count.is_some_and(|count| armed.probe.expect.holds(count, seconds)),
                note,
                branches,
            });
        }
        Ok(findings)
    }
}

/// Counts calls by the function profiler, or by a probe where that is not there.
fn calls(guest: &mut Guest, name: &str, function: &str) -> Result<Source, ProveError> {
    // A function of a module stands with the module's name behind it.
    let script = format!(
        "cd {TRACING} && [ -f function_profile_enabled ] && \
         grep -q -e '^{0}$' -e '^{0} ' available_filter_functions",
        function.replace('.', "\\.").replace('$', "\\$")
    );
    if run(guest, &script)?.success() {
        return Ok(Source::Profile(function.to_owned()));
    }
    kprobe(guest, name, &format!("p:handoff/{name} {function}"), None)
}

/// Counts how often a place is passed.
fn kprobe(
    guest: &mut Guest,
    name: &str,
    definition: &str,
    filter: Option<&str>,
) -> Result<Source, ProveError> {
    if !exists(guest, &format!("{TRACING}/kprobe_events"))? {
        return Ok(Source::Unknown("this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)".to_owned()));
    }
    let place = definition.split(' ').nth(1).unwrap_or_default();
    let symbol = place.split('+').next().unwrap_or(place);
    let known = run(guest, &format!("grep -q -e ' {symbol}$' -e ' {symbol}\t' /proc/kallsyms"))?;
    if !known.success() {
        return Ok(Source::Absent(format!(
            "this kernel has no `{symbol}`: its source has none, or it was inlined, which `--visible FILE.c` prevents"
        )));
    }
    let output = run(guest, &format!("echo '{definition}' >>{TRACING}/kprobe_events"))?;
    if !output.success() {
        let why = output.stderr_text();
        return Ok(Source::Unknown(format!("no probe can be put at {place}: {}", why.trim())));
    }
    let means = if definition.starts_with('r') { "return probe" } else { "kprobe" };
    instance(guest, name, &format!("handoff/{name}"), filter, means)
}

/// Counts an event in a trace instance of its own.
fn instance(
    guest: &mut Guest,
    name: &str,
    event: &str,
    filter: Option<&str>,
    means: &'static str,
) -> Result<Source, ProveError> {
    let folder = format!("{TRACING}/instances/{name}");
    must(guest, &format!("mkdir -p {folder} && echo {BUFFER_KIB} >{folder}/buffer_size_kb"))?;
    if let Some(filter) = filter {
        guest_filter(guest, &format!("{folder}/events/{event}/filter"), filter)?;
    }
    must(guest, &format!("echo 1 >{folder}/events/{event}/enable"))?;
    Ok(Source::Instance { name: name.to_owned(), means })
}

fn guest_filter(guest: &mut Guest, file: &str, filter: &str) -> Result<(), ProveError> {
    // Through a file: a filter may hold quotes.
    let output = guest.run(&GuestCommand::shell(format!("cat >{file}")).stdin(filter))?;
    if output.success() {
        return Ok(());
    }
    Err(ProveError::Tracing(format!(
        "the kernel refuses the filter `{filter}`: {}",
        output.stderr_text().trim()
    )))
}

/// Finds which text has a counter; it is read for the first time by the caller.
fn counter(guest: &mut Guest, name: &str) -> Result<Source, ProveError> {
    let scripts: Vec<String> = if name.starts_with('/') {
        vec![format!("cat '{}'", name.replace('\'', "'\\''"))]
    } else if name.starts_with("ttwu_") {
        // Without the sysctl nothing is counted.
        vec!["echo 1 >/proc/sys/kernel/sched_schedstats; cat /proc/schedstat".to_owned()]
    } else {
        vec![NETWORK.to_owned(), "cat /proc/vmstat".to_owned()]
    };
    for script in scripts {
        if read_counter(guest, &script, name)?.is_some() {
            return Ok(Source::Counter { script, name: name.to_owned(), before: None });
        }
    }
    Ok(Source::Unknown(format!("this kernel has no counter {name}")))
}

fn read_counter(guest: &mut Guest, script: &str, name: &str) -> Result<Option<f64>, ProveError> {
    let text = run(guest, script)?.stdout_text();
    Ok(if name.starts_with('/') {
        counters::first_number(&text)
    } else if name.starts_with("ttwu_") {
        counters::scheduler(&text, name)
    } else if script == NETWORK {
        counters::network(&text, name)
    } else {
        counters::memory(&text, name)
    })
}

fn exists(guest: &mut Guest, path: &str) -> Result<bool, ProveError> {
    Ok(run(guest, &format!("[ -e {path} ]"))?.success())
}

fn run(guest: &mut Guest, script: &str) -> Result<GuestOutput, ProveError> {
    Ok(guest.run(&GuestCommand::shell(script))?)
}

fn must(guest: &mut Guest, script: &str) -> Result<GuestOutput, ProveError> {
    let output = run(guest, script)?;
    if output.success() {
        return Ok(output);
    }
    Err(ProveError::Tracing(format!(
        "`{script}` ended with {}: {}",
        output.status,
        output.stderr_text().trim()
    )))
}
