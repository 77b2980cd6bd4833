//! What a thread may use, and which of mask, cpuset, hot-plug and quota limits it.

use crate::affinity::affinity;
use crate::cgroup::{self, Cpuset, Quota};
use crate::cpuset::CpuSet;
use crate::error::Result;
use crate::root::Root;
use crate::tid::Tid;
use serde::Serialize;

/// The CPUs that a thread may use, limit by limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Allowed {
    /// Its affinity mask as the kernel keeps it: already narrowed by the cpuset.
    pub mask: CpuSet,
    /// CPUs that are online.
    pub online: CpuSet,
    /// Its cpuset, where there is one.
    pub cpuset: Option<Cpuset>,
    /// Its limit of CPU time, where there is one.
    pub quota: Option<Quota>,
    /// The container runtime that this seems to be, where it can be told.
    pub container: Option<&'static str>,
}

impl Allowed {
    /// What a thread of this machine may use.
    ///
    /// # Errors
    ///
    /// If the thread is gone or may not be asked about.
    pub fn of(tid: Tid) -> Result<Self> {
        let root = Root::host();
        Ok(Self {
            mask: affinity(tid)?,
            online: root.cpus("/sys/devices/system/cpu/online").unwrap_or_default(),
            cpuset: cgroup::cpuset_of(&root, tid),
            quota: cgroup::quota_of(&root, tid),
            container: container(&root),
        })
    }

    /// CPUs that the thread could be given: online, and in its cpuset.
    #[must_use]
    pub fn grantable(&self) -> CpuSet {
        match &self.cpuset {
            Some(cpuset) => self.online.intersection(&cpuset.cpus),
            None => self.online.clone(),
        }
    }

    /// Why these CPUs, or some of them, cannot be had, and what to do; `None` if all can.
    #[must_use]
    pub fn objection(&self, wanted: &CpuSet) -> Option<String> {
        if wanted.is_empty() {
            return Some("no CPU was named".to_owned());
        }
        let (offline, here) = (wanted.difference(&self.online), wanted.intersection(&self.online));
        let mut reasons = Vec::new();
        if !offline.is_empty() {
            reasons.push(format!("{} not online ({})", are(&offline), are(&self.online)));
        }
        if let Some(cpuset) = &self.cpuset {
            let outside = here.difference(&cpuset.cpus);
            if !outside.is_empty() {
                let (path, cpus) = (cpuset.path.display(), &cpuset.cpus);
                reasons.push(format!("{} outside the cpuset {path} (which has {cpus})", are(&outside)));
            }
        }
        (!reasons.is_empty())
            .then(|| format!("{}; allowed here: {}", reasons.join(", and "), self.grantable()))
    }
}

/// Such as `0-3 are`.
fn are(cpus: &CpuSet) -> String {
    format!("{cpus} {}", if cpus.len() == 1 { "is" } else { "are" })
}

fn container(root: &Root) -> Option<&'static str> {
    let marks = [
        ("/run/.containerenv", "podman"),
        ("/.dockerenv", "docker"),
        ("/var/run/secrets/kubernetes.io", "kubernetes"),
    ];
    marks.into_iter().find(|(path, _)| root.path(path).exists()).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(online: &str, cpuset: Option<&str>) -> Allowed {
        let parse = |list: &str| list.parse::<CpuSet>().unwrap();
        Allowed {
            mask: parse(online),
            online: parse(online),
            cpuset: cpuset.map(|cpus| Cpuset { path: "/cg/app".into(), cpus: parse(cpus) }),
            quota: None,
            container: None,
        }
    }

    #[test]
    fn the_objection_names_what_forbids() {
        let objection = |wanted: &str| allowed("0-3", Some("0-1")).objection(&wanted.parse().unwrap());
        assert_eq!(objection("0-1"), None);
        let both = objection("1,3,9").unwrap();
        assert_eq!(
            both,
            "9 is not online (0-3 are), and 3 is outside the cpuset /cg/app (which has 0-1); allowed here: 0-1"
        );
        assert_eq!(objection("").unwrap(), "no CPU was named");
        assert_eq!(allowed("0-3", None).objection(&CpuSet::of(3)), None);
    }

    #[test]
    fn this_thread_may_use_what_it_runs_on() {
        let allowed = Allowed::of(Tid::current()).unwrap();
        assert!(allowed.mask.is_subset(&allowed.grantable()), "{allowed:?}");
    }

    #[test]
    fn containers_are_told_by_what_their_runtimes_leave() {
        for (mark, name) in [
            ("run/.containerenv", Some("podman")),
            (".dockerenv", Some("docker")),
            ("var/run/secrets/kubernetes.io/x", Some("kubernetes")),
            ("etc/hostname", None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(mark);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
            assert_eq!(container(&Root::at(folder.path())), name, "{mark}");
        }
    }
}
