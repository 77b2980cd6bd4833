//! Finds out whether KVM really starts a guest on this machine, or only seems to.
//!
//! `/dev/kvm` may be there and yet an ordinary guest hangs: on a virtual machine whose own host does
//! not do nested virtualisation well. So the kernel in question is booted with KVM once, with a
//! first process that does nothing, and the outcome is kept in the cache.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cache::{Cache, write_whole};
use super::process::Process;
use super::{Arch, GuestError};

/// How long a guest may take to its first process with KVM; where it works, that is about a second.
const PROBE_LIMIT: Duration = Duration::from_secs(8);
const KVM: &str = "/dev/kvm";
const PASSED: &str = "handoff-guest: probe passed";

/// How QEMU is to run the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// With KVM if that works here, else by translation.
    #[default]
    Auto,
    /// On the processor, by the host's kernel.
    Kvm,
    /// By translation (QEMU's TCG): on any host, some ten times slower.
    Tcg,
    /// By translation, the guest's CPUs in turn in one thread of the host. Where each has a thread, QEMU before 8.1 may go on
    /// with code that another CPU is changing. A kernel changes its own code when events are traced: three of seven such
    /// guests of QEMU 7.2 took exceptions without an end. What waits for another CPU may wait for 0.1 s.
    TcgInTurn,
}

impl Acceleration {
    const ALL: [Self; 4] = [Self::Auto, Self::Kvm, Self::Tcg, Self::TcgInTurn];

    /// Its name, as it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
            Self::TcgInTurn => "tcg-in-turn",
        }
    }
}

impl fmt::Display for Acceleration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Acceleration {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|one| one.name() == name)
            .ok_or_else(|| format!("`{name}` is no acceleration: use auto, kvm, tcg or tcg-in-turn"))
    }
}

/// What was decided, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) kvm: bool,
    pub(crate) reason: String,
}

/// A kernel to try KVM with.
pub(crate) struct Probe<'a> {
    pub(crate) arch: Arch,
    pub(crate) qemu: &'a Path,
    pub(crate) kernel: &'a Path,
    /// Whether the kernel is known to boot elsewhere, so that its failure is KVM's.
    pub(crate) proven: bool,
    pub(crate) initramfs: &'a [u8],
    pub(crate) cache: &'a Cache,
    pub(crate) progress: &'a dyn Fn(&str),
}

impl Probe<'_> {
    /// Decides between KVM and translation.
    pub(crate) fn decide(&self) -> Result<Decision, GuestError> {
        let no = |reason: &str| Ok(Decision { kvm: false, reason: reason.to_owned() });
        if Arch::host() != Some(self.arch) {
            return no("the guest's processor is not of the host's kind");
        }
        if !Path::new(KVM).exists() {
            return no("this machine has no /dev/kvm");
        }
        if std::fs::File::options().read(true).write(true).open(KVM).is_err() {
            return no("/dev/kvm may not be opened: root, or members of its group, may");
        }
        // What is known of this host holds for every kernel; what one kernel of unknown quality did
        // not do holds for that kernel only.
        let of_host = self.cache.path(&format!("kvm-{}", fingerprint(&[self.qemu])));
        let of_kernel = self.cache.path(&format!("kvm-{}", fingerprint(&[self.qemu, self.kernel])));
        for note in [&of_host, &of_kernel] {
            if let Ok(known) = std::fs::read_to_string(note) {
                return Ok(decision(known.trim() == "works"));
            }
        }
        (self.progress)("trying KVM");
        let works = self.boots()?;
        let note = if works || self.proven { of_host } else { of_kernel };
        write_whole(&note, if works { b"works" } else { b"hangs" })?;
        Ok(decision(works))
    }

    fn boots(&self) -> Result<bool, GuestError> {
        let area = tempfile::tempdir().map_err(GuestError::io("make a folder in", &std::env::temp_dir()))?;
        let initrd = area.path().join("initrd");
        std::fs::write(&initrd, self.initramfs).map_err(GuestError::io("write", &initrd))?;
        let append = format!("console={} panic=-1 quiet handoff.mode=probe", self.arch.console());
        let machine = if self.arch == Arch::X86_64 { "pc" } else { "virt,gic-version=host" };
        let mut command = Command::new(self.qemu);
        command
            .args(["-machine", machine, "-accel", "kvm", "-cpu", "host", "-smp", "1", "-m", "256"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"])
            .arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            .arg(&initrd)
            .args(["-append", &append])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let process = Process::spawn(command)?;
        let Some(mut stdout) = process.stdout() else { return Ok(false) };
        let (sender, receiver) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let deadline = Instant::now() + PROBE_LIMIT;
        let mut text = Vec::new();
        let works = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(bytes) => text.extend(bytes),
                Err(_) => break false,
            }
            let text = String::from_utf8_lossy(&text);
            // A kernel that got far enough to panic was run well.
            if text.contains(PASSED) || text.contains("Kernel panic - not syncing") {
                break true;
            }
        };
        process.kill();
        drop(process);
        drop(receiver);
        drop(reader.join());
        Ok(works)
    }
}

