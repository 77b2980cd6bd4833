//! A real Slurm for tests: a controller and nodes on loopback, with a configuration and ports of its own.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Slurm on loopback. Its jobs and daemons end when this is dropped.
#[derive(Debug)]
pub struct Slurm {
    folder: PathBuf,
    controller: Option<Child>,
    nodes: Vec<Option<Child>>,
}

impl Slurm {
    /// Starts a controller and so many nodes, called `n1` and so on, with all that they keep in `folder`.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub fn start(folder: &Path, nodes: usize) -> Self {
        let ports = ports(nodes + 1);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let host = host.trim().split('.').next().unwrap_or("localhost");
        let at = folder.display();
        let mut text = format!(
            "ClusterName=handoff\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nAuthInfo=cred_expire=5\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool.%n\nSlurmctldPidFile={at}/controller.pid\n\
             SlurmdPidFile={at}/%n.pid\nSlurmctldLogFile={at}/controller.log\nSlurmdLogFile={at}/%n.log\nJobRequeue=1\n\
             SlurmdTimeout=30\nReturnToService=2\nKillWait=5\nMinJobAge=300\nSchedulerType=sched/builtin\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=2,default_queue_depth=1000\n\
             SlurmdParameters=config_overrides\nAccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\nPropagateResourceLimits=NONE\n",
            ports[0]
        );
        fs::create_dir_all(folder.join("state")).expect("a folder");
        for (node, port) in (1..).zip(&ports[1..]) {
            fs::create_dir_all(folder.join(format!("spool.n{node}"))).expect("a folder");
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 Feature=loopback State=UNKNOWN"
            );
        }
        let _ = writeln!(
            text,
            "PartitionName=lab Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE"
        );
        fs::write(folder.join("slurm.conf"), text).expect("written");
        let mut slurm =
            Slurm { folder: folder.to_owned(), controller: None, nodes: (0..nodes).map(|_| None).collect() };
        slurm.start_controller();
        (1..=nodes).for_each(|node| slurm.start_node(node));
        let idle = format!("{nodes}\n");
        let end = Instant::now() + Duration::from_secs(60);
        while slurm.ask("sinfo", &["--noheader", "--states=idle", "--format=%D"]) != idle {
            assert!(Instant::now() < end, "Slurm does not come up: {}", slurm.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        slurm
    }

    /// The file for `SLURM_CONF`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// What a program of Slurm prints.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).env("SLURM_CONF", self.config()).output();
        String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
    }

    /// The end of what the controller logs.
    #[must_use]
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.folder.join("controller.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Kills the controller and starts it again.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn kill_controller(&mut self) {
        end(self.controller.take());
        self.start_controller();
    }

    /// Kills the daemon of a node and starts it again.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn kill_node(&mut self, node: usize) {
        end(self.nodes[node - 1].take());
        self.start_node(node);
    }

    /// What an administrator does after a crash: a launch that the death of a daemon cut short drains its
    /// node, and holds the job.
    ///
    /// # Panics
    ///
    /// If a program of Slurm cannot be started.
    pub fn mend(&self) {
        for node in self.ask("sinfo", &["--noheader", "--states=down,drain,fail", "--format=%n"]).lines() {
            drop(self.ask("scontrol", &["update", &format!("nodename={node}"), "state=resume"]));
        }
        for job in self.ask("squeue", &["--array", "--noheader", "--format=%i %r"]).lines() {
            if let Some((id, reason)) = job.split_once(' ')
                && reason.contains("held")
            {
                drop(self.ask("scontrol", &["release", id]));
            }
        }
    }

    fn start_controller(&mut self) {
        self.controller = Some(self.daemon("slurmctld", &["-D"]));
    }

    fn start_node(&mut self, node: usize) {
        let name = format!("n{node}");
        self.nodes[node - 1] = Some(self.daemon("slurmd", &["-D", "-N", &name]));
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
        let limit = Instant::now() + Duration::from_secs(10);
        while !self.ask("squeue", &["--noheader"]).is_empty() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.nodes.iter_mut().for_each(|node| end(node.take()));
        end(self.controller.take());
    }
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        drop(child.kill());
        drop(child.wait());
    }
}

/// Free ports: all are held until the last is known.
fn ports(count: usize) -> Vec<u16> {
    let bound = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let listeners: Vec<TcpListener> = (0..count).map(bound).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("bound").port()).collect()
}
