//! Control groups: where a thread is, what its groups allow, and moves between them, in v1 and v2.
//!
//! References: `cgroups(7)`, `cpuset(7)`, `Documentation/admin-guide/cgroup-v2.rst` in Linux. On
//! Android the v1 cpusets are in `/dev/cpuset`, mounted with `noprefix` (`cpus`, not `cpuset.cpus`).

use crate::cpuset::CpuSet;
use crate::root::Root;
use crate::tid::Tid;
use serde::Serialize;
use std::path::{Component, Path, PathBuf};

/// One mounted hierarchy of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The group that is mounted there; `/` unless in a container.
    pub top: PathBuf,
    /// Is it the unified hierarchy (v2)?
    pub unified: bool,
    /// The v1 controllers; those enabled at the mount for v2.
    pub controllers: Vec<String>,
    /// Mounted with `noprefix`, so that `cpuset.cpus` is called `cpus`.
    pub no_prefix: bool,
}

impl Hierarchy {
    /// Does this hierarchy steer the controller (`cpu`, `cpuset`)?
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    /// The folder of a group, given as `/proc/PID/cgroup` gives it.
    ///
    /// `None` for a group that cannot be seen from here (outside a container's mount).
    #[must_use]
    pub fn folder(&self, group: &Path) -> Option<PathBuf> {
        let below = group.strip_prefix(&self.top).ok()?;
        let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        // Joining nothing would leave a slash at the end.
        inside.then(|| self.mount.join(below).components().collect())
    }

    /// The name of a cpuset file in this hierarchy.
    pub(crate) fn cpuset_file(&self, name: &str) -> String {
        if self.no_prefix { name.to_owned() } else { format!("cpuset.{name}") }
    }
}

/// The mounted hierarchies, from `/proc/self/mountinfo`.
#[must_use]
pub fn hierarchies(root: &Root) -> Vec<Hierarchy> {
    let table = root.text("/proc/self/mountinfo").unwrap_or_default();
    let mut found: Vec<Hierarchy> = table.lines().filter_map(|line| hierarchy(root, line)).collect();
    // A hierarchy may be mounted twice; the one whose top is highest shows the most groups.
    found.sort_by_key(|hierarchy| hierarchy.top.components().count());
    found
}

/// One line of mountinfo: `31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu`; see `proc(5)`.
fn hierarchy(root: &Root, line: &str) -> Option<Hierarchy> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (top, mount) = (unescape(mount.next()?), unescape(mount.next()?));
    let mut filesystem = filesystem.split(' ');
    let kind = filesystem.next()?;
    let options: Vec<&str> = filesystem.nth(1)?.split(',').collect();
    let unified = kind == "cgroup2";
    let controllers: Vec<String> = match kind {
        "cgroup2" => {
            let listed = root.text(mount.join("cgroup.controllers")).unwrap_or_default();
            listed.split_whitespace().map(str::to_owned).collect()
        }
        "cgroup" => options.iter().map(|&option| option.to_owned()).collect(),
        _ => return None,
    };
    Some(Hierarchy { mount, top, unified, controllers, no_prefix: options.contains(&"noprefix") })
}

/// Undoes the octal escapes of `/proc` (`\040` is a space).
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match escaped {
            Some(escaped) => (out.push(escaped), rest = &tail[3..]).1,
            None => (out.push(byte), rest = tail).1,
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// The group of a thread for a controller: the hierarchy and the group's folder.
#[must_use]
pub fn group_of(root: &Root, tid: Tid, controller: &str) -> Option<(Hierarchy, PathBuf)> {
    let memberships = root.text(format!("/proc/{tid}/cgroup")).ok()?;
    let hierarchies = hierarchies(root);
    let (group, unified) = group_for(&memberships, controller)?;
    let fits = |h: &&Hierarchy| h.unified == unified && (unified || h.has(controller));
    let candidates = hierarchies.iter().filter(fits);
    candidates.filter_map(|h| Some((h.clone(), h.folder(group)?))).next()
}

/// The path of a process's group as `/proc/PID/cgroup` names it: that of the v1 cpu controller, or of
/// the unified hierarchy.
#[must_use]
pub fn path_of(root: &Root, pid: Tid) -> Option<String> {
    let memberships = root.text(format!("/proc/{pid}/cgroup")).ok()?;
    Some(group_for(&memberships, "cpu")?.0.to_string_lossy().into_owned())
}

/// The group for a controller among the lines of `/proc/PID/cgroup`, and whether it is one of the unified hierarchy,
/// which has a controller only if no v1 hierarchy has taken it.
fn group_for<'a>(memberships: &'a str, controller: &str) -> Option<(&'a Path, bool)> {
    let groups = || memberships.lines().filter_map(membership);
    let v1 = groups().find(|(controllers, _)| controllers.split(',').any(|name| name == controller));
    let (controllers, group) = v1.or_else(|| groups().find(|(controllers, _)| controllers.is_empty()))?;
    Some((group, controllers.is_empty()))
}

/// `4:memory:/a` is (`memory`, `/a`); the unified hierarchy has no name: `0::/a`.
fn membership(line: &str) -> Option<(&str, &Path)> {
    let mut parts = line.splitn(3, ':');
    parts.next()?;
    Some((parts.next()?, Path::new(parts.next()?)))
}

/// The cpuset of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpuset {
    /// The folder of the group.
    pub path: PathBuf,
    /// The CPUs that it allows and that are online.
    pub cpus: CpuSet,
}

