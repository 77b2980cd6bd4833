//! The name of a target: `local`, `guest`, `ssh://[user@]host[:port]`, `adb://serial`.

use std::fmt;
use std::str::FromStr;

use crate::error::TargetError;

/// Which machine, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    Local,
    /// A QEMU guest with the distribution's kernel, booted for the session.
    Guest,
    /// A machine that the system's ssh reaches, with the user's configuration, agent and jump hosts.
    Ssh {
        /// What ssh is told: a name of the configuration, or `user@host`.
        destination: String,
        /// The port, if it is not that of the configuration.
        port: Option<u16>,
    },
    /// An Android device that the adb server knows.
    Adb {
        /// Its serial number, as `adb devices` prints it.
        serial: String,
    },
}

impl FromStr for Address {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let bad = |why: &str| TargetError::Address { text: text.to_owned(), why: why.to_owned() };
        match text {
            "local" => return Ok(Address::Local),
            "guest" => return Ok(Address::Guest),
            _ => {}
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| bad("it is none of local, guest, ssh://HOST, adb://SERIAL"))?;
        // What begins with a dash would be an option of ssh; a blank ends a word of a service's name.
        let sound = |name: &str| {
            !name.is_empty()
                && !name.starts_with('-')
                && name.chars().all(|c| c.is_ascii_graphic() && !"'\"\\`$;&|<>".contains(c))
        };
        match scheme {
            "ssh" => {
                let rest = rest.strip_suffix('/').unwrap_or(rest);
                let (destination, port) = match rest.rsplit_once(':') {
                    // A bare IPv6 address has colons of its own.
                    Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                        let port = port.parse().ok().filter(|port| *port > 0);
                        (host, Some(port.ok_or_else(|| bad("its port is no number from 1 to 65535"))?))
                    }
                    _ => (rest, None),
                };
                let destination = destination.replace(['[', ']'], "");
                if !sound(&destination) || destination.contains('/') {
                    return Err(bad("it needs a host: ssh://[user@]host[:port]"));
                }
                Ok(Address::Ssh { destination, port })
            }
            "adb" if sound(rest) => Ok(Address::Adb { serial: rest.to_owned() }),
            "adb" => Err(bad("it needs a serial number, as `adb devices` prints it")),
            _ => Err(bad("its scheme is neither ssh nor adb")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Local => f.write_str("local"),
            Address::Guest => f.write_str("guest"),
            Address::Ssh { destination, port: None } => write!(f, "ssh://{destination}"),
            Address::Ssh { destination, port: Some(port) } if destination.contains(':') => {
                let (user, host) =
                    destination.rsplit_once('@').map_or(("", destination.as_str()), |both| both);
                let at = if user.is_empty() { "" } else { "@" };
                write!(f, "ssh://{user}{at}[{host}]:{port}")
            }
            Address::Ssh { destination, port: Some(port) } => write!(f, "ssh://{destination}:{port}"),
            Address::Adb { serial } => write!(f, "adb://{serial}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in
            ["local", "guest", "ssh://lab", "ssh://me@lab:2222", "ssh://me@[::1]:22", "adb://emulator-5554"]
        {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        let ssh = |destination: &str, port| Address::Ssh { destination: destination.to_owned(), port };
        assert_eq!("ssh://::1".parse::<Address>().expect("an address"), ssh("::1", None));
        assert_eq!("ssh://a/".parse::<Address>().expect("an address"), ssh("a", None));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "lab",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://a:0",
            "ssh://a:x",
            "ssh://a/b",
            "ssh://a;b",
            "adb://",
            "adb://a b",
            "telnet://a",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in "\\PC{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>().expect("its own text"), address);
            }
        }
    }
}
