//! Options of the TCP workloads.

use std::collections::BTreeMap;

use anyhow::Context as _;
use handoff_workloads::{Link, Path, Queue, Workload, tcp_rr, tcp_stream};

use crate::commands::recording::Watch;

// What lies between the two ends.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Link")]
struct LinkOptions {
    /// loopback, or namespaces: two network namespaces over a veth pair (needs root, `ip` and `tc`).
    #[arg(long, default_value = "loopback", value_parser = ["loopback", "namespaces"])]
    path: String,
    /// What holds packets back between namespaces: tbf, htb or none.
    #[arg(long, default_value = "tbf", value_parser = ["tbf", "htb", "none"])]
    queue: String,
    /// Rate of the queue.
    #[arg(long, default_value_t = 1000, value_name = "MBIT/S")]
    rate: u32,
    /// Congestion control of the sender; empty for the system's default.
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    congestion: String,
    /// Set a sysctl below net. in the sender's namespace. May be given several times.
    #[arg(long = "sysctl", value_name = "NAME=VALUE")]
    sysctls: Vec<String>,
}

impl LinkOptions {
    fn link(&self) -> anyhow::Result<Link> {
        let pair = |text: &String| {
            let (name, value) =
                text.split_once('=').with_context(|| format!("--sysctl {text:?} is not NAME=VALUE"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        Ok(Link {
            path: if self.path == "namespaces" { Path::Namespaces } else { Path::Loopback },
            queue: match self.queue.as_str() {
                "htb" => Queue::Htb,
                "none" => Queue::None,
                _ => Queue::Tbf,
            },
            rate_mbit: self.rate,
            congestion: self.congestion.clone(),
            sysctls: self.sysctls.iter().map(pair).collect::<anyhow::Result<BTreeMap<_, _>>>()?,
        })
    }
}

const STREAM: &str = "\
Examples:
  handoff measure tcp-stream --seconds 3
  handoff measure tcp-stream --path namespaces --sysctl net.ipv4.tcp_autocorking=0
  handoff measure tcp-stream --path namespaces --queue htb --rate 50 --nodelay";

/// Measure TCP with small writes: throughput, CPU time a megabyte, and what the stack counted.
#[derive(Debug, clap::Args)]
#[command(after_help = STREAM)]
pub(in crate::commands) struct Stream {
    /// Bytes of one write.
    #[arg(short, long, default_value_t = 128)]
    message: usize,
    /// Connections, each with a process at either end.
    #[arg(short, long, default_value_t = 5)]
    flows: usize,
    /// How long the senders write.
    #[arg(short, long, default_value_t = 10.0)]
    seconds: f64,
    /// Turn Nagle's algorithm off.
    #[arg(long)]
    nodelay: bool,
    #[command(flatten)]
    link: LinkOptions,
}

impl Stream {
    pub(super) fn workload(&self) -> anyhow::Result<Workload> {
        let Self { message, flows, seconds, nodelay, ref link } = *self;
        Ok(Workload::TcpStream(tcp_stream::Parameters {
            message,
            flows,
            seconds,
            nodelay,
            link: link.link()?,
        }))
    }
}

const RR: &str = "\
Examples:
  handoff measure tcp-rr
  handoff measure tcp-rr --request 128 --response 4096 --flows 4
  handoff measure tcp-rr --path namespaces --queue none";

/// Measure a request and a response over TCP, again and again.
#[derive(Debug, clap::Args)]
#[command(after_help = RR)]
pub(in crate::commands) struct Rr {
    /// Bytes of a request.
    #[arg(long, default_value_t = 1)]
    request: usize,
    /// Bytes of a response.
    #[arg(long, default_value_t = 1)]
    response: usize,
    /// Connections, each with a process at either end.
    #[arg(short, long, default_value_t = 1)]
    flows: usize,
    /// Transactions of each connection.
    #[arg(short = 'n', long, default_value_t = 20_000)]
    transactions: usize,
    #[command(flatten)]
    link: LinkOptions,
    #[command(flatten)]
    watch: Watch,
}

impl Rr {
    pub(super) fn workload(&self) -> anyhow::Result<Workload> {
        let Self { request, response, flows, transactions, ref link, ref watch } = *self;
        let (link, watch) = (link.link()?, watch.get()?);
        Ok(Workload::TcpRr(tcp_rr::Parameters { request, response, flows, transactions, link, watch }))
    }
}
