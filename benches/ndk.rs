//! What Android's code pays here: a call of C++ through `libbinder_ndk` beside the same call of Rust; and Binder RPC beside
//! its bytes over a bare socket, and beside rsbinder's.
//!
//! `cargo xtask bench ndk` runs it; without `--rows FILE` it measures a few rounds and prints them. Each program has what a
//! compiler made of one interface, and does the same: `ndk/echo.cpp`, rsbinder's in `crates/handoff/tests/rsbinder`, and this
//! one in its roles.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use handoff_benches::{ROUNDS, exit, run_each, subject, timed};
use handoff_ipc::rpc::{RpcServer, RpcSession};
use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Proxy as _, Runtime};
use handoff_lab::interleave::Subject;
use handoff_placement::{AffinityGuard, CpuId, CpuSet};
use handoff_workloads::Placement;
use handoff_workloads::floor::{self, Primitive};

// Generated code is public for whoever includes it.
#[allow(unreachable_pub)]
mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}

use interfaces::handoff::benches::{EchoProxy, EchoStub, IEcho};

const LIBRARY: &str = "libbinder_ndk.so";
/// Bytes that go each way.
const PAYLOADS: [usize; 2] = [8, 4096];
/// Before a call that is to find its server asleep: with less, both sides look for each other.
const PAUSE: Duration = Duration::from_micros(200);
/// Calls after each start that are not counted.
const WARM: u32 = 1000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => exit(serve(name)),
        ["call", name] => exit(call(name)),
        ["rpc-serve", socket] => exit(rpc_serve(Path::new(socket))),
        ["rpc-call", socket] => exit(rpc_call(Path::new(socket))),
        // The goals are a tenth away from the floors, and the machine differs by some percent from minute to minute: more
        // rounds than elsewhere.
        _ => run_each(|| Ok(vec![(6 * ROUNDS, subjects()?)])),
    }
}

fn subjects() -> Result<Vec<Subject<'static>>> {
    let programs = Rc::new(Programs::build()?);
    let mut places = vec![("one CPU", Placement::same_cpu()?)];
    match Placement::two_cpus() {
        Ok(two_cpus) => places.push(("two CPUs", two_cpus)),
        Err(error) => eprintln!("warning: no figures of two CPUs: {error}"),
    }
    let mut subjects = Vec::new();
    for (place, placement) in places {
        for payload in PAYLOADS {
            let named = |what: &str| format!("{what}, {place}, {payload} B");
            let calls =
                |what: &str, program, pause| programs.calls(&named(what), program, placement, payload, pause);
            let mut ways = vec![("C++ beside Rust", "call", Duration::ZERO)];
            if let Placement::TwoCpus(..) = placement {
                ways.push(("C++ beside Rust, blocking", "blocking call", PAUSE));
            }
            for (compared, call, pause) in ways {
                let (rust, cpp) = (format!("{call} of Rust"), format!("{call} of C++"));
                subjects.push(calls(&rust, Program::Rust, pause)?);
                subjects.push(
                    calls(&cpp, Program::Cpp, pause)?
                        .against(named(&rust))
                        .called(named(compared))
                        .goal(1.1, None),
                );
            }
            subjects.push(bare_socket(&named("bytes over a socket"), placement, payload)?);
            subjects.push(calls("RPC of rsbinder", Program::Rsbinder, Duration::ZERO)?);
            subjects.push(
                calls("RPC of Handoff", Program::Rpc, Duration::ZERO)?
                    .against(named("bytes over a socket"))
                    .called(named("Binder RPC beside its bytes over a bare socket"))
                    .goal(1.15, None)
                    .against(named("RPC of rsbinder"))
                    .called(named("Binder RPC beside rsbinder's"))
                    .goal(1.0, None),
            );
        }
    }
    Ok(subjects)
}

