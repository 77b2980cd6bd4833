//! Which case notices a fault of the driver, found without running every case on every fault.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::faults::{FAULTS, Fault};
use crate::faulty::FaultyDevice;
use crate::seam::Device;
use crate::suite::{Case, CaseOutcome, Suite};

/// A driver, the cases that pass on it, and for each of them the faults that would change something there.
///
/// A fault that changes nothing in the course of a case cannot be noticed by it, so that only the others are run.
pub struct FaultSearch<'a> {
    device: &'a dyn Device,
    passing: Vec<(&'static Case, BTreeSet<&'static str>)>,
}

/// What became of one fault.
#[derive(Debug, Clone, Serialize)]
pub struct FaultResult {
    /// What the driver does wrong.
    pub fault: &'static str,
    /// The first case that noticed; `None` if none did.
    pub found_by: Option<&'static str>,
    /// Cases in whose course the fault changes something.
    pub reaches: usize,
}

fn passes(suite: &Suite<'_>, case: &Case) -> bool {
    matches!(suite.run(case).outcome, CaseOutcome::Pass)
}

impl<'a> FaultSearch<'a> {
    /// Runs each case once on the driver as it is.
    pub fn new(device: &'a dyn Device, cases: &[&'static Case]) -> Self {
        let watched = FaultyDevice::watching(device, &FAULTS);
        let suite = Suite::new(&watched);
        let mut passing = Vec::new();
        for case in cases {
            watched.take_active();
            if passes(&suite, case) {
                passing.push((*case, watched.take_active()));
            }
        }
        // A case that few faults reach is about little else, and short.
        passing.sort_by_key(|(_, active)| active.len());
        Self { device, passing }
    }

    /// How many cases pass without a fault.
    pub fn passing(&self) -> usize {
        self.passing.len()
    }

    /// Runs the cases that a fault reaches, until one does not pass.
    pub fn find(&self, fault: Fault) -> FaultResult {
        let reached = self.passing.iter().filter(|(_, active)| active.contains(fault.name));
        let cases: Vec<&Case> = reached.map(|(case, _)| *case).collect();
        let faulty = FaultyDevice::new(self.device, fault);
        let suite = Suite::new(&faulty);
        let found_by = cases.iter().find(|case| !passes(&suite, case)).map(|case| case.name);
        FaultResult { fault: fault.name, found_by, reaches: cases.len() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::faulty::tests::Silent;
    use crate::seam::{Peer, Process};
    use crate::suite::cases;

    #[derive(Default)]
    struct SilentDevice {
        opened: AtomicUsize,
    }

    impl Device for SilentDevice {
        fn open(&self, _: usize) -> Result<Box<dyn Process>, i32> {
            self.opened.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Silent))
        }

        fn contexts(&self) -> usize {
            1
        }

        fn start_peer(&self) -> Result<Box<dyn Peer>, String> {
            Err("there is no other process".to_owned())
        }

        fn pid(&self) -> u32 {
            1
        }

        fn euid(&self) -> u32 {
            0
        }

        fn has_security_contexts(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_fault_is_looked_for_where_it_changes_something() {
        let device = SilentDevice::default();
        let wanted = ["request.version", "mmap.writable"];
        let chosen: Vec<&Case> = cases().filter(|case| wanted.contains(&case.name)).collect();
        let search = FaultSearch::new(&device, &chosen);
        assert_eq!(search.passing(), 1, "a version that is EBUSY has passed");
        let fault = |name: &str| *FAULTS.iter().find(|fault| fault.name == name).expect("a fault");
        let opened = || device.opened.load(Ordering::Relaxed);

        let result = search.find(fault("lets its buffer be written to"));
        assert_eq!((result.found_by, result.reaches), (Some("mmap.writable"), 1));
        let before = opened();
        let result = search.find(fault("does not freeze"));
        assert_eq!((result.found_by, result.reaches, opened()), (None, 0, before), "a case was run in vain");
    }
}
