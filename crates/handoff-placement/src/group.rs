//! Control groups of our own: made with limits, entered, and removed again.

use crate::cgroup::{Hierarchy, hierarchies};
use crate::controller::{self, TurnedOn};
use crate::cpuset::CpuSet;
use crate::error::{Error, Result};
use crate::kernel_file::{open_group, write_in_group};
use crate::root::Root;
use crate::tid::Tid;
use std::fs;
use std::path::{Path, PathBuf};

/// What a group allows; what is `None` is not limited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Only these CPUs.
    pub cpus: Option<CpuSet>,
    /// CPU time in units of whole CPUs: 0.5 is half of one.
    pub quota: Option<f64>,
    /// The period over which the quota is counted, in microseconds; 100 ms if `None`.
    pub period_us: Option<u64>,
    /// Share when CPUs are contended, 1 to 10000; others have 100.
    pub weight: Option<u32>,
}

impl Limits {
    /// Is nothing limited?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpus.is_none() && self.quota.is_none() && self.weight.is_none()
    }
}

/// A control group, in as many hierarchies as its limits need (one with v2, up to two with v1).
///
/// It removes itself when it is dropped, if it was made here and is empty; what is still in it then
/// is moved to the parent group first.
#[derive(Debug)]
pub struct ControlGroup {
    parts: Vec<Part>,
    turned_on: Vec<TurnedOn>,
}

/// What is about to be changed, for a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// This folder is made.
    Folder(&'a Path),
    Controller(&'a TurnedOn),
}

/// Hears of each change before it is made.
pub(crate) type Note<'a> = dyn FnMut(Change<'_>) -> Result<()> + 'a;

#[derive(Debug)]
struct Part {
    folder: PathBuf,
    made: bool,
}

impl ControlGroup {
    /// Makes a group below the top of each hierarchy that steers what is limited.
    ///
    /// # Errors
    ///
    /// If the name could lead elsewhere, a controller is not to be had, or the kernel refuses a limit.
    /// Nothing is left behind then.
    pub fn create(name: &str, limits: &Limits) -> Result<Self> {
        Self::create_noting(name, limits, &mut |_| Ok(()))
    }

