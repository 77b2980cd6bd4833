//! What an experiment file may hold. Unknown keys are errors everywhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use handoff_guest::{Acceleration, Kernel, Smp};
use serde::Deserialize;
use toml::Spanned;

use crate::experiment::guest::Boot;
use crate::experiment::proof::Expect;
use crate::stats::judge::Direction;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileForm {
    pub(super) title: String,
    #[serde(default)]
    pub(super) question: String,
    #[serde(default = "no_workload")]
    pub(super) workload: Spanned<WorkloadForm>,
    pub(super) baseline: Spanned<ArmForm>,
    pub(super) change: Spanned<ArmForm>,
    pub(super) metric: Spanned<MetricForm>,
    #[serde(default)]
    pub(super) secondary: Vec<Spanned<MetricForm>>,
    #[serde(default)]
    pub(super) rounds: Option<Spanned<RoundsForm>>,
    pub(super) guest: Option<Spanned<GuestForm>>,
    pub(super) sweep: Option<Spanned<SweepForm>>,
}

/// `[sweep]`: the same comparison for each value of a parameter of the workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepForm {
    pub(super) parameter: String,
    pub(super) values: Vec<toml::Value>,
}

/// `[guest]`, and `guest` of an arm.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct GuestForm {
    pub(super) kernel: Option<Spanned<Kernel>>,
    pub(super) smp: Option<Smp>,
    pub(super) memory_mib: Option<Spanned<u32>>,
    pub(super) accel: Option<Acceleration>,
    pub(super) icount: Option<bool>,
    #[serde(default)]
    pub(super) modules: Vec<String>,
    #[serde(default)]
    pub(super) append: Vec<Spanned<String>>,
    pub(super) boot: Option<Boot>,
}

/// Each arm may have a command of its own.
pub(super) fn no_workload() -> Spanned<WorkloadForm> {
    Spanned::new(0..0, WorkloadForm::default())
}

#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadForm {
    pub(super) name: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) parameters: toml::Table,
    pub(super) command: Option<Spanned<CommandForm>>,
    #[serde(default)]
    pub(super) figures: Vec<Spanned<FigureForm>>,
}

#[derive(Deserialize, Clone)]
#[serde(untagged)]
pub(super) enum CommandForm {
    Line(String),
    Words(Vec<String>),
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureForm {
    pub(super) name: String,
    pub(super) json: Option<String>,
    pub(super) regex: Option<String>,
    #[serde(default)]
    pub(super) unit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArmForm {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: toml::Table,
    pub(super) command: Option<Spanned<CommandForm>>,
    #[serde(default)]
    pub(super) sysctl: BTreeMap<Spanned<String>, Scalar>,
    #[serde(default)]
    pub(super) file: BTreeMap<Spanned<String>, Scalar>,
    #[serde(default)]
    pub(super) scheduler_features: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, Scalar>,
    #[serde(default)]
    pub(super) prefix: Vec<String>,
    pub(super) cpus: Option<Spanned<String>>,
    pub(super) nice: Option<Spanned<i32>>,
    pub(super) program: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(super) proof: Vec<Spanned<ProofForm>>,
    pub(super) guest: Option<Spanned<GuestForm>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Scalar {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Scalar {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            // The kernel's switches.
            Self::Bool(on) => u8::from(*on).to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofForm {
    pub(super) counter: String,
    #[serde(default)]
    pub(super) from: From,
    pub(super) path: Option<PathBuf>,
    pub(super) expect: Expect,
    #[serde(default)]
    pub(super) per_second: bool,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum From {
    #[default]
    Workload,
    Netstat,
    Schedstat,
    Tracepoint,
    Function,
    File,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricForm {
    pub(super) name: String,
    pub(super) better: Option<Direction>,
    #[serde(default = "two_percent")]
    pub(super) margin: f64,
}

pub(super) fn two_percent() -> f64 {
    0.02
}

/// All keys of `[rounds]`: those of a rule, and those of any.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoundsForm {
    pub(super) rounds: Option<usize>,
    pub(super) looks: Option<Vec<usize>>,
    pub(super) half_width: Option<f64>,
    pub(super) least: Option<usize>,
    pub(super) most: Option<usize>,
    pub(super) warm_up: Option<usize>,
    pub(super) seed: Option<u64>,
    pub(super) budget_seconds: Option<f64>,
    pub(super) quiet_seconds: Option<f64>,
    pub(super) limit_seconds: Option<f64>,
    #[serde(default)]
    pub(super) cgroup: bool,
}
