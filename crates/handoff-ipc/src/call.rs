//! One transaction: how its caller makes it, and what its service learns of it.

use std::time::{Duration, Instant};

use handoff_placement::Priority;

use crate::code::Code;
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::interface::InterfaceId;

/// One transaction, seen by the service.
#[derive(Debug)]
pub struct Call<'a> {
    pub(crate) identity: CallingIdentity,
    pub(crate) engine: EngineKind,
    // Packed, and looked into when somebody asks; 0 where the engine does not carry it.
    pub(crate) priority: u32,
    pub(crate) oneway: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) driver_details: Option<Box<DriverDetails>>,
    pub(crate) lifetime: std::marker::PhantomData<&'a ()>,
}

/// What only the kernel's driver tells of a call, and seldom.
#[derive(Debug, Default)]
pub(crate) struct DriverDetails {
    pub(crate) work_source: Option<u32>,
    pub(crate) security_context: Option<String>,
}

impl Call<'_> {
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

    /// The user on whose account the caller works, where it says so ([`CallOptions::work_source`]); the
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

/// How one call is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions {
    /// The call fails with [`Error::DeadlineExpired`](crate::Error::DeadlineExpired) when its reply has not come by then.
    pub deadline: Option<Duration>,
    /// What the call and its reply carry is secret: on the `binder` engine, the kernel and this process clear
    /// their buffers when they are freed.
    pub clear_buffers: bool,
    /// The user on whose account this is done, if it is not the caller's own: a uid that the `binder`
    /// engine carries, as Android's battery statistics want it.
    pub work_source: Option<u32>,
    /// The interface that the caller means the object to have: another one is refused with
    /// [`Error::WrongInterface`](crate::Error::WrongInterface) and nothing is sent. Generated proxies state theirs.
    pub interface: Option<InterfaceId>,
}

impl CallOptions {
    /// With a deadline.
    pub fn within(deadline: Duration) -> Self {
        CallOptions { deadline: Some(deadline), ..CallOptions::default() }
    }

    /// Of an interface that the caller means.
    pub const fn of(interface: InterfaceId) -> Self {
        CallOptions { deadline: None, clear_buffers: false, work_source: None, interface: Some(interface) }
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
    pub(crate) fn of(code: Code) -> Self {
        OutCall { code, ..OutCall::default() }
    }

    /// [`OutCall::of`], with what the caller asked for.
    pub(crate) fn new(code: Code, options: CallOptions) -> Self {
        let CallOptions { deadline, clear_buffers, work_source, interface } = options;
        OutCall { code, oneway: false, deadline, clear_buffers, work_source, interface }
    }
}
