//! `handoff service`: look at the services that are registered, and call them by hand.

mod list;
mod replies;
mod typed;
mod values;
mod words;

use std::fmt;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use handoff_aidl::model::Model;
use handoff_ipc::servicemanager::{Context, MANAGER_NAME, NamePattern, ProcessReport, ServiceInfo};
use handoff_ipc::{Binder, Error, Runtime};
use serde::Serialize;

use self::list::{List, Row};
use self::typed::Callee;
use self::words::{Kind, Words};
use crate::candidates;
use crate::output::{Advice as _, Format, Output, Verdict};
use crate::printable::printable;

const EXAMPLES: &str = "\
Examples:
  handoff service list                            names, interfaces, domains, processes
  handoff service list -l                         and what serves them, since when
  handoff service list 'camera/*' --domain hardware --format json
  handoff service check camera/0                  exit status 0 if it is there, 1 if not
  handoff service wait camera/0 --timeout 10
  handoff service call clock 1                    transaction 1, the reply as bytes
  handoff service call adder add 2 3 --aidl IAdder.aidl
  handoff service call adder 1 i32 2 i32 3 --reply i32
  handoff service stats camera/0                  what the engine of its process did
  handoff service dump camera/0 --verbose         what the service says of itself
  handoff service shell camera/0 set zoom 2       a command of the service's own";