/// What one call sends over its socket, there and back.
fn bare_socket(name: &str, placement: Placement, payload: usize) -> Result<Subject<'static>> {
    let descriptor = 4 + (2 * (EchoProxy::DESCRIPTOR.len() + 1)).next_multiple_of(4);
    let bytes = 4 + payload.next_multiple_of(4);
    // The header of a frame, then that of a call and which interface is meant, or that of a reply and the exception. In front of
    // a reply goes the frame that gives the call's reference back.
    let (request, reply) = (16 + 40 + descriptor + bytes, 32 + 16 + 20 + 4 + bytes);
    // As much each way: the difference of the two is the interface's name.
    let parameters = floor::Parameters {
        primitive: Primitive::UnixStream,
        payload: usize::midpoint(request, reply),
        placement,
    };
    subject(name, move |samples, trips| {
        let mut session = floor::Session::start(&parameters)?;
        session.batch(WARM, 1)?;
        Ok(session.batch(samples, trips)?)
    })
}

#[derive(Clone, Copy)]
enum Program {
    Rust,
    Cpp,
    Rpc,
    Rsbinder,
}

/// The programs, and the manager that they find.
struct Programs {
    manager: Runtime,
    folder: tempfile::TempDir,
    rsbinder: PathBuf,
    started: Cell<u32>,
}

impl Programs {
    /// Compiles the library as this bench was, the C++ against it and its headers, and rsbinder's.
    fn build() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let generated = Path::new(env!("OUT_DIR")).join("cpp");
        // Of a package that is a Rust library as well, cargo optimises none over all crates, as this program is.
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["rustc", "--profile", "bench-library", "--locked", "--package", "handoff-ndk", "--lib"]);
        finish(cargo.args(["--crate-type", "cdylib"]).current_dir(here))?;
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let library = scratch.with_file_name("bench-library").join(LIBRARY);
        std::fs::copy(library, folder.path().join(LIBRARY))?;
        let mut compiler = Command::new("g++");
        // `-fno-plt` as pkg-config says.
        compiler
            .args(["-std=c++17", "-O2", "-fno-plt", "-Wall", "-Werror", "-o"])
            .arg(folder.path().join("echo"));
        compiler.arg("-I").arg(here.join("../crates/handoff-ndk/include")).arg("-I").arg(&generated);
        compiler.arg(here.join("ndk/echo.cpp")).arg(generated.join("handoff/benches/IEcho.cpp"));
        compiler.arg("-L").arg(folder.path()).args(["-lbinder_ndk", "-Wl,-rpath,$ORIGIN"]);
        finish(&mut compiler)?;
        // Where it is built once.
        let target = scratch.join("rsbinder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(&target);
        finish(cargo.current_dir(here.join("../crates/handoff/tests/rsbinder")))?;
        Ok(Programs {
            manager: Runtime::private()?,
            folder,
            rsbinder: target.join("release/handoff-interop-rsbinder"),
            started: Cell::new(0),
        })
    }

    /// A client and a server in two processes. With a pause, each sample is one call after it.
    fn calls(
        self: &Rc<Self>,
        name: &str,
        program: Program,
        placement: Placement,
        payload: usize,
        pause: Duration,
    ) -> Result<Subject<'static>> {
        let (client, server) = match placement {
            Placement::SameCpu(cpu) => (Some(cpu), Some(cpu)),
            Placement::TwoCpus(client, server) => (Some(client), Some(server)),
            Placement::Unpinned => (None, None),
        };
        let programs = Rc::clone(self);
        subject(name, move |samples, calls| {
            programs.started.set(programs.started.get() + 1);
            // Anew for each batch: each start has its memory elsewhere, and some percent of a call depend on where.
            let _server = programs.start(program, "serve", server)?;
            let mut client = programs.start(program, "call", client)?;
            client.time(payload, 1, WARM, Duration::ZERO)?;
            let calls = if pause.is_zero() { calls } else { 1 };
            Ok(client.time(payload, samples, calls, pause)?)
        })
    }

    fn start(&self, program: Program, role: &str, cpu: Option<usize>) -> Result<Process> {
        let this = std::env::current_exe()?;
        let (path, role) = match program {
            Program::Rust => (this, role.to_owned()),
            Program::Cpp => (self.folder.path().join("echo"), role.to_owned()),
            Program::Rpc => (this, format!("rpc-{role}")),
            Program::Rsbinder => (self.rsbinder.clone(), format!("time-{role}")),
        };
        // The name of a service, or of a socket.
        let place = self.folder.path().join(self.started.get().to_string());
        let socket = self.manager.socket().context("a private manager has a socket")?;
        let mut command = Command::new(path);
        command.arg(role).arg(place).env(SOCKET_VARIABLE, socket);
        // Cargo names folders there, which the loader searches first: another build's library may be in them.
        command.env_remove("LD_LIBRARY_PATH");
        // What is started runs where this thread may.
        let _pinned = cpu.map(|cpu| AffinityGuard::pin(&CpuSet::of(cpu as CpuId))).transpose()?;
        let process = Process::start(&mut command)?;
        if let Program::Cpp = program {
            self.check_library(&process)?;
        }
        Ok(process)
    }

    /// An error unless a program has loaded the library that was compiled for it.
    fn check_library(&self, process: &Process) -> Result<()> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.child.id()))?;
        let library = self.folder.path().canonicalize()?.join(LIBRARY);
        let found = maps.lines().any(|line| line.ends_with(&format!(" {}", library.display())));
        ensure!(found, "the C++ has loaded another library than {}", library.display());
        Ok(())
    }
}

fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// A program in its role. It ends when this is dropped.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).context("both are pipes")?;
        let mut process = Process { child, input, output: BufReader::new(output) };
        ensure!(process.line()? == "ready", "{command:?} does not begin");
        Ok(process)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Nanoseconds a call of each sample, before which the client sleeps.
    fn time(&mut self, payload: usize, samples: u32, calls: u32, pause: Duration) -> Result<Vec<f64>> {
        writeln!(self.input, "{payload} {samples} {calls} {}", pause.as_micros())?;
        let line = self.line()?;
        let times: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(times.len() == samples as usize, "{} of {samples} samples came", times.len());
        Ok(times)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Echo;

impl IEcho for Echo {
    fn echo(&self, bytes: &[u8]) -> handoff_ipc::Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

fn serve(name: &str) -> Result<()> {
    let runtime = Runtime::connect()?;
    runtime.services().add(name, EchoStub::new(Echo).binder(), ServiceOptions::default())?;
    until_told()
}

fn call(name: &str) -> Result<()> {
    let runtime = Runtime::connect()?;
    answer(&EchoProxy::from_binder(runtime.services().get(name)?)?)
}

fn rpc_serve(socket: &Path) -> Result<()> {
    let _server = RpcServer::builder(socket).descriptors(false).serve(EchoStub::new(Echo).binder())?;
    until_told()
}

fn rpc_call(socket: &Path) -> Result<()> {
    // As libbinder's and rsbinder's by default, and as the bare socket.
    let session = RpcSession::builder(socket).descriptors(false).connect()?;
    answer(&EchoProxy::from_binder(session.root()?)?)
}

/// Serves until standard input ends.
fn until_told() -> Result<()> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Times calls for as long as lines come, each with a payload, samples, calls of each sample, and the microseconds to sleep
/// before a sample.
fn answer(echo: &EchoProxy) -> Result<()> {
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        let numbers: Vec<u32> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [payload, samples, calls, pause] = numbers[..] else { bail!("{line:?} is not four numbers") };
        let bytes = vec![7; payload as usize];
        let mut back = Vec::new();
        let mut times = Vec::new();
        for _ in 0..samples {
            if pause > 0 {
                std::thread::sleep(Duration::from_micros(pause.into()));
            }
            times.extend(timed(1, calls, || {
                back = echo.echo(&bytes)?;
                Ok(())
            })?);
        }
        ensure!(back == bytes, "other bytes came back");
        println!("{}", times.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}
