//! What is said about a service when it is registered, and what is told of it.

use std::ops::BitOr;

use crate::context::Context;
use crate::parcel::{Nullable, Parcelable, Reader, Writer};
use crate::{Error, ExceptionCode, Result, Status};

/// Longest name, in bytes (as in Android's servicemanager).
pub const MAX_NAME: usize = 127;

/// Longest name of an interface that is kept.
pub(super) const MAX_INTERFACE: usize = 255;

/// Names that may be registered in all, by whomever.
pub(super) const MAX_NAMES: usize = 1 << 16;

/// Checks a service's name: 1 to [`MAX_NAME`] letters, digits and `_ - . / : @` (AIDL's instances
/// have a slash, HIDL's an `@` and colons).
///
/// # Errors
/// An illegal-argument [`Status`] that says what is wrong.
pub fn check_name(name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "a service's name is empty".to_owned()
    } else if name.len() > MAX_NAME {
        format!("a service's name has {} bytes; {MAX_NAME} are the most", name.len())
    } else {
        let fine = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
        match name.chars().find(|c| !fine(*c)) {
            None => return Ok(()),
            Some(bad) => format!(
                "a service's name has {bad:?} in it; letters, digits and _ - . / : @ are allowed: {name:?}"
            ),
        }
    };
    Err(Error::Status(Status::new(ExceptionCode::IllegalArgument, fault)))
}

/// Checks what a process says is the interface of its service. It stands in everybody's list of services.
pub(super) fn check_interface(name: &str) -> Result<()> {
    let fault = if name.len() > MAX_INTERFACE {
        format!("an interface's name has more than {MAX_INTERFACE} bytes")
    } else if name.chars().any(char::is_control) {
        format!("an interface's name has control characters in it: {name:?}")
    } else {
        return Ok(());
    };
    Err(Error::Status(Status::new(ExceptionCode::IllegalArgument, fault)))
}

/// When a service is dumped for a bug report (`IServiceManager.DUMP_FLAG_PRIORITY_*`): a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DumpPriority(i32);

impl DumpPriority {
    /// Within seconds.
    pub const CRITICAL: Self = DumpPriority(1);
    /// Soon.
    pub const HIGH: Self = DumpPriority(2);
    /// With everything else.
    pub const NORMAL: Self = DumpPriority(4);
    /// Nothing was said.
    pub const DEFAULT: Self = DumpPriority(8);
    /// Any of them.
    pub const ALL: Self = DumpPriority(15);

    /// From the flags of a request; others than those above are left out.
    pub fn from_bits(bits: i32) -> Self {
        DumpPriority(bits & Self::ALL.0)
    }

    /// As flags.
    pub fn bits(self) -> i32 {
        self.0
    }

    /// True if the two sets share a flag.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Default for DumpPriority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl BitOr for DumpPriority {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        DumpPriority(self.0 | other.0)
    }
}

/// What is said about a service when it is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceOptions {
    /// The context it belongs to: whether callers lend it their real-time priority, for one.
    pub context: Context,
    /// When it is dumped.
    pub dump_priority: DumpPriority,
    /// Whether Android's isolated processes may find it; kept for the kernel driver's manager.
    pub allow_isolated: bool,
    /// Takes the name from a living process that has it, until this one ends: then that process has it again. Without
    /// it the registration is refused. Android's own manager always lets the last one have a name.
    pub replace: bool,
}

impl ServiceOptions {
    /// Of this context.
    pub fn of(context: Context) -> Self {
        ServiceOptions { context, ..Self::default() }
    }

    /// With the name taken from whoever has it: [`ServiceOptions::replace`].
    #[must_use]
    pub fn replacing(self) -> Self {
        ServiceOptions { replace: true, ..self }
    }

    /// Of hardware abstraction.
    pub fn hardware() -> Self {
        Self::of(Context::Hardware)
    }
}

/// Other processes that have references to an object, without the service manager's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clients {
    /// Those that have one now, and introductions to it that are not taken up yet, of which one process may have several.
    pub now: usize,
    /// Times that one was given its first one: it grows where somebody came and went unseen.
    pub so_far: u64,
}

/// What the manager tells of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceInfo {
    /// Its name.
    pub name: String,
    /// The interface that its process gave at the registration; empty where it gave none.
    pub interface: String,
    /// The process that registered it; 0 where the manager did not tell.
    pub pid: u32,
    /// That process's effective user; `None` where the manager did not tell.
    pub uid: Option<u32>,
    /// The context it belongs to.
    pub context: Context,
    /// When it is dumped.
    pub dump_priority: DumpPriority,
}

impl Parcelable for ServiceInfo {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_sized(|to| {
            to.write_string16(&self.name)?;
            to.write_string16(&self.interface)?;
            to.write(&self.pid)?;
            to.write(&self.uid.map_or(-1, i64::from))?;
            to.write_string16(self.context.name())?;
            to.write(&self.dump_priority.bits())
        })
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_sized(|from| {
            Ok(ServiceInfo {
                name: from.read()?,
                interface: from.read()?,
                pid: from.read()?,
                uid: u32::try_from(from.read::<i64>()?).ok(),
                context: from.read::<String>()?.parse()?,
                dump_priority: DumpPriority::from_bits(from.read()?),
            })
        })
    }
}

impl Nullable for ServiceInfo {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::SharedBytes;

    #[test]
    fn names_have_a_length_and_an_alphabet() {
        for good in ["a", "media.player", "android.hardware.light@2.0::ILight/default", &"x".repeat(127)] {
            check_name(good).unwrap();
        }
        for (bad, why) in [
            ("", "empty"),
            (&*"x".repeat(128), "128 bytes"),
            ("a b", "' '"),
            ("a\n", "'\\n'"),
            ("é", "'é'"),
            ("a\0", "'\\0'"),
            ("*", "'*'"),
        ] {
            let error = check_name(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad:?}: {error}");
        }
    }

    #[test]
    fn an_interface_s_name_has_a_length_and_nothing_that_moves_a_cursor() {
        for good in ["", "android.hardware.light@2.0::ILight", "grün", &"x".repeat(255)] {
            check_interface(good).unwrap();
        }
        for bad in ["a\u{1b}[2J", "a\nb", "\u{9b}2J", &"x".repeat(256)] {
            let error = check_interface(bad).unwrap_err().to_string();
            assert!(error.contains("interface's name"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn what_is_told_of_a_service_arrives() {
        let info = ServiceInfo {
            name: "camera/0".into(),
            interface: "a.ICamera".into(),
            pid: 7,
            uid: Some(u32::MAX),
            context: Context::Vendor,
            dump_priority: DumpPriority::HIGH | DumpPriority::NORMAL,
        };
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        let unknown = ServiceInfo { uid: None, ..info.clone() };
        writer.write_slice(&[info.clone(), unknown.clone()]).unwrap();
        drop(writer.finish());
        let back: Vec<ServiceInfo> = Reader::new(SharedBytes::from_slice(&bytes)).read().unwrap();
        assert_eq!(back, [info, unknown]);
    }

    #[test]
    fn dump_priorities_are_sets() {
        assert!(DumpPriority::from_bits(-1).intersects(DumpPriority::CRITICAL));
        assert_eq!(DumpPriority::from_bits(0x30), DumpPriority::from_bits(0));
    }
}
