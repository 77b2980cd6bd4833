//! The options that `handoff exec` and `handoff pin` share: where, how urgently, within what limits.

use anyhow::Context as _;
use handoff_placement::{
    Allowed, ControlGroup, CpuSet, Deadline, IoPriority, Journal, Limits, Placement, Policy, Priority,
    Scheduling, Selector, Tid, Topology,
};

use crate::output::{Advice as _, Output};
use crate::state;

// CPUs, policy, nice, deadline, util clamp, I/O priority, control group.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Placement")]
pub(crate) struct PlacementOptions {
    /// The CPUs: `0-3,5`, `big`, `llc:0`, `beside:TID`, `all,!0`; `handoff cores` shows what there is.
    #[arg(short, long, value_name = "CPUS")]
    pub(crate) cpus: Option<Selector>,
    /// Take fewer CPUs than were named if some are offline or outside the cpuset.
    #[arg(long, requires = "cpus")]
    pub(crate) narrow: bool,
    /// Scheduling policy: `fifo:1` to `fifo:99`, `rr:N`, `other`, `batch`, `idle`.
    #[arg(short, long, value_name = "POLICY")]
    pub(crate) policy: Option<Priority>,
    /// Nice, -20 (most urgent) to 19.
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-20..=19))]
    pub(crate) nice: Option<i8>,
    /// Reserve time with SCHED_DEADLINE: runtime/period or runtime/deadline/period, microseconds.
    #[arg(long, value_name = "US/US", conflicts_with_all = ["policy", "nice"])]
    pub(crate) deadline: Option<Deadline>,
    /// Place and clock for at least this capacity, 0 to 1024 (util clamp).
    #[arg(long, value_name = "CAPACITY", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) util_min: Option<u32>,
    /// Place and clock for at most this capacity, 0 to 1024 (util clamp).
    #[arg(long, value_name = "CAPACITY", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) util_max: Option<u32>,
    /// Children start as SCHED_OTHER at nice 0.
    #[arg(long)]
    pub(crate) reset_on_fork: bool,
    /// I/O priority: `be:0` to `be:7`, `rt:0` to `rt:7`, `idle`, `none`.
    #[arg(long, value_name = "CLASS")]
    pub(crate) io: Option<IoPriority>,
    /// Nice of the whole session against others, where the kernel groups by session (autogroup).
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-20..=19))]
    pub(crate) autogroup: Option<i8>,
    /// Give a real-time policy even if a thread that loops could then lock the machine.
    #[arg(long)]
    pub(crate) allow_rt_lockup: bool,
}

impl PlacementOptions {
    /// The placement that the options describe.
    pub(crate) fn placement(&self) -> anyhow::Result<Placement> {
        let priority = match (self.policy, self.nice) {
            (Some(policy), None) => Some(policy),
            (None, Some(nice)) => Some(Priority::other(nice)),
            (Some(policy), Some(nice)) if matches!(policy.policy, Policy::Other | Policy::Batch) => {
                Some(Priority { nice, ..policy })
            }
            (Some(policy), Some(_)) => anyhow::bail!("--nice means nothing with --policy {policy}"),
            (None, None) => None,
        };
        Ok(Placement {
            cpus: self.cpus.clone(),
            scheduling: Scheduling {
                priority,
                deadline: self.deadline,
                util_min: self.util_min,
                util_max: self.util_max,
                reset_on_fork: self.reset_on_fork,
            },
            io: self.io,
            autogroup: self.autogroup,
            allow_rt_lockup: self.allow_rt_lockup,
        })
    }