/// Look at the services that are registered, and call them by hand.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Ask the service manager that listens here, instead of the usual one.
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seconds to wait for a service's answer, or with `wait` for its name.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List what is registered
    #[command(
        after_help = "Examples:\n  handoff service list\n  handoff service list -l\n  handoff service list 'camera/*' --domain hardware --format json"
    )]
    List {
        /// Only names like this: `*` stands for any characters, `?` for one.
        #[arg(value_name = "PATTERN")]
        pattern: Option<String>,
        /// Only services of this domain: framework, hardware or vendor.
        #[arg(long)]
        domain: Option<Context>,
        /// Also show the command that serves each, and when its process began.
        #[arg(long, short)]
        long: bool,
    },
    /// Say whether a name is registered, and by whom
    #[command(after_help = "Examples:\n  handoff service check camera/0 && echo there")]
    Check {
        /// The name.
        #[arg(add = candidates::services())]
        name: String,
    },
    /// Wait until a name is registered
    #[command(after_help = "Examples:\n  handoff service wait camera/0 --timeout 30")]
    Wait {
        /// The name.
        #[arg(add = candidates::services())]
        name: String,
    },
    /// Make one call: a method of an interface's file, or a number with typed values
    ///
    /// With --aidl an argument is written as its parameter's type wants it: a number, a name, text, the name of a
    /// service, the path of a file; arrays, parcelables and unions as JSON: [1, 2], {"x": 1}. A `ParcelableHolder` is
    /// {} or {"full.name.of.a.Type": {"x": 1}}. Bytes are 0x00ff7f. For an `out` array its length is written, for other
    /// `out` parameters nothing. `null` is null, where a type may be null.
    ///
    /// Without it each argument is a type and a value. Types: i32, i64, f32, f64, bool, str (UTF-16, AIDL's String), utf8, bytes (as hexadecimal digits),
    /// service (a reference to the service of that name), null-str, null-object.
    #[command(
        after_help = "Examples:\n  handoff service call adder add 2 3 --aidl IAdder.aidl\n  handoff service call map move '{\"x\": 1}' null --aidl aidl/ --format json\n  handoff service call adder 1 i32 2 i32 3 --reply i32\n  handoff service call store 2 str key bytes 00ff7f --oneway"
    )]
    Call {
        /// The name of the service.
        #[arg(add = candidates::services())]
        name: String,
        /// The method's name, with --aidl; else the number of the transaction, which AIDL counts from 1.
        method: String,
        /// The arguments; without --aidl a type and a value each. Behind `--` they may begin with a dash.
        #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
        arguments: Vec<String>,
        #[command(flatten)]
        files: typed::Files,
        /// Read the reply as values of these types, such as i32,str.
        #[arg(long, value_name = "TYPES", value_delimiter = ',', conflicts_with = "oneway")]
        reply: Vec<Kind>,
        /// Do not wait for a reply.
        #[arg(long)]
        oneway: bool,
    },
    /// Show how a service's process serves: its calls, how they waited, priorities
    #[command(
        after_help = "Examples:\n  handoff service stats            the manager's own\n  handoff service stats camera/0 --format json"
    )]
    Stats {
        /// The name of the service; the manager itself if none is given.
        #[arg(add = candidates::services())]
        name: Option<String>,
    },
    /// Have a service print its state
    #[command(
        after_help = "Examples:\n  handoff service dump manager\n  handoff service dump camera/0 --verbose"
    )]
    Dump {
        /// The name of the service.
        #[arg(add = candidates::services())]
        name: String,
        /// Arguments for the service.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Give a service a command of its own
    ///
    /// The service reads this command's standard input and writes its output and error itself, as Android's `cmd` lets it.
    /// It may be given commands by root and by the user that runs it. The exit status is the service's.
    #[command(
        after_help = "Examples:\n  handoff service shell camera/0 help\n  handoff service shell store put key < value"
    )]
    Shell {
        /// The name of the service.
        #[arg(add = candidates::services())]
        name: String,
        /// The command, and its arguments. Behind `--` it may begin with a dash.
        #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn seconds(text: &str) -> Result<Duration, String> {
    let problem = "is not a number of seconds above zero";
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| format!("`{text}` {problem}"))
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let builder = Runtime::builder();
        let builder = match &self.socket {
            Some(socket) => builder.socket(socket),
            None => builder,
        };
        let runtime = builder.connect().advise("name the socket of another manager with --socket")?;
        match &self.action {
            Action::List { pattern, domain, long } => {
                let rows = list(&runtime, pattern.as_deref(), *domain)?;
                output.result(&List::new(rows, *long))?;
                Ok(Verdict::Pass)
            }
            Action::Check { name } => self.check(output, &runtime, name),
            Action::Wait { name } => match runtime.services().wait_for(name, self.timeout) {
                Ok(_) => self.check(output, &runtime, name),
                Err(Error::NoSuchService(_)) => {
                    output.note(format_args!("nobody registered {name} within {:?}", self.timeout));
                    Ok(Verdict::Fail)
                }
                Err(error) => Err(error.into()),
            },
            Action::Call { name, method, arguments, files, reply, oneway } => {
                if let Some(files) = files.compile()? {
                    return self.call_typed(output, &runtime, name, method, arguments, &files.model);
                }
                let code: u32 = method
                    .parse()
                    .map_err(|_| anyhow::anyhow!("`{method}` is not the number of a transaction"))
                    .advise("name the interface's file with --aidl FILE to call a method by its name")?;
                let words = Words::parse(arguments)?;
                let service = get(&runtime, name)?;
                let sent = words.resolve(&runtime)?;
                if *oneway {
                    service.transaction(code).oneway(|to| sent.write(to))?;
                    return Ok(Verdict::Pass);
                }
                let answer = service
                    .transaction(code)
                    .deadline(self.timeout)
                    .call(|to| sent.write(to), |from| words::read_reply(from, reply))
                    .map_err(|error| match error {
                        Error::UnknownTransaction { .. } => {
                            anyhow::anyhow!("{name} has no transaction with code {code}")
                        }
                        other => other.into(),
                    })?;
                output.result(&answer)?;
                Ok(Verdict::Pass)
            }
            Action::Stats { name } => {
                let name = name.as_deref().unwrap_or(MANAGER_NAME);
                get(&runtime, name)?;
                let process = runtime.services().process_of(name).map_err(|error| match error {
                    Error::NoSuchService(_) => {
                        anyhow::anyhow!("the process of {name} tells nothing of its engine")
                    }
                    other => other.into(),
                })?;
                output.result(&Stats::new(name, process.report(self.timeout)?))?;
                Ok(Verdict::Pass)
            }
            Action::Dump { name, arguments } => {
                let (service, arguments) = (get(&runtime, name)?, arguments.clone());
                let text = self.patiently(name, move || service.dump(&arguments))?;
                match output.format() {
                    Format::Text => output.bytes(printable(&text).as_bytes())?,
                    Format::Json => output.json(&text)?,
                }
                Ok(Verdict::Pass)
            }
            Action::Shell { name, arguments } => {
                let service = get(&runtime, name)?;
                let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
                let status =
                    service.shell_command([input.as_fd(), output.as_fd(), error.as_fd()], arguments)?;
                // As a shell has it: the last eight bits, of which none may hide a failure.
                Ok(Verdict::Status(match status as u8 {
                    0 if status != 0 => 1,
                    status => status,
                }))
            }
        }
    }

    /// A method by its name, with the interface's types.
    fn call_typed(
        &self,
        output: &Output,
        runtime: &Runtime,
        name: &str,
        method: &str,
        arguments: &[String],
        model: &Model,
    ) -> anyhow::Result<Verdict> {
        let service = get(runtime, name)?;
        let asked = service.clone();
        let descriptor = self.patiently(name, move || asked.descriptor())?;
        let callee = Callee::find(model, name, &descriptor, method)?;
        let arguments = callee.arguments(arguments, &typed::finder(runtime))?;
        if let Some(answer) = callee.call(&service, &arguments, self.timeout)? {
            output.result(&answer)?;
        }
        Ok(Verdict::Pass)
    }

    fn check(&self, output: &Output, runtime: &Runtime, name: &str) -> anyhow::Result<Verdict> {
        let Some(service) = runtime.services().check(name)? else {
            match output.format() {
                Format::Text => output.line(format_args!("{name}: not registered"))?,
                Format::Json => output.json(&None::<Row>)?,
            }
            return Ok(Verdict::Fail);
        };
        let known = runtime.services().list()?.into_iter().find(|info| info.name == name);
        let Some(mut info) = known else {
            anyhow::bail!("{name} was registered a moment ago, and is not any longer");
        };
        if info.interface.is_empty() {
            info.interface = self.patiently(name, move || service.descriptor())?;
        }
        output.result(&List::new(vec![Row::new(info)], false))?;
        Ok(Verdict::Pass)
    }

    /// Runs what may never return, and stops waiting for it when the time is over.
    fn patiently<T: Send + 'static>(
        &self,
        name: &str,
        ask: impl FnOnce() -> handoff_ipc::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (send, answer) = mpsc::channel();
        std::thread::spawn(move || {
            // Fails only if nobody waits any longer.
            let _ = send.send(ask());
        });
        match answer.recv_timeout(self.timeout) {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(anyhow::anyhow!("{name} did not answer within {:?}", self.timeout))
                .advise("give it longer with --timeout SECONDS"),
        }
    }
}

