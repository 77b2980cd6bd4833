//! The contexts that services belong to, each with its own rules (and on Android with its own driver).

use std::fmt;
use std::str::FromStr;

use crate::{Error, ExceptionCode, Status};

/// The context that a service belongs to: one word in its registration, and the context of the Binder
/// driver that a process opens.
///
/// | | framework, vendor | hardware |
/// |---|---|---|
/// | device | `/dev/binder`, `/dev/vndbinder` | `/dev/hwbinder` |
/// | arguments | copied into the parcel | large ones are borrowed where they are (scatter-gather) |
/// | callers lend | their nice value | their policy, priority and nice value |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Context {
    /// Applications and the framework (`/dev/binder`).
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "binder"))]
    Framework = 0,
    /// Hardware abstraction (`/dev/hwbinder`).
    #[cfg_attr(feature = "serde", serde(rename = "hwbinder"))]
    Hardware = 1,
    /// Between a vendor's own processes (`/dev/vndbinder`).
    #[cfg_attr(feature = "serde", serde(rename = "vndbinder"))]
    Vendor = 2,
}

impl Context {
    /// All of them.
    pub const ALL: [Context; 3] = [Context::Framework, Context::Hardware, Context::Vendor];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Context::Framework => "framework",
            Context::Hardware => "hardware",
            Context::Vendor => "vendor",
        }
    }

    /// The name of its device, such as `hwbinder`; [`FromStr`] takes it in place of the word.
    pub fn device(self) -> &'static str {
        match self {
            Context::Framework => "binder",
            Context::Hardware => "hwbinder",
            Context::Vendor => "vndbinder",
        }
    }

    /// Whether a caller lends its real-time policy to a service of this context, not its nice value only.
    pub fn lends_realtime(self) -> bool {
        self == Context::Hardware
    }

    /// Whether buffers travel from where they are, without being copied into the parcel, on an engine
    /// that can do so.
    pub fn gathers(self) -> bool {
        self == Context::Hardware
    }

    /// The context that was stored as a number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Context::ALL.into_iter().find(|context| *context as u8 == number)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no [`Context`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no context is called {0:?}: framework, hardware or vendor (or their devices: binder, hwbinder, vndbinder)"
)]
pub struct UnknownContext(String);

impl From<UnknownContext> for Error {
    fn from(unknown: UnknownContext) -> Self {
        Error::Status(Status::new(ExceptionCode::IllegalArgument, unknown.to_string()))
    }
}

impl FromStr for Context {
    type Err = UnknownContext;

    fn from_str(text: &str) -> Result<Self, UnknownContext> {
        Context::ALL
            .into_iter()
            .find(|context| context.name() == text || context.device() == text)
            .ok_or_else(|| UnknownContext(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_have_words() {
        for context in Context::ALL {
            assert_eq!(context.name().parse::<Context>().unwrap(), context);
            assert_eq!(context.device().parse::<Context>().unwrap(), context);
            assert_eq!(Context::from_number(context as u8), Some(context));
        }
        assert_eq!(Context::from_number(3), None);
        assert!("kernel".parse::<Context>().unwrap_err().to_string().contains("hardware"));
    }
}
