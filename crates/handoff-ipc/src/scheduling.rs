//! How the threads that serve an object are scheduled.

use handoff_placement::Priority;

/// How the threads that serve an object are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// The least urgent priority that a call is served at; `None` for the thread's own.
    pub floor: Option<Priority>,
    /// A caller that is more urgent lends its policy, priority and nice to the thread.
    pub inherit: bool,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling { floor: None, inherit: true }
    }
}

impl Scheduling {
    /// What a call by `caller` is served at, on a thread whose own priority is `base`.
    pub fn effective(&self, caller: Option<Priority>, base: Priority) -> Priority {
        let floor = match self.floor {
            Some(floor) if floor.more_urgent_than(base) => floor,
            _ => base,
        };
        match caller {
            Some(caller) if self.inherit && caller.more_urgent_than(floor) => caller,
            _ => floor,
        }
    }
}
