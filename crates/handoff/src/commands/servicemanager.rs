//! `handoff servicemanager`: the process that keeps the names.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use handoff_ipc::Context;
use handoff_ipc::binder::{BinderEngine, find_device};
use handoff_ipc::engine::Engine as _;
use handoff_ipc::runtime::{SOCKET_VARIABLE, own_socket};
use handoff_ipc::servicemanager::{Manager, ManagerServer, Policy, SocketAccess};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::{Advice as _, Output, Verdict};
use crate::{activation, interrupt};

const EXAMPLES: &str = "\
Examples:
  handoff servicemanager                              at the usual place
  handoff servicemanager --policy /etc/handoff/policy.toml
  handoff servicemanager --policy new.toml --check    say what is wrong with a policy, and no more
  handoff servicemanager --socket /tmp/names.sock &   then HANDOFF_SOCKET=/tmp/names.sock my-service
  handoff servicemanager --driver binder &            then HANDOFF_ENGINE=binder my-hal
  kill -HUP PID                                       read the policy again";

/// Keep the names under which services find each other, until stopped.
///
/// Listens at --socket, else at $HANDOFF_SOCKET, else at /run/handoff/servicemanager.sock for root and
/// at handoff/servicemanager.sock in $XDG_RUNTIME_DIR for other users. SIGHUP reads the policy again;
/// SIGTERM and SIGINT stop it, and its socket goes. Under systemd it says when it is ready, and takes the socket of
/// its .socket unit, which stays.
///
/// With --driver it takes the place that the kernel's Binder driver has for one manager, as Android's does; programs of
/// `libbinder_ndk` find it with HANDOFF_ENGINE=binder. Nothing listens at a socket then.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Listen here.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Who may add and find which names (TOML); without it, everybody may do everything.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Who may connect at all [default: everybody if root starts it, owner otherwise].
    #[arg(long, value_enum, value_name = "owner|everybody", hide_possible_values = true)]
    access: Option<Access>,
    /// Keep the names of the kernel's Binder driver, in this context.
    #[arg(long, value_name = "CONTEXT", value_parser = super::context(), conflicts_with_all = ["socket", "access"])]
    driver: Option<Context>,
    /// Only check the policy.
    #[arg(long, requires = "policy")]
    check: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Access {
    /// Processes of the same user, and of root
    Owner,
    /// Every process
    Everybody,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let policy = self.read_policy()?;
        if self.check {
            output.note(format_args!("the policy is fine: {}", described(&policy)));
            return Ok(Verdict::Pass);
        }
        // Before the socket exists, so that no signal can leave it behind.
        interrupt::leave_alone();
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot listen for signals")?;
        if let Some(context) = self.driver {
            return self.keep_drivers_names(context, policy, output, signals);
        }
        let (serving, who) = match activation::listener()? {
            Some(listener) => (self.serve_at(policy, listener)?, ""),
            None => {
                let socket = self.socket.clone().map_or_else(own_socket, Ok)?;
                // Its own folder is made; one that is mistyped further up would be, too.
                if let Some(above) = socket.parent().and_then(Path::parent).filter(|above| !is_folder(above))
                {
                    return Err(anyhow!(
                        "there is no folder {}, for a socket {}",
                        above.display(),
                        socket.display()
                    ))
                    .advise("make it, or choose another place with --socket");
                }
                let access = self.access();
                let own_folder = socket.parent().filter(|folder| !is_folder(folder)).map(Path::to_owned);
                let serving = Manager::new(policy).serve(&socket, access).advise(format_args!(
                    "choose another place with --socket or ${SOCKET_VARIABLE}, or stop the manager that serves there"
                ))?;
                let who = match access {
                    SocketAccess::Owner => ", for this user and root",
                    SocketAccess::Everybody => ", for every user",
                };
                if let Some(made) = own_folder {
                    output.note(format_args!("made the folder {}", made.display()));
                }
                (serving, who)
            }
        };
        output.note(format_args!("service manager at {}{who}", serving.socket().display()));
        tell_systemd(output, &[NotifyState::Ready]);
        self.serve(output, signals, serving.manager());
        Ok(Verdict::Pass)
    }

    fn keep_drivers_names(
        &self,
        context: Context,
        policy: Policy,
        output: &Output,
        signals: Signals,
    ) -> anyhow::Result<Verdict> {
        let device = find_device(context)?;
        let engine = BinderEngine::open_for(&device, context)?;
        let manager = Manager::new(policy);
        engine
            .become_context_manager(manager.binder())
            .advise("one manager at a time has this place: stop the one that has it")?;
        output.note(format_args!("service manager of {}", device.display()));
        tell_systemd(output, &[NotifyState::Ready]);
        self.serve(output, signals, &manager);
        Ok(Verdict::Pass)
    }

    /// Serves at the socket that systemd made: where it is and who may connect is said in its unit.
    fn serve_at(&self, policy: Policy, listener: OwnedFd) -> anyhow::Result<ManagerServer> {
        ensure!(
            self.socket.is_none() && self.access.is_none(),
            "the socket was passed on by systemd: write ListenSequentialPacket= for --socket, and SocketMode= for --access"
        );
        Ok(Manager::new(policy).serve_at(listener)?)
    }

    fn serve(&self, output: &Output, mut signals: Signals, manager: &Manager) {
        for signal in signals.forever() {
            if signal != SIGHUP {
                tell_systemd(output, &[NotifyState::Stopping]);
                return;
            }
            match self.read_policy() {
                Ok(policy) => {
                    output.note(format_args!("the policy was read again: {}", described(&policy)));
                    manager.set_policy(policy);
                }
                // The old one stays: a mistake in a file opens and closes nothing.
                Err(error) => output.warn(format_args!("the policy stays as it was: {error:#}")),
            }
        }
    }

    fn read_policy(&self) -> anyhow::Result<Policy> {
        self.policy.as_ref().map_or_else(|| Ok(Policy::open()), |file| Ok(Policy::read(file)?))
    }

    fn access(&self) -> SocketAccess {
        match self.access {
            Some(Access::Owner) => SocketAccess::Owner,
            Some(Access::Everybody) => SocketAccess::Everybody,
            None if rustix::process::geteuid().is_root() => SocketAccess::Everybody,
            None => SocketAccess::Owner,
        }
    }
}

fn is_folder(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.is_dir()
}

fn described(policy: &Policy) -> String {
    let others = if policy.others_open { "open" } else { "closed" };
    let rules = policy.rules.len();
    format!("{rules} rule{}, other names are {others}", if rules == 1 { "" } else { "s" })
}

/// Does nothing where no service manager of the system listens ($NOTIFY_SOCKET).
fn tell_systemd(output: &Output, state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        output.warn(format_args!("systemd cannot be told: {error}"));
    }
}
