//! The way between the two ends of a TCP workload, and what the network stack counts.

pub(crate) mod namespace;
pub(crate) mod nstat;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::measurement::Parameter;
use namespace::Namespace;

/// What lies between sender and receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    pub path: Path,
    /// What holds packets back on the sender's side of [`Path::Namespaces`].
    pub queue: Queue,
    /// Rate of the queue, in megabits (10^6) a second.
    pub rate_mbit: u32,
    /// Congestion control of the sender, such as `cubic`; empty for the system's default.
    pub congestion: String,
    /// Sysctls below `net.` to set in the sender's namespace, such as `net.ipv4.tcp_autocorking = "0"`.
    /// They end with the namespace, so there is nothing to put back.
    pub sysctls: BTreeMap<String, String>,
}

/// Where the two ends of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Both in this network namespace, over 127.0.0.1. No queue ever forms there.
    #[default]
    Loopback,
    /// Each in a network namespace of its own, over a veth pair. Needs root and the `ip` and `tc` commands.
    Namespaces,
}

/// The queueing discipline of the sender's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Token bucket filter.
    #[default]
    Tbf,
    /// Hierarchical token bucket.
    Htb,
    /// None: as fast as the CPU.
    None,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            path: Path::default(),
            queue: Queue::default(),
            rate_mbit: 1000,
            congestion: "cubic".to_owned(),
            sysctls: BTreeMap::new(),
        }
    }
}

impl Link {
    /// Checks everything that can be known before anything is made.
    pub(crate) fn check(&self) -> Result<()> {
        in_range("rate", self.rate_mbit, 1..=100_000)?;
        if self.path == Path::Loopback && !self.sysctls.is_empty() {
            let problem = "they would change this machine; they are for --path namespaces, where they end with \
                           the namespace (set a sysctl of the machine as a variant of an experiment)";
            return Err(Error::parameter("sysctl", problem));
        }
        self.sysctls.keys().try_for_each(|name| sysctl_path(name).map(drop))
    }

    /// The parameters of a workload with those of the link that count.
    pub(crate) fn with(&self, mut parameters: BTreeMap<String, Parameter>) -> BTreeMap<String, Parameter> {
        parameters.extend(Parameter::of_fields(self));
        if self.path == Path::Loopback {
            parameters.remove("queue");
        }
        if self.path == Path::Loopback || self.queue == Queue::None {
            parameters.remove("rate_mbit");
        }
        parameters.extend(self.sysctls.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
        parameters
    }
}

/// The file of a sysctl below `net.`; anything else is refused, because it is not of one namespace.
fn sysctl_path(name: &str) -> Result<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    if parts.len() < 2 || parts[0] != "net" || !parts.iter().all(plain) {
        let problem = format!("{name:?} is not a name such as net.ipv4.tcp_autocorking");
        return Err(Error::parameter("sysctl", problem));
    }
    Ok(format!("/proc/sys/{}", parts.join("/")))
}

/// A link that exists. What was made for it goes when it is dropped, or with this process.
#[derive(Debug)]
pub(crate) struct Network {
    congestion: String,
    ends: Option<(Namespace, Namespace)>,
}

/// A connection, seen from both ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 198, 51, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 198, 51, 2);
const CLIENT_DEVICE: &str = "handoff0";
const SERVER_DEVICE: &str = "handoff1";

impl Network {
    /// Makes what the link needs.
    pub(crate) fn new(link: &Link) -> Result<Self> {
        link.check()?;
        let ends = match link.path {
            Path::Loopback => None,
            Path::Namespaces => Some(join_two(link)?),
        };
        Ok(Network { congestion: link.congestion.clone(), ends })
    }

    /// Opens `count` connections.
    pub(crate) fn connect(&self, count: usize, nodelay: bool) -> Result<Vec<Connection>> {
        let cannot = |error: std::io::Error| Error::io("cannot connect the two ends", error);
        let address = if self.ends.is_some() { SERVER } else { Ipv4Addr::LOCALHOST };
        let listener =
            self.at_server(|| TcpListener::bind(SocketAddrV4::new(address, 0)))?.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        (0..count).map(|_| self.connect_one(&listener, address, nodelay)).collect()
    }

    fn connect_one(&self, listener: &TcpListener, address: SocketAddr, nodelay: bool) -> Result<Connection> {
        let cannot = |error: std::io::Error| Error::io("cannot connect the two ends", error);
        let client = self.at_client(|| TcpStream::connect(address))?.map_err(cannot)?;
        // On the loopback any program may connect to the listener: take no other connection for ours.
        let own = client.local_addr().map_err(cannot)?;
        let server = loop {
            let (server, peer) = listener.accept().map_err(cannot)?;
            if peer == own {
                break server;
            }
        };
        if !self.congestion.is_empty() {
            sockopt::set_tcp_congestion(&client, &self.congestion).map_err(|error| {
                let problem = format!(
                    "the kernel does not accept {:?} ({error}); see net.ipv4.tcp_available_congestion_control",
                    self.congestion
                );
                Error::parameter("congestion", problem)
            })?;
        }
        for end in [&client, &server] {
            end.set_nodelay(nodelay).map_err(cannot)?;
        }
        Ok(Connection { client, server })
    }