    /// [`ControlGroup::create`] that says what it changes before it does.
    pub(crate) fn create_noting(name: &str, limits: &Limits, note: &mut Note<'_>) -> Result<Self> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n', '\0']) {
            let source = std::io::Error::from_raw_os_error(libc::EINVAL);
            return Err(Error::Cgroup {
                path: name.into(),
                what: "is not a name for a group".to_owned(),
                source,
            });
        }
        let hierarchies = hierarchies(&Root::host());
        let mut group = Self { parts: Vec::new(), turned_on: Vec::new() };
        if limits.quota.is_some() || limits.weight.is_some() {
            let hierarchy = steering(&hierarchies, "cpu")?;
            let _turn = hierarchy.unified.then(|| controller::lock(&hierarchy.mount));
            let part = group.part(hierarchy, name, "cpu", note)?;
            set_time(&part, hierarchy.unified, limits)?;
        }
        if let Some(cpus) = &limits.cpus {
            let hierarchy = steering(&hierarchies, "cpuset")?;
            let _turn = hierarchy.unified.then(|| controller::lock(&hierarchy.mount));
            let part = group.part(hierarchy, name, "cpuset", note)?;
            set_cpus(hierarchy, &part, cpus)?;
        }
        Ok(group)
    }

    /// A group that is there already, by its folder.
    pub fn open(folder: &Path) -> Result<Self> {
        open_group(folder).map_err(|source| Error::Cgroup {
            path: folder.into(),
            what: "is not a control group".to_owned(),
            source,
        })?;
        let parts = vec![Part { folder: folder.into(), made: false }];
        Ok(Self { parts, turned_on: Vec::new() })
    }

    /// A group that an earlier process made and could not remove: it is emptied and removed when the
    /// result is dropped.
    pub(crate) fn adopt(folders: Vec<PathBuf>) -> Self {
        let is_group = |folder: &PathBuf| open_group(folder).is_ok();
        Self {
            parts: folders.into_iter().filter(is_group).map(|folder| Part { folder, made: true }).collect(),
            turned_on: Vec::new(),
        }
    }

    /// Ends the ownership: the group stays on the machine.
    pub fn keep(mut self) {
        self.parts.clear();
        self.turned_on.clear();
    }

    /// The folder of the group in one hierarchy, made unless another limit already made it.
    fn part(
        &mut self,
        hierarchy: &Hierarchy,
        name: &str,
        controller: &str,
        note: &mut Note<'_>,
    ) -> Result<PathBuf> {
        let folder = hierarchy.mount.join(name);
        let plan = hierarchy.unified.then(|| TurnedOn::plan(&hierarchy.mount, controller)).flatten();
        if let Some(plan) = plan {
            note(Change::Controller(&plan))?;
            // Where it may not be turned on, setting the limit tells.
            if plan.turn_on().is_ok() {
                self.turned_on.push(plan);
            }
        }
        if !self.parts.iter().any(|part| part.folder == folder) {
            note(Change::Folder(&folder))?;
            fs::create_dir(&folder).map_err(|source| Error::Cgroup {
                path: folder.clone(),
                what: "cannot be made".to_owned(),
                source,
            })?;
            self.parts.push(Part { folder: folder.clone(), made: true });
        }
        Ok(folder)
    }

    /// The folders of the group.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.folder.as_path())
    }

    /// Moves a process with all its threads into the group. Its children will be born there.
    ///
    /// # Errors
    ///
    /// If there is no such process, or the kernel refuses.
    pub fn take(&self, pid: Tid) -> Result<()> {
        self.parts.iter().try_for_each(|part| enter_group(&part.folder, pid))
    }

    fn remove(&mut self) {
        for part in self.parts.drain(..).filter(|part| part.made) {
            let parent = part.folder.parent().map(Path::to_owned).unwrap_or_default();
            // Born while we move: a few rounds are enough unless it spawns without end. Who is dying leaves
            // when it gets a CPU for that.
            for _ in 0..500 {
                let members = fs::read_to_string(part.folder.join("cgroup.procs")).unwrap_or_default();
                for pid in members.lines().filter_map(|pid| Tid::new(pid.parse().ok()?)) {
                    let _ = enter_group(&parent, pid);
                }
                if fs::remove_dir(&part.folder).is_ok() || !part.folder.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        for on in self.turned_on.drain(..).rev() {
            on.turn_off();
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Moves a process into the group with this folder.
///
/// # Errors
///
/// If the process has ended, the folder is no control group, or this user may not move the process.
pub fn enter_group(folder: &Path, pid: Tid) -> Result<()> {
    let path = folder.join("cgroup.procs");
    // The folder may have been named by a file or by a user: nothing but a group is written to.
    write_in_group(folder, "cgroup.procs", &pid.to_string()).map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => Error::NoSuchThread(pid),
        // Android moves applications between its groups itself, and lets nobody else.
        Some(libc::EACCES | libc::EPERM) => {
            let what = format!("is not for this user (or security domain) to move process {pid} into");
            Error::Cgroup { path, what, source }
        }
        _ => Error::Cgroup { path, what: format!("did not take process {pid}"), source },
    })
}

fn steering<'a>(hierarchies: &'a [Hierarchy], controller: &str) -> Result<&'a Hierarchy> {
    hierarchies.iter().find(|hierarchy| hierarchy.has(controller)).ok_or_else(|| Error::Cgroup {
        path: "/sys/fs/cgroup".into(),
        what: format!("has no mounted hierarchy with the controller `{controller}`"),
        source: std::io::Error::from_raw_os_error(libc::ENOENT),
    })
}

pub(crate) fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    fs::write(&path, text).map_err(|source| Error::Cgroup {
        path,
        what: format!("did not take `{text}`"),
        source,
    })
}

pub(crate) fn set_time(folder: &Path, unified: bool, limits: &Limits) -> Result<()> {
    let period = limits.period_us.unwrap_or(100_000).clamp(1_000, 1_000_000);
    if let Some(quota) = limits.quota {
        // The kernel wants at least a millisecond.
        let quota = ((quota * period as f64) as u64).max(1_000);
        if unified {
            write(folder, "cpu.max", &format!("{quota} {period}"))?;
        } else {
            write(folder, "cpu.cfs_period_us", &period.to_string())?;
            write(folder, "cpu.cfs_quota_us", &quota.to_string())?;
        }
    }
    if let Some(weight) = limits.weight.map(|weight| weight.clamp(1, 10_000)) {
        if unified {
            write(folder, "cpu.weight", &weight.to_string())?;
        } else {
            // The kernel's own relation: weight 100 is 1024 shares.
            write(folder, "cpu.shares", &(u64::from(weight) * 1024 / 100).max(2).to_string())?;
        }
    }
    Ok(())
}

