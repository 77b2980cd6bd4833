//! Which tasks belong to a process: its threads, and all that they started.

use std::collections::HashSet;

use crate::event::{EventKind, Tid};
use crate::trace::Trace;

/// The tasks of these processes or tasks, and all whom they started while the trace ran.
pub fn family(trace: &Trace, roots: &[Tid]) -> HashSet<Tid> {
    let mut family: HashSet<Tid> = roots.iter().copied().collect();
    family
        .extend(trace.processes().iter().filter(|(_, process)| roots.contains(process)).map(|(tid, _)| *tid));
    // Parents come before their children, so one pass is enough.
    for event in trace.events() {
        if let EventKind::Fork { parent, child } = event.what
            && family.contains(&parent)
        {
            family.insert(child);
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, trace};

    #[test]
    fn children_of_children_belong_to_it() {
        let fork = |time, parent, child| event(time, 0, parent, EventKind::Fork { parent, child });
        let trace = trace(vec![fork(1, 1, 2), fork(2, 5, 6), fork(3, 2, 3)]);
        let mut family: Vec<_> = family(&trace, &[1]).into_iter().collect();
        family.sort_unstable();
        assert_eq!(family, [1, 2, 3]);
    }
}
