//! Who calls, as the kernel vouches for it.

/// Who calls, as the kernel vouches for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallingIdentity {
    /// Process id in this process's namespace; 0 where it is not visible here.
    pub pid: u32,
    /// Effective user id when the connection was made.
    pub uid: u32,
    /// Effective group id when the connection was made.
    pub gid: u32,
}

/// Set in the numbers that machines have in the ledger: no process has such a one.
const MACHINE: u32 = 1 << 31;

impl CallingIdentity {
    /// Who is at the other end where the kernel does not know it (the overflow uid).
    pub(crate) const UNKNOWN: Self = CallingIdentity { pid: 0, uid: 65_534, gid: 65_534 };

    /// A machine of that number, which is one of those whom the kernel does not know.
    pub(crate) fn of_machine(number: u32) -> Self {
        CallingIdentity { pid: MACHINE | number, ..Self::UNKNOWN }
    }

    /// What anybody is told of it: the number of a machine is the ledger's affair.
    pub(crate) fn told(self) -> Self {
        if self.pid & MACHINE == 0 { self } else { Self::UNKNOWN }
    }

    /// This process, as it was when it was first asked.
    pub(crate) fn own_cached() -> Self {
        static OWN: std::sync::LazyLock<CallingIdentity> = std::sync::LazyLock::new(CallingIdentity::own);
        *OWN
    }

    /// Whether both are one process. Of those in pid namespaces out of sight only the user is known.
    pub(crate) fn is_same_process(self, other: CallingIdentity) -> bool {
        if self.pid == 0 && other.pid == 0 { self.uid == other.uid } else { self.pid == other.pid }
    }

    /// This process.
    pub fn own() -> Self {
        CallingIdentity {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }
}
