//! The targets that can be named without being looked for: what ssh's configuration and the adb server
//! know.

use std::path::PathBuf;

use crate::adb;
use crate::address::Address;
use crate::session::Ways;

/// This machine, the guest, the hosts of ssh's configuration by name, and the devices of the adb server.
/// None of them is asked whether it is there.
pub fn known() -> Vec<Address> {
    let mut all = vec![Address::Local, Address::Guest];
    let own = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ssh/config"));
    let config = Ways::of_environment().ssh_config.or_else(own);
    let text = config.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    all.extend(hosts(&text).filter_map(|host| format!("ssh://{host}").parse().ok()));
    all.extend(adb::devices().into_iter().filter_map(|serial| format!("adb://{serial}").parse().ok()));
    all
}

/// The names behind `Host` that are no patterns, see ssh_config(5).
fn hosts(config: &str) -> impl Iterator<Item = &str> {
    config
        .lines()
        .filter_map(|line| {
            let (word, rest) = line.trim().split_once([' ', '\t', '='])?;
            word.eq_ignore_ascii_case("host").then_some(rest)
        })
        .flat_map(|names| names.split([' ', '\t', '=']))
        .filter(|name| !name.is_empty() && !name.contains(['*', '?', '!']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_no_hosts() {
        let config =
            "Host *\n  User me\nhost lab-1 lab-2 !no\n# Host old\nHost=eq\nHostName x\nHost dev-??\n";
        assert_eq!(hosts(config).collect::<Vec<_>>(), ["lab-1", "lab-2", "eq"]);
    }

    #[test]
    fn this_machine_and_a_guest_are_always_known() {
        assert!(known().starts_with(&[Address::Local, Address::Guest]));
    }
}