fn list(runtime: &Runtime, pattern: Option<&str>, domain: Option<Context>) -> anyhow::Result<Vec<Row>> {
    let pattern = pattern.map(NamePattern::new);
    let services = runtime.services().list()?;
    let is_wanted = |info: &ServiceInfo| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(&info.name))
            && domain.is_none_or(|domain| domain == info.context)
    };
    Ok(services.into_iter().filter(is_wanted).map(Row::new).collect())
}

fn get(runtime: &Runtime, name: &str) -> anyhow::Result<Binder> {
    runtime.services().get(name).map_err(|error| match error {
        error @ Error::NoSuchService(_) => {
            anyhow::Error::from(error).context("help: see what is there with `handoff service list`")
        }
        other => other.into(),
    })
}

/// What a process tells of its engine, with the names that JSON has.
#[derive(Debug, Serialize)]
struct Stats {
    service: String,
    pid: u32,
    age_seconds: f64,
    calls: u64,
    served: u64,
    served_oneway: u64,
    spun: u64,
    slept: u64,
    beside: u64,
    priority_changes: u64,
    raised: u64,
    inherit_denied: u64,
    threads: u64,
    links: u64,
    refused: u64,
    messages: u64,
}

impl Stats {
    fn new(service: &str, report: ProcessReport) -> Self {
        let stats = report.stats;
        Stats {
            service: service.to_owned(),
            pid: report.pid,
            age_seconds: report.age.as_secs_f64(),
            calls: stats.calls,
            served: stats.served,
            served_oneway: stats.served_oneway,
            spun: stats.spun,
            slept: stats.slept,
            beside: stats.beside,
            priority_changes: stats.priority_changes,
            raised: stats.raised,
            inherit_denied: stats.inherit_denied,
            threads: stats.threads,
            links: stats.links,
            refused: stats.refused,
            messages: stats.messages,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is in process {}, which has run for {:.1} s",
            self.service, self.pid, self.age_seconds
        )?;
        for (count, what) in [
            (self.served, "calls served"),
            (self.served_oneway, "oneway calls served"),
            (self.calls, "calls made"),
            (self.spun, "of them answered while the caller looked"),
            (self.slept, "of them answered while the caller slept"),
            (self.beside, "of them for which the callee was asked to wait on its caller's CPU"),
            (self.priority_changes, "times a thread took over a priority"),
            (self.raised, "times a busy thread was raised for a more urgent caller"),
            (self.inherit_denied, "priorities that it may not take over"),
            (self.threads, "threads that serve, now"),
            (self.links, "processes connected, now"),
            (self.refused, "requests of peers beyond their share of what it holds for others"),
            (self.messages, "control messages read"),
        ] {
            write!(f, "\n{count:>12}  {what}")?;
        }
        Ok(())
    }
}