    /// The counters of the client's network stack.
    pub(crate) fn counters(&self) -> Result<nstat::Counters> {
        self.at_client(nstat::Counters::read)?
    }

    fn at_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        match &self.ends {
            Some((client, _)) => client.run(work),
            None => Ok(work()),
        }
    }

    fn at_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        match &self.ends {
            Some((_, server)) => server.run(work),
            None => Ok(work()),
        }
    }
}

/// Two namespaces, a veth pair between them, and a queue at the client's end.
fn join_two(link: &Link) -> Result<(Namespace, Namespace)> {
    let (client, server) = (Namespace::new()?, Namespace::new()?);
    let other = format!("/proc/{}/fd/{}", std::process::id(), server.as_raw_fd());
    client.run(|| {
        command(&format!("ip link add {CLIENT_DEVICE} type veth peer name {SERVER_DEVICE} netns {other}"))?;
        up(CLIENT_DEVICE, CLIENT)?;
        for line in queue_commands(link) {
            command(&line)?;
        }
        link.sysctls.iter().try_for_each(|(name, value)| {
            std::fs::write(sysctl_path(name)?, value)
                .map_err(|error| Error::io(format!("cannot set {name} to {value:?} in the namespace"), error))
        })
    })??;
    server.run(|| up(SERVER_DEVICE, SERVER))??;
    Ok((client, server))
}

fn up(device: &str, address: Ipv4Addr) -> Result<()> {
    command("ip link set lo up")?;
    command(&format!("ip addr add {address}/30 dev {device}"))?;
    command(&format!("ip link set {device} up"))
}

fn queue_commands(link: &Link) -> Vec<String> {
    let (device, rate) = (CLIENT_DEVICE, link.rate_mbit);
    match link.queue {
        Queue::None => vec![],
        Queue::Tbf => {
            vec![format!("tc qdisc add dev {device} root tbf rate {rate}mbit burst 128kb latency 50ms")]
        }
        Queue::Htb => vec![
            format!("tc qdisc add dev {device} root handle 1: htb default 1"),
            format!("tc class add dev {device} parent 1: classid 1:1 htb rate {rate}mbit burst 128kb"),
        ],
    }
}

/// Runs one command, in the network namespace of this thread.
fn command(line: &str) -> Result<()> {
    let failed = |message: String| Error::Command { command: line.to_owned(), message };
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => failed(format!("{program} is not installed; it is part of iproute2")),
        _ => failed(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root, require_tool};
    use std::io::{Read as _, Write as _};

    #[test]
    fn only_sysctls_of_the_network_are_accepted() {
        assert_eq!(
            sysctl_path("net.ipv4.tcp_autocorking").expect("good"),
            "/proc/sys/net/ipv4/tcp_autocorking"
        );
        for bad in ["", "net", "kernel.sysrq", "net.ipv4.../../kernel", "net.ipv4.a/b", "net..x"] {
            assert!(sysctl_path(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_sysctl_on_loopback_is_refused() {
        let sysctls = BTreeMap::from([("net.ipv4.tcp_autocorking".to_owned(), "0".to_owned())]);
        let link = Link { sysctls, ..Link::default() };
        assert!(Network::new(&link).expect_err("refused").to_string().contains("would change this machine"));
    }

    #[test]
    fn an_unknown_congestion_control_is_named() {
        let link = Link { congestion: "no-such".into(), ..Link::default() };
        let error =
            Network::new(&link).expect("loopback").connect(1, false).expect_err("refused").to_string();
        assert!(error.contains("no-such") && error.contains("tcp_available"), "{error}");
    }

    fn exchange(network: &Network) {
        let mut connections = network.connect(3, true).expect("connected");
        for connection in &mut connections {
            connection.client.write_all(b"over").expect("sent");
            let mut got = [0; 4];
            connection.server.read_exact(&mut got).expect("received");
            assert_eq!(&got, b"over");
        }
    }

    #[test]
    fn both_ends_of_the_loopback_are_connected() {
        exchange(&Network::new(&Link::default()).expect("loopback"));
    }

    #[test]
    fn namespaces_are_joined_and_leave_nothing() {
        require!(require_root());
        require!(require_tool("ip"));
        require!(require_tool("tc"));
        let devices = || std::fs::read_dir("/sys/class/net").expect("sysfs").count();
        let before = devices();
        for queue in [Queue::Tbf, Queue::Htb, Queue::None] {
            let sysctls = BTreeMap::from([("net.ipv4.tcp_autocorking".to_owned(), "0".to_owned())]);
            let link = Link { path: Path::Namespaces, queue, sysctls, ..Link::default() };
            let network = Network::new(&link).expect("made");
            exchange(&network);
            let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_autocorking").expect("a sysctl");
            assert_eq!(network.at_client(read).expect("runs there").trim(), "0");
            let sent = network.counters().expect("counters").get("TcpOutSegs").expect("listed");
            assert!(sent > 0, "the namespace has counters of its own");
        }
        assert_eq!(devices(), before);
    }
}
