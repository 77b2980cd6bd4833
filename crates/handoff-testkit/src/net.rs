//! A network namespace for tests, and a link to it that can be cut.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace with an address of its own, and the link to it. Both are gone when this is dropped.
#[derive(Debug)]
pub struct Net {
    name: String,
    there: String,
}

impl Net {
    /// Makes both, with addresses that no other of this test has, in this process or in one beside it.
    #[must_use]
    pub fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let net = format!("10.{}.{}", 213 + number % 40, pid % 250);
        let this = Net { name: format!("ho{pid}-{number}"), there: format!("{net}.2") };
        let name = this.name.as_str();
        ip(&["netns", "add", name]);
        ip(&["link", "add", name, "type", "veth", "peer", "name", "there", "netns", name]);
        ip(&["addr", "add", &format!("{net}.1/24"), "dev", name]);
        ip(&["-n", name, "addr", "add", &format!("{}/24", this.there), "dev", "there"]);
        ip(&["-n", name, "link", "set", "there", "up"]);
        ip(&["-n", name, "link", "set", "lo", "up"]);
        this.up();
        this
    }

    /// The address of whoever listens in the namespace.
    pub fn there(&self) -> &str {
        &self.there
    }

    /// The command that starts another in the namespace.
    pub fn wrapper(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Cuts the link: packets no longer arrive, and nothing says so.
    pub fn down(&self) {
        ip(&["link", "set", &self.name, "down"]);
    }

    /// Restores the link.
    pub fn up(&self) {
        ip(&["link", "set", &self.name, "up"]);
    }
}

impl Default for Net {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "del", &self.name]).output());
        drop(Command::new("ip").args(["link", "del", &self.name]).output());
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