/// A name for this boot of the host together with these files as they are now.
fn fingerprint(files: &[&Path]) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    for file in ["/proc/sys/kernel/random/boot_id", "/proc/version"] {
        std::fs::read_to_string(file).unwrap_or_default().hash(&mut hasher);
    }
    for file in files {
        file.hash(&mut hasher);
        if let Ok(data) = std::fs::metadata(file) {
            data.len().hash(&mut hasher);
            data.modified().ok().hash(&mut hasher);
        }
    }
    format!("{:016x}", hasher.finish())
}

fn decision(works: bool) -> Decision {
    let reason = if works {
        "KVM was tried and works".to_owned()
    } else {
        format!("KVM did not start a guest within {} s here", PROBE_LIMIT.as_secs())
    };
    Decision { kvm: works, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read() {
        for one in Acceleration::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!("xen".parse::<Acceleration>().is_err());
    }

    #[test]
    fn a_foreign_guest_is_translated_without_a_try() {
        let Some(host) = Arch::host() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(Some(folder.path())).expect("a cache");
        let probe = Probe {
            arch: if host == Arch::X86_64 { Arch::Arm64 } else { Arch::X86_64 },
            qemu: Path::new("/no/qemu"),
            kernel: Path::new("/no/kernel"),
            proven: true,
            initramfs: &[],
            cache: &cache,
            progress: &|_| panic!("nothing is tried"),
        };
        let decision = probe.decide().expect("decided");
        assert!(!decision.kvm && decision.reason.contains("host's kind"));
    }

    #[test]
    fn a_kvm_that_starts_nothing_is_remembered_as_such() {
        handoff_testkit::require!(handoff_testkit::require_file(KVM));
        let Some(arch) = Arch::host() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(Some(folder.path())).expect("a cache");
        let probe = Probe {
            arch,
            // Ends at once and prints nothing: as far from a guest as can be.
            qemu: Path::new("/bin/true"),
            kernel: Path::new("/dev/null"),
            proven: false,
            initramfs: &[],
            cache: &cache,
            progress: &|_| {},
        };
        assert!(!probe.decide().expect("decided").kvm);
        let again = Probe { progress: &|_| panic!("tried twice"), ..probe };
        assert!(!again.decide().expect("decided").kvm);
        // Another kernel may be better: only a proven one speaks for the host.
        let tried = std::cell::Cell::new(0);
        let count = |_: &str| tried.set(tried.get() + 1);
        let other = Probe { kernel: Path::new("/dev/zero"), proven: true, progress: &count, ..again };
        assert!(!other.decide().expect("decided").kvm);
        let third = Probe { kernel: Path::new("/dev/full"), ..other };
        assert!(!third.decide().expect("decided").kvm);
        assert_eq!(tried.get(), 1);
    }
}
