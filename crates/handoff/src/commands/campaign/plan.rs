//! `handoff campaign plan`: the tasks.

use std::fmt;

use handoff_campaign::plan::CampaignPlan;
use serde::Serialize;

use super::{CampaignFile, people};
use crate::output::{Output, Verdict, counted, style};

/// Print the tasks, and how long they take at most.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign plan rack.toml
  handoff campaign plan rack.toml --format json")]
pub(super) struct Plan {
    #[command(flatten)]
    named: CampaignFile,
}

impl Plan {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let plan = self.named.plan()?;
        for names in plan.shared() {
            output.warn(format_args!("{} are one machine: they take turns", names.join(", ")));
        }
        output.result(&Page { most_seconds: plan.most_seconds(), plan })?;
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
struct Page {
    /// The longest that a device can be busy.
    most_seconds: f64,
    #[serde(flatten)]
    plan: CampaignPlan,
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        let heading = style::HEADING;
        writeln!(
            f,
            "{heading}{}: {}, {} on each of {}{heading:#}\n",
            plan.name,
            counted(plan.tasks.len(), "task"),
            plan.points.len(),
            counted(plan.targets.len(), "device")
        )?;
        for (index, point) in plan.points.iter().enumerate() {
            let most = point.budget_seconds.min(plan.deadline_seconds);
            writeln!(
                f,
                "  {:>3}  {}: {}, {} against {}, at most {} runs in {}",
                index + 1,
                point.title,
                point.metric,
                point.arms[1],
                point.arms[0],
                point.most_runs,
                people(most)
            )?;
        }
        writeln!(f)?;
        for (target, device) in plan.targets.iter().enumerate() {
            let order: Vec<String> =
                plan.tasks_of(target).map(|task| (task.point + 1).to_string()).take(12).collect();
            let more = if plan.points.len() > order.len() { ", ..." } else { "" };
            let address =
                if device.address == device.name { String::new() } else { format!(" ({})", device.address) };
            writeln!(f, "  {}{address}: in the order {}{more}", device.name, order.join(", "))?;
        }
        write!(
            f,
            "\nA device is busy for at most {}, and a task may take {}. It fails after {} without a new round.",
            people(self.most_seconds),
            people(plan.deadline_seconds),
            format_args!("{} {}", plan.attempts, if plan.attempts == 1 { "try" } else { "tries" })
        )
    }
}
