//! A real Slurm for tests, with the configuration that `contrib/slurm` documents: its authentication, plugins,
//! timers, prolog and epilog. Only what depends on a site is replaced: names of hosts, ports, hardware and paths.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The files that are documented.
const CONTRIB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/slurm");

/// How long it may take to come up: a loaded machine takes long.
const LIMIT: Duration = Duration::from_secs(300);

/// A Slurm on loopback. Its jobs and daemons end when this is dropped.
#[derive(Debug)]
pub struct Slurm {
    folder: PathBuf,
    names: Vec<String>,
    munge: Option<Child>,
    controller: Option<Child>,
    nodes: Vec<Option<Child>>,
}

/// The nodes that the documented file names, in its order.
pub fn documented_nodes() -> Vec<String> {
    let text = fs::read_to_string(Path::new(CONTRIB).join("slurm.conf")).expect("the project's file");
    text.lines()
        .filter_map(|line| line.strip_prefix("NodeName="))
        .flat_map(|line| names(word(line)))
        .collect()
}

impl Slurm {
    /// Starts a controller and a daemon for each node of the documented file, with all that they keep in
    /// `folder`. `program` is the handoff that the prolog and the epilog find.
    #[must_use]
    pub fn start(folder: &Path, program: &Path) -> Self {
        // The controller gives up root for the user that the file names.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
        let munge = munge(folder);
        let names = documented_nodes();
        let text = configuration(folder, &ports(names.len() + 1));
        fs::write(folder.join("slurm.conf"), text).expect("written");
        let gres = fs::read_to_string(Path::new(CONTRIB).join("gres.conf")).expect("the project's file");
        fs::write(folder.join("gres.conf"), gres).expect("written");
        // Every node is this machine, whose daemons other than these have other groups.
        fs::write(folder.join("cgroup.conf"), "CgroupAutomount=no\n").expect("written");
        for script in ["handoff-prolog.sh", "handoff-epilog.sh"] {
            let text = fs::read_to_string(Path::new(CONTRIB).join(script)).expect("the project's file");
            let logs = folder.join("log");
            let text = text.replace("/var/log/handoff", logs.to_str().expect("text"));
            let path = format!("#!/bin/sh\nPATH={}:$PATH\n", program.parent().expect("a folder").display());
            fs::write(folder.join(script), text.replacen("#!/bin/sh\n", &path, 1)).expect("written");
            fs::set_permissions(folder.join(script), fs::Permissions::from_mode(0o755)).expect("ours");
        }
        fs::create_dir_all(folder.join("slurmctld")).expect("a folder");
        must(Command::new("chown").arg("slurm").arg(folder.join("slurmctld")));
        let nodes = names.iter().map(|_| None).collect();
        let mut slurm =
            Slurm { folder: folder.to_owned(), names, munge: Some(munge), controller: None, nodes };
        slurm.start_controller();
        (0..slurm.names.len()).for_each(|node| slurm.start_node(node));
        let idle = format!("{}\n", slurm.names.len());
        let end = Instant::now() + LIMIT;
        while slurm.ask("sinfo", &["--noheader", "--states=idle", "--format=%D"]) != idle {
            assert!(Instant::now() < end, "Slurm does not come up: {}", slurm.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        slurm
    }

    /// The file for `SLURM_CONF`.
    pub fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    pub fn nodes(&self) -> &[String] {
        &self.names
    }

    /// What the prolog and the epilog keep: files by the part of their name before the job's number.
    pub fn audits(&self, before: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join("log")).into_iter().flatten().flatten();
        let is_one = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(before);
        entries.filter(is_one).map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }

    /// What a program of Slurm prints.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).env("SLURM_CONF", self.config()).output();
        String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
    }

    /// The end of what the controller logs.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.folder.join("slurmctld/log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Kills the controller and starts it again.
    pub fn kill_controller(&mut self) {
        end(self.controller.take());
        self.start_controller();
    }

    /// Kills the daemon of a node, by its place in [`Slurm::nodes`], and starts it again.
    pub fn kill_node(&mut self, node: usize) {
        end(self.nodes[node].take());
        self.start_node(node);
    }

    /// What an administrator does after a crash: a launch that the death of a daemon cut short drains its
    /// node; and one that was lost with the controller is noticed when the nodes are asked what they run,
    /// which is every twentieth ping or when they are told to read their configuration again.
    pub fn mend(&self) {
        let spoilt = ["--Node", "--noheader", "--states=down,drain,fail", "--format=%N"];
        for node in self.ask("sinfo", &spoilt).lines() {
            drop(self.ask("scontrol", &["update", &format!("nodename={node}"), "state=resume"]));
        }
        drop(self.ask("scontrol", &["reconfigure"]));
    }

    fn start_controller(&mut self) {
        self.controller = Some(self.daemon("slurmctld", &["-D"]));
    }

    fn start_node(&mut self, node: usize) {
        let name = self.names[node].as_str();
        fs::create_dir_all(self.folder.join(format!("slurmd.{name}"))).expect("a folder");
        self.nodes[node] = Some(self.daemon("slurmd", &["-D", "-N", name]));
    }