    /// Says no if not all of the named CPUs can be had by a thread, unless `--narrow` allows that.
    pub(crate) fn check_cpus(
        &self,
        tid: Tid,
        placement: &Placement,
        machine: &Topology,
    ) -> anyhow::Result<()> {
        let Some(wanted) = placement.check(machine)? else { return Ok(()) };
        let allowed = Allowed::of(tid)?;
        match allowed.objection(&wanted) {
            None => Ok(()),
            Some(_) if self.narrow => Ok(()), // The kernel refuses if nothing is left.
            Some(reason) => {
                let refusal = anyhow::anyhow!("CPUs {wanted} are not all available: {reason}");
                let some = !wanted.intersection(&allowed.grantable()).is_empty();
                if some { Err(refusal).advise("--narrow takes what there is") } else { Err(refusal) }
            }
        }
    }
}

// Limits that need a control group.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Control group")]
pub(crate) struct Grouping {
    /// Put it into this control group, which is there already.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["cgroup_cpus", "quota", "weight"])]
    pub(crate) cgroup: Option<std::path::PathBuf>,
    /// Confine it, and whatever it starts, to these CPUs with a cpuset of its own.
    #[arg(long, value_name = "CPUS")]
    pub(crate) cgroup_cpus: Option<Selector>,
    /// Give it at most this much time, in units of whole CPUs (0.5 is half of one).
    #[arg(long, value_name = "CPUS")]
    pub(crate) quota: Option<f64>,
    /// Its share when CPUs are contended, 1 to 10000; others have 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10000))]
    pub(crate) weight: Option<u32>,
}

impl Grouping {
    /// Does it ask for a group that is made here?
    pub(crate) fn makes_group(&self) -> bool {
        self.cgroup_cpus.is_some() || self.quota.is_some() || self.weight.is_some()
    }

    /// The group that was asked for; made here unless it was named, and noted in the journal before that.
    pub(crate) fn group(
        &self,
        machine: &Topology,
        journal: Option<&mut Journal>,
    ) -> anyhow::Result<Option<ControlGroup>> {
        if let Some(folder) = &self.cgroup {
            return Ok(Some(ControlGroup::open(folder)?));
        }
        if let Some(quota) = self.quota {
            anyhow::ensure!(
                quota > 0.0 && quota <= 65536.0,
                "--quota {quota} is not a number of CPUs above 0, such as 0.5, and at most 65536"
            );
        }
        let cpus: Option<CpuSet> = self.cgroup_cpus.as_ref().map(|cpus| cpus.resolve(machine)).transpose()?;
        let limits = Limits { cpus, quota: self.quota, weight: self.weight, ..Limits::default() };
        if limits.is_empty() {
            return Ok(None);
        }
        let name = format!("handoff-{}", std::process::id());
        let made = match journal {
            Some(journal) => journal.make_group(&name, &limits),
            None => ControlGroup::create(&name, &limits),
        };
        let group = made
            .context("the control group cannot be made")
            .advise("run as root, or name a group that was delegated to you with --cgroup")?;
        Ok(Some(group))
    }
}

/// The journal of this command, after what others left that were killed was put back. Whoever has no folder for it
/// is warned: nothing would be put back after a SIGKILL.
pub(crate) fn journal(output: &Output) -> Option<Journal> {
    let folder = state::folder();
    let why = |error: &handoff_placement::Error| {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    };
    let started = Journal::recover_left(&folder).and_then(|(recovered, refused)| {
        for error in &refused {
            output.warn(format_args!("{}; what it has is not put back", why(error)));
        }
        if recovered.restored + recovered.partly + recovered.groups > 0 {
            output.note(format_args!("a command that was killed had left this: {recovered}"));
        }
        Journal::start(&folder)
    });
    match started {
        Ok(journal) => Some(journal),
        Err(error) => {
            output.warn(format_args!("{}; nothing is put back should this command be killed", why(&error)));
            None
        }
    }
}

/// Warns of what was granted only in part.
pub(crate) fn warn_of_shortfall(output: &Output, pin: &handoff_placement::Pin) {
    if let Some(reason) = pin.shortfall() {
        output.warn(format_args!("granted {{{}}} of {{{}}}: {reason}", pin.granted(), pin.wanted()));
    }
}