/// The cpuset that a thread is in, v1 or v2; `None` where there is none.
#[must_use]
pub fn cpuset_of(root: &Root, tid: Tid) -> Option<Cpuset> {
    let (hierarchy, folder) = group_of(root, tid, "cpuset")?;
    let names: &[&str] = if hierarchy.unified { &["cpus.effective"] } else { &["effective_cpus", "cpus"] };
    // A v2 group without the controller has its ancestor's set.
    folder.ancestors().take_while(|path| path.starts_with(&hierarchy.mount)).find_map(|path| {
        let mut lists = names.iter().filter_map(|name| root.cpus(path.join(hierarchy.cpuset_file(name))));
        let cpus = lists.find(|cpus| !cpus.is_empty())?;
        Some(Cpuset { path: path.to_owned(), cpus })
    })
}

/// A limit of CPU time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quota {
    /// The folder of the group that sets it: the tightest of the group and its ancestors.
    pub path: PathBuf,
    /// How many CPUs' worth of time it allows.
    pub cpus: f64,
    /// The period over which it is counted, in microseconds.
    pub period_us: u64,
}

/// The tightest quota over a thread, v1 (`cpu.cfs_quota_us`) or v2 (`cpu.max`); `None` if there is none.
#[must_use]
pub fn quota_of(root: &Root, tid: Tid) -> Option<Quota> {
    let (hierarchy, folder) = group_of(root, tid, "cpu")?;
    let quotas =
        folder.ancestors().take_while(|path| path.starts_with(&hierarchy.mount)).filter_map(|path| {
            let (quota, period): (u64, u64) = if hierarchy.unified {
                let text = root.text(path.join("cpu.max")).ok()?;
                let (quota, period) = text.split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            } else {
                (root.number(path.join("cpu.cfs_quota_us"))?, root.number(path.join("cpu.cfs_period_us"))?)
            };
            let cpus = quota as f64 / period as f64;
            (period > 0).then(|| Quota { path: path.to_owned(), cpus, period_us: period })
        });
    quotas.min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A tree with a thread 7 in some groups.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (path, text) in files {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, root)
    }

    fn seven() -> Tid {
        Tid::new(7).unwrap()
    }

    #[test]
    fn v1_is_found_with_its_limits() {
        let (_folder, root) = tree(&[
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cg/cpu\\040x rw - cgroup cgroup rw,cpu,cpuacct\n34 31 0:31 / /cg/set rw - cgroup cgroup rw,cpuset",
            ),
            ("proc/7/cgroup", "3:cpuset:/a/b\n1:cpu,cpuacct:/a\n0::/"),
            ("cg/set/a/b/cpuset.cpus", "0-9"),
            ("cg/set/a/b/cpuset.effective_cpus", "2-3\n"),
            ("cg/cpu x/a/cpu.cfs_quota_us", "150000"),
            ("cg/cpu x/a/cpu.cfs_period_us", "100000"),
            ("cg/cpu x/cpu.cfs_quota_us", "-1"),
            ("cg/cpu x/cpu.cfs_period_us", "100000"),
        ]);
        let set = cpuset_of(&root, seven()).unwrap();
        assert_eq!((set.path.to_str(), set.cpus.to_string().as_str()), (Some("/cg/set/a/b"), "2-3"));
        let quota = quota_of(&root, seven()).unwrap();
        assert_eq!((quota.path.to_str(), quota.cpus), (Some("/cg/cpu x/a"), 1.5));
    }

    #[test]
    fn v2_inherits_from_the_nearest_group_with_the_file() {
        let (_folder, root) = tree(&[
            ("proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"),
            ("proc/7/cgroup", "0::/app/x"),
            ("cg/cgroup.controllers", "cpuset cpu io"),
            ("cg/app/cpuset.cpus.effective", "4-7"),
            ("cg/app/cpu.max", "50000 100000"),
            ("cg/app/x/cpu.max", "max 100000"),
        ]);
        let set = cpuset_of(&root, seven()).unwrap();
        assert_eq!((set.path.to_str(), set.cpus.to_string().as_str()), (Some("/cg/app"), "4-7"));
        assert_eq!(quota_of(&root, seven()).unwrap().cpus, 0.5);
    }

    #[test]
    fn android_cpusets_have_no_prefix() {
        let (_folder, root) = tree(&[
            (
                "proc/self/mountinfo",
                "40 1 0:30 / /dev/cpuset rw - cgroup none rw,cpuset,noprefix,release_agent=/sbin/x",
            ),
            ("proc/7/cgroup", "4:cpuset:/background\n0::/uid_10/pid_7"),
            ("dev/cpuset/background/cpus", "0-3"),
        ]);
        assert_eq!(cpuset_of(&root, seven()).unwrap().cpus.to_string(), "0-3");
    }

    #[test]
    fn a_container_sees_its_own_part_only() {
        let hierarchy = Hierarchy {
            mount: "/sys/fs/cgroup".into(),
            top: "/docker/abc".into(),
            unified: true,
            controllers: vec![],
            no_prefix: false,
        };
        assert_eq!(hierarchy.folder(Path::new("/docker/abc/x")), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(hierarchy.folder(Path::new("/docker/abc")), Some("/sys/fs/cgroup".into()));
        assert_eq!(hierarchy.folder(Path::new("/docker/other")), None);
        assert_eq!(hierarchy.folder(Path::new("/docker/abc/../other")), None);
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["", "x", " - ", "a b c d e - cgroup", "1 2 3 / /x rw - ext4 /dev/x rw", "\\9\\"] {
            let (_folder, root) = tree(&[("proc/self/mountinfo", text), ("proc/7/cgroup", text)]);
            assert_eq!(cpuset_of(&root, seven()), None, "{text:?}");
            assert_eq!(quota_of(&root, seven()), None, "{text:?}");
        }
    }
}