    fn daemon(&self, program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.config()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // What runs would go on without daemons.
        drop(self.ask("scancel", &["--signal=KILL", "--full", "--user=root"]));
        drop(self.ask("scancel", &["--user=root"]));
        let limit = Instant::now() + Duration::from_secs(60);
        while !self.ask("squeue", &["--noheader"]).is_empty() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.nodes.iter_mut().for_each(|node| end(node.take()));
        end(self.controller.take());
        end(self.munge.take());
        for name in &self.names {
            // Where processes of jobs were kept: the daemons leave it behind.
            for group in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
                drop(fs::remove_dir(group.path().join(format!("slurm_{name}"))));
            }
        }
    }
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        drop(child.kill());
        drop(child.wait());
    }
}

/// The daemon that signs what Slurm's programs tell each other, with a key and a socket of its own.
fn munge(folder: &Path) -> Child {
    let at = |name: &str| folder.join("munge").join(name);
    fs::create_dir_all(at("")).expect("a folder");
    let mut key = vec![0; 128];
    let mut random = fs::File::open("/dev/urandom").expect("random bytes");
    std::io::Read::read_exact(&mut random, &mut key).expect("random bytes");
    fs::write(at("key"), key).expect("written");
    fs::set_permissions(at("key"), fs::Permissions::from_mode(0o400)).expect("ours");
    must(Command::new("chown").args(["-R", "munge"]).arg(at("")));
    let mut command = Command::new("setpriv");
    command.args(["--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground"]);
    for (option, name) in [
        ("socket", "socket"),
        ("key-file", "key"),
        ("log-file", "log"),
        ("pid-file", "pid"),
        ("seed-file", "seed"),
    ] {
        command.arg(format!("--{option}={}", at(name).display()));
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let limit = Instant::now() + LIMIT;
    while !at("socket").exists() {
        assert!(Instant::now() < limit, "munged does not come up in {}", folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.expect("munged starts")
}

/// The documented file for this machine.
fn configuration(folder: &Path, ports: &[u16]) -> String {
    let documented = fs::read_to_string(Path::new(CONTRIB).join("slurm.conf")).expect("the project's file");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().unwrap_or("localhost");
    // What the file tells people to take for their nodes.
    let hardware = must(Command::new("slurmd").arg("-C"));
    let hardware = String::from_utf8_lossy(&hardware.stdout).into_owned();
    let hardware = hardware.lines().next().unwrap_or_default().split_once(' ').map_or("", |(_, rest)| rest);
    let here = |path: &str| folder.join(Path::new(path).file_name().unwrap_or_default());
    let (mut text, mut next) = (String::new(), ports[1..].iter());
    for line in documented.lines() {
        let line = match line.split_once('=').unwrap_or((line, "")) {
            ("SlurmctldHost", _) => format!("SlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}", ports[0]),
            ("AuthInfo", rest) => format!("AuthInfo={rest},socket={}/munge/socket", folder.display()),
            (
                key @ ("StateSaveLocation" | "SlurmdSpoolDir" | "SlurmctldPidFile" | "SlurmdPidFile"
                | "Prolog" | "Epilog"),
                path,
            ) => format!("{key}={}", here(path).display()),
            ("NodeName", rest) => {
                let of_it: Vec<String> =
                    names(word(rest)).iter().filter_map(|_| next.next()).map(u16::to_string).collect();
                let site = |part: &&str| !part.starts_with("CPUs=") && !part.starts_with("RealMemory=");
                let other: Vec<&str> = rest.split(' ').skip(1).filter(site).collect();
                format!(
                    "NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{}] {hardware} {}",
                    word(rest),
                    of_it.join(","),
                    other.join(" ")
                )
            }
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, "SlurmctldLogFile={0}/slurmctld/log\nSlurmdLogFile={0}/%n.log", folder.display());
    text
}

fn word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// `name[1-3]` as its names.
fn names(list: &str) -> Vec<String> {
    let range = list.strip_suffix(']').and_then(|list| list.split_once('['));
    let bounds = range.and_then(|(stem, range)| Some((stem, range.split_once('-')?)));
    let Some((stem, (first, last))) = bounds else { return vec![list.to_owned()] };
    let number = |text: &str| text.parse::<u32>().expect("a range of numbers");
    (number(first)..=number(last)).map(|number| format!("{stem}{number}")).collect()
}

fn must(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Free ports: all are held until the last is known.
fn ports(count: usize) -> Vec<u16> {
    let bound = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let listeners: Vec<TcpListener> = (0..count).map(bound).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("bound").port()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_file_names_eight_nodes_and_each_is_in_its_partition() {
        assert_eq!(names("hub1"), ["hub1"]);
        assert_eq!(names("x86-[1-2]"), ["x86-1", "x86-2"]);
        assert_eq!(documented_nodes().len(), 8);
    }
}
