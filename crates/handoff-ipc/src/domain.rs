//! The worlds that services live in, each with its own rules (and on Android with its own driver).

use std::fmt;
use std::str::FromStr;

use crate::{Error, ExceptionCode, Status};

/// Which world a service belongs to: one word in its registration, and the context of the Binder
/// driver that a process opens.
///
/// | | framework, vendor | hardware |
/// |---|---|---|
/// | device | `/dev/binder`, `/dev/vndbinder` | `/dev/hwbinder` |
/// | arguments | copied into the parcel | large ones are borrowed where they are (scatter-gather) |
/// | callers lend | their nice value | their policy, priority and nice value |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Domain {
    /// Applications and the framework (`/dev/binder`).
    #[default]
    Framework = 0,
    /// Hardware abstraction (`/dev/hwbinder`).
    Hardware = 1,
    /// Between a vendor's own processes (`/dev/vndbinder`).
    Vendor = 2,
}

impl Domain {
    /// All of them.
    pub const ALL: [Domain; 3] = [Domain::Framework, Domain::Hardware, Domain::Vendor];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Domain::Framework => "framework",
            Domain::Hardware => "hardware",
            Domain::Vendor => "vendor",
        }
    }

    /// The name of its device, such as `hwbinder`; [`FromStr`] takes it in place of the word.
    pub fn device(self) -> &'static str {
        match self {
            Domain::Framework => "binder",
            Domain::Hardware => "hwbinder",
            Domain::Vendor => "vndbinder",
        }
    }

    /// Whether a caller lends its real-time policy to a service of this domain, not its nice value only.
    pub fn lends_realtime(self) -> bool {
        self == Domain::Hardware
    }

    /// Whether buffers travel from where they are, without being copied into the parcel, on an engine
    /// that can do so.
    pub fn gathers(self) -> bool {
        self == Domain::Hardware
    }

    /// The domain that was stored as a number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Domain::ALL.into_iter().find(|domain| *domain as u8 == number)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no [`Domain`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no domain is called {0:?}: framework, hardware or vendor (or their devices: binder, hwbinder, vndbinder)"
)]
pub struct UnknownDomain(String);

impl From<UnknownDomain> for Error {
    fn from(unknown: UnknownDomain) -> Self {
        Error::Status(Status::new(ExceptionCode::IllegalArgument, unknown.to_string()))
    }
}

impl FromStr for Domain {
    type Err = UnknownDomain;

    fn from_str(text: &str) -> Result<Self, UnknownDomain> {
        Domain::ALL
            .into_iter()
            .find(|domain| domain.name() == text || domain.device() == text)
            .ok_or_else(|| UnknownDomain(text.to_owned()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn domains_have_words() {
        for domain in Domain::ALL {
            assert_eq!(domain.name().parse::<Domain>().unwrap(), domain);
            assert_eq!(domain.device().parse::<Domain>().unwrap(), domain);
            assert_eq!(Domain::from_number(domain as u8), Some(domain));
        }
        assert_eq!(Domain::from_number(3), None);
        assert!("kernel".parse::<Domain>().unwrap_err().to_string().contains("hardware"));
    }
}
