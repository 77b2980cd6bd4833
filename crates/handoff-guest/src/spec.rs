//! A guest as a person writes it down: the same words on a command line, in an experiment file and in a study.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Acceleration, Arch, Builder, Kernel, Smp};

/// A guest that is not booted yet, as plain data.
///
/// ```
/// use handoff_guest::{GuestSpec, Kernel};
///
/// let spec: GuestSpec = serde_json::from_str(r#"{ "kernel": "rt", "smp": "4,sockets=2,cores=2" }"#)?;
/// assert_eq!((spec.kernel.clone(), spec.memory_mib), (Kernel::RealTime, 1024));
/// assert_eq!(spec.to_string(), "the distribution's real-time kernel on 4,sockets=2,cores=2 CPUs");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestSpec {
    /// The instruction set; the host's otherwise.
    pub arch: Option<Arch>,
    /// `"distribution"`, `"rt"`, `{ package = NAME }` or `{ image = FILE, modules = FOLDER }`.
    pub kernel: Kernel,
    /// CPUs and how they are grouped, such as `4,sockets=2,cores=2`; absent: one for each capacity, one where
    /// instructions are counted, two otherwise.
    #[serde(alias = "cpus", skip_serializing_if = "Option::is_none")]
    pub smp: Option<Smp>,
    pub memory_mib: u32,
    /// The capacity of each CPU, 1024 for the fastest (arm64 only); none where they are alike.
    pub cpu_capacity: Vec<u32>,
    /// `auto`, `kvm` or `tcg`.
    #[serde(alias = "acceleration")]
    pub accel: Acceleration,
    /// Each instruction takes a fixed time of the guest's clock.
    pub icount: bool,
    /// Kernel modules to load, with parameters after a colon: `dummy:numdummies=2`.
    pub modules: Vec<String>,
    /// Words for the kernel's command line.
    pub append: Vec<String>,
    /// Arguments for QEMU's command line.
    pub qemu_args: Vec<String>,
}

impl Default for GuestSpec {
    fn default() -> Self {
        Self {
            arch: None,
            kernel: Kernel::default(),
            smp: None,
            memory_mib: 1024,
            cpu_capacity: Vec::new(),
            accel: Acceleration::default(),
            icount: false,
            modules: Vec::new(),
            append: Vec::new(),
            qemu_args: Vec::new(),
        }
    }
}

impl GuestSpec {
    /// The guest that this describes, for what is not described: programs, time limits, who is told of progress.
    pub fn builder(&self) -> Builder {
        self.clone().into()
    }

    /// Its CPUs, for people: `1 CPU`, `4,sockets=2,cores=2 CPUs`.
    pub fn cpus(&self) -> String {
        let usual = || Smp::usual(self.cpu_capacity.len(), self.icount).ok();
        match self.smp.clone().or_else(usual) {
            Some(one) if one.to_string() == "1" => "1 CPU".to_owned(),
            Some(smp) => format!("{smp} CPUs"),
            None => format!("{} CPUs", self.cpu_capacity.len()),
        }
    }
}

impl fmt::Display for GuestSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.kernel, self.cpus())?;
        if self.icount {
            f.write_str(", instructions counted")?;
        }
        if !self.append.is_empty() {
            write!(f, ", booted with {}", self.append.join(" "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distribution => f.write_str("the distribution's kernel"),
            Self::RealTime => f.write_str("the distribution's real-time kernel"),
            Self::Package(name) => write!(f, "kernel package {name}"),
            Self::Image { image, .. } => write!(f, "kernel {}", image.display()),
        }
    }
}

/// How a [`Kernel`] is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum KernelForm {
    Word(String),
    Named(KernelTable),
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<PathBuf>,
}

impl TryFrom<KernelForm> for Kernel {
    type Error = String;

    fn try_from(form: KernelForm) -> Result<Self, String> {
        match form {
            KernelForm::Word(word) if word == "distribution" => Ok(Self::Distribution),
            KernelForm::Word(word) if word == "rt" => Ok(Self::RealTime),
            KernelForm::Word(word) => Err(format!(
                "{word:?} is none of \"distribution\", \"rt\", {{ package = NAME }} and {{ image = FILE }}"
            )),
            KernelForm::Named(KernelTable { package: Some(name), image: None, modules: None }) => {
                Ok(Self::Package(name))
            }
            KernelForm::Named(KernelTable { package: None, image: Some(image), modules }) => {
                Ok(Self::Image { image, modules })
            }
            KernelForm::Named(_) => Err("a kernel has a `package`, or an `image` with `modules`".to_owned()),
        }
    }
}

impl From<Kernel> for KernelForm {
    fn from(kernel: Kernel) -> Self {
        match kernel {
            Kernel::Distribution => Self::Word("distribution".to_owned()),
            Kernel::RealTime => Self::Word("rt".to_owned()),
            Kernel::Package(name) => {
                Self::Named(KernelTable { package: Some(name), ..KernelTable::default() })
            }
            Kernel::Image { image, modules } => {
                Self::Named(KernelTable { image: Some(image), modules, package: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_back() {
        for kernel in [
            Kernel::Distribution,
            Kernel::RealTime,
            Kernel::Package("linux-image-amd64".into()),
            Kernel::Image { image: "a/bzImage".into(), modules: None },
            Kernel::Image { image: "a/bzImage".into(), modules: Some("a/modules".into()) },
        ] {
            let spec =
                GuestSpec { kernel, modules: vec!["dummy:numdummies=2".into()], ..GuestSpec::default() };
            let text = serde_json::to_string(&spec).expect("plain data");
            assert_eq!(serde_json::from_str::<GuestSpec>(&text).expect("what was written"), spec);
        }
    }

    #[test]
    fn a_guest_that_asks_for_no_cpus_has_as_many_as_the_rest_needs() {
        let spec = |text: &str| serde_json::from_str::<GuestSpec>(text).expect("a guest").to_string();
        assert_eq!(spec("{}"), "the distribution's kernel on 2 CPUs");
        let counted = "the distribution's kernel on 1 CPU, instructions counted";
        assert_eq!(spec(r#"{ "icount": true }"#), counted);
        assert_eq!(spec(r#"{ "cpu_capacity": [446, 871, 1024] }"#), "the distribution's kernel on 3 CPUs");
        let builder = GuestSpec { icount: true, ..GuestSpec::default() }.builder();
        assert!(!format!("{builder:?}").contains("smp: Some"), "the builder decides: {builder:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            (r#"{ "kernel": "windows" }"#, "none of \"distribution\""),
            (r#"{ "kernel": { "package": "a", "image": "b" } }"#, "an `image` with `modules`"),
            (r#"{ "smp": "none" }"#, "does not describe CPUs"),
            (r#"{ "accel": "warp" }"#, "auto"),
            (r#"{ "memory": 5 }"#, "unknown field"),
        ] {
            let error = serde_json::from_str::<GuestSpec>(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
