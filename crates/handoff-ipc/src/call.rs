//! One transaction: how its caller makes it, and what its service learns of it.

use std::time::{Duration, Instant};

use handoff_placement::Priority;

use crate::code::Code;
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::interface::InterfaceId;

/// The call that a service serves: who makes it, and how.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) identity: CallingIdentity,
    pub(crate) code: Code,
    pub(crate) engine: EngineKind,
    // Packed, and looked into when somebody asks; 0 where the engine does not carry it.
    pub(crate) priority: u32,
    pub(crate) oneway: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) driver_details: Option<Box<DriverDetails>>,
}

/// What only the kernel's driver tells of a call, and seldom.
#[derive(Debug, Clone, Default)]
pub(crate) struct DriverDetails {
    pub(crate) work_source: Option<u32>,
    pub(crate) security_context: Option<String>,
}

impl Call {
    /// Which transaction of the interface it is.
    #[inline]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Who calls.
    pub fn identity(&self) -> CallingIdentity {
        self.identity
    }

    /// Which engine brought the call.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }

    /// The caller's own scheduling when it called; `None` where the engine does not carry it.
    pub fn caller_priority(&self) -> Option<Priority> {
        Priority::unpack(self.priority)
    }

    /// True if nobody waits for the result.
    pub fn is_oneway(&self) -> bool {
        self.oneway
    }

    /// The user on whose account the caller works, where it says so ([`CallBuilder::work_source`](crate::CallBuilder::work_source)); the
    /// `binder` engine carries it.
    pub fn work_source(&self) -> Option<u32> {
        self.driver_details.as_ref()?.work_source
    }

    /// The caller's security context, such as SELinux's, for services that ask for it with
    /// [`Service::wants_security_context`](crate::Service::wants_security_context); the `binder` engine tells it.
    pub fn security_context(&self) -> Option<&str> {
        self.driver_details.as_ref()?.security_context.as_deref()
    }

    /// When the caller stops to wait. A service that works long may look at it and give up.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// A transaction on its way out.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutCall {
    /// Number of the transaction.
    pub code: Code,
    /// Nobody waits for it.
    pub oneway: bool,
    /// How long the caller waits.
    pub deadline: Option<Duration>,
    /// Buffers are cleared when they are freed.
    pub clear_buffers: bool,
    /// The user on whose account it is made.
    pub work_source: Option<u32>,
    /// The interface that the caller means the object to have.
    pub interface: Option<InterfaceId>,
}

impl OutCall {
    /// A synchronous call of this number.
    #[inline]
    pub(crate) fn of(code: Code) -> Self {
        OutCall { code, ..OutCall::default() }
    }
}