fn set_cpus(hierarchy: &Hierarchy, folder: &Path, cpus: &CpuSet) -> Result<()> {
    if !hierarchy.unified {
        // A v1 cpuset takes nobody before it has memory nodes.
        let mems =
            fs::read_to_string(hierarchy.mount.join(hierarchy.cpuset_file("mems"))).unwrap_or_default();
        write(folder, &hierarchy.cpuset_file("mems"), mems.trim())?;
    }
    write(folder, &hierarchy.cpuset_file("cpus"), &cpus.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allowed, affinity};
    use handoff_testkit::{require, require_root};
    use std::process::{Child, Command};

    /// Some controller may be missing on a machine where these run.
    fn group(name: &str, limits: &Limits) -> std::result::Result<ControlGroup, String> {
        let name = format!("handoff-test-{name}-{}", std::process::id());
        ControlGroup::create(&name, limits).map_err(|error| format!("needs control groups: {error}"))
    }

    fn sleeper() -> (Child, Tid) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Tid::new(child.id() as i32).unwrap();
        (child, pid)
    }

    #[test]
    fn a_group_limits_cpus_and_time_and_goes_away() {
        require!(require_root());
        let one = CpuSet::of(affinity(Tid::current()).unwrap().first().unwrap());
        let limits =
            Limits { cpus: Some(one.clone()), quota: Some(0.5), weight: Some(50), ..Limits::default() };
        let group = require!(group("limits", &limits));
        let folders: Vec<PathBuf> = group.folders().map(Path::to_owned).collect();
        let (mut child, pid) = sleeper();
        group.take(pid).unwrap();
        let allowed = Allowed::of(pid).unwrap();
        assert_eq!(allowed.mask, one);
        assert_eq!(allowed.cpuset.as_ref().unwrap().cpus, one);
        assert!((allowed.quota.as_ref().unwrap().cpus - 0.5).abs() < 1e-9);
        let refused = crate::set_affinity(pid, &CpuSet::of(5000)).unwrap_err().to_string();
        assert!(refused.contains("not online"), "{refused}");
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
        assert!(Allowed::of(pid).unwrap().quota.is_none(), "the process was moved out");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_error_names_the_cpuset_that_forbids() {
        require!(require_root());
        require!(handoff_testkit::require_cpus(2));
        let all = affinity(Tid::current()).unwrap();
        let (first, second) = (all.first().unwrap(), all.iter().nth(1).unwrap());
        let limits = Limits { cpus: Some(CpuSet::of(first)), ..Limits::default() };
        let group = require!(group("forbids", &limits));
        let (mut child, pid) = sleeper();
        group.take(pid).unwrap();
        let error = crate::set_affinity(pid, &CpuSet::of(second)).unwrap_err().to_string();
        let folder = group.folders().next().unwrap().display().to_string();
        assert!(error.contains(&format!("{second} is outside the cpuset {folder}")), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn names_cannot_lead_elsewhere() {
        for name in ["", "..", "a/b", ".hidden", "a\nb"] {
            let error = ControlGroup::create(name, &Limits::default()).unwrap_err().to_string();
            assert!(error.contains("not a name"), "{name:?}: {error}");
        }
        assert!(ControlGroup::open(Path::new("/tmp")).is_err());
    }

    #[test]
    fn both_versions_are_told_in_their_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { quota: Some(1.5), weight: Some(50), ..Limits::default() };
        let file = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        set_time(folder.path(), true, &limits).unwrap();
        assert_eq!((file("cpu.max").as_str(), file("cpu.weight").as_str()), ("150000 100000", "50"));
        set_time(folder.path(), false, &limits).unwrap();
        assert_eq!(
            (file("cpu.cfs_quota_us").as_str(), file("cpu.cfs_period_us").as_str()),
            ("150000", "100000")
        );
        assert_eq!(file("cpu.shares"), "512");
        let hierarchy = |unified, no_prefix| Hierarchy {
            mount: folder.path().into(),
            top: "/".into(),
            unified,
            controllers: vec!["cpuset".to_owned()],
            no_prefix,
        };
        let cpus: CpuSet = "0-1,4".parse().unwrap();
        set_cpus(&hierarchy(true, false), folder.path(), &cpus).unwrap();
        assert_eq!(file("cpuset.cpus"), "0-1,4");
        assert!(!folder.path().join("cpuset.mems").exists());
        fs::write(folder.path().join("mems"), "0\n").unwrap();
        set_cpus(&hierarchy(false, true), folder.path(), &cpus).unwrap();
        assert_eq!((file("cpus").as_str(), file("mems").as_str()), ("0-1,4", "0"), "as on Android");
    }
}
