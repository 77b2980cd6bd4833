//! What is done with a target, the same on each.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use handoff_guest::Guest;
use object::{Architecture, Object as _};
use sha1::{Digest as _, Sha1};

use crate::adb::Adb;
use crate::address::Address;
use crate::command::{Command, quoted};
use crate::error::{Result, TargetError};
use crate::facts::{ASK, Facts};
use crate::folder::choose;
use crate::guest::GuestTarget;
use crate::local::Local;
use crate::lock::{Lock, SILENCE, is_shared};
use crate::ssh::Ssh;
use crate::target::{Sink, Stream, Target};

/// Enough for a question, a copy of a program over a slow link, or a new connection.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// What a step may say; a target that says more is not listened to.
const MOST_SAID: usize = 64 << 10;

/// A target in use.
pub struct Session {
    target: Box<dyn Target + Send>,
    ways: Ways,
    facts: Facts,
    /// The facts are those of a boot that has ended.
    is_stale: bool,
}

/// How targets are reached, where that is not as usual.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ways {
    /// The configuration that ssh reads instead of the user's.
    pub ssh_config: Option<PathBuf>,
    /// How long a machine keeps the lock of a holder that it hears nothing of, in whole seconds; a minute if
    /// nothing is said.
    pub lock_silence: Option<Duration>,
}

/// With this variable in the environment, ssh reads that configuration instead of the user's.
const SSH_CONFIG: &str = "HANDOFF_SSH_CONFIG";

impl Ways {
    /// As the environment says: `HANDOFF_SSH_CONFIG`.
    #[must_use]
    pub fn of_environment() -> Self {
        Ways { ssh_config: std::env::var_os(SSH_CONFIG).map(PathBuf::from), ..Ways::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Its exit status; 128 and the signal if one ended it.
    pub status: i32,
    /// How long it took, seen from here.
    pub elapsed: Duration,
    /// What the machine's kernel reported meanwhile, as far as its console is heard: a guest's is.
    pub incidents: Vec<String>,
}

impl Session {
    /// Connects, and asks what is there.
    pub fn open(address: &Address) -> Result<Self> {
        Self::open_by(address, Ways::of_environment())
    }

    /// [`Session::open`] by other ways.
    pub fn open_by(address: &Address, ways: Ways) -> Result<Self> {
        Ok(Session { ways: ways.clone(), ..Self::on(connect(address, &ways)?)? })
    }

    /// The same on a target of your own.
    pub fn on(mut target: Box<dyn Target + Send>) -> Result<Self> {
        let facts = look(target.as_mut())?;
        Ok(Session { target, ways: Ways::default(), facts, is_stale: false })
    }

    /// On a guest that `boot` boots with `program` in it as [`GUEST_PROGRAM`](crate::GUEST_PROGRAM); it boots it
    /// anew when it was lost.
    pub fn in_guest(program: &Path, boot: impl FnMut() -> Result<Guest> + Send + 'static) -> Result<Self> {
        Self::on(Box::new(GuestTarget::booted_by(Box::new(boot), program.to_owned())))
    }

    /// The guest, if it is one: booted if need be.
    pub fn guest(&mut self) -> Option<Result<&mut Guest>> {
        self.target.guest()
    }

    /// Ends the present boot of a guest: what comes next runs in a new one. Other machines are left as they are.
    pub fn end_boot(&mut self) {
        self.target.end_boot();
        self.is_stale = self.address() == Address::Guest;
    }

    pub fn address(&self) -> Address {
        self.target.address()
    }

    /// What it is. A guest that was booted anew is asked when the next command runs in it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Puts a program there, unless it is there already, and gives its path. It is named for its hash, so
    /// a new build is another file and an old one is never run by mistake.
    ///
    /// # Errors
    ///
    /// [`TargetError::Architecture`] if it is for another machine; [`TargetError::Step`] if it cannot be
    /// written there.
    pub fn push(&mut self, program: &Path) -> Result<String> {
        if let Some(there) = self.target.has(program) {
            return Ok(there);
        }
        let cannot = |error| TargetError::io(format!("read {}", program.display()), error);
        let mut file = File::open(program).map_err(cannot)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(cannot)?;
        self.check_architecture(program, &bytes)?;
        let hash: String = Sha1::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let there = format!("{}/{hash}", self.facts.folder);
        let (folder, path) = (quoted(&self.facts.folder), quoted(&there));
        let same = format!("[ \"$(sha1sum <{path} 2>/dev/null | cut -c 1-40)\" = {hash} ]");
        let (status, _) = self.step(&format!("mkdir -p -m 700 {folder} && [ -x {path} ] && {same}"), None)?;
        if status == 0 {
            return Ok(there);
        }
        file.rewind().map_err(cannot)?;
        // Under another name until it is whole: a lost link leaves no half of a program.
        let script = format!(
            "mkdir -p -m 700 {folder} && new={path}.$$ && trap 'rm -f \"$new\"' EXIT && cat >\"$new\" && chmod 755 \"$new\" && \
             mv \"$new\" {path} && {same}"
        );
        match self.step(&script, Some(&mut file))? {
            (0, _) => Ok(there),
            (status, said) => Err(self.failed("take a program", status, said)),
        }
    }

    fn check_architecture(&self, program: &Path, bytes: &[u8]) -> Result<()> {
        // A script runs anywhere.
        let Ok(elf) = object::File::parse(bytes) else { return Ok(()) };
        let has = match elf.architecture() {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            Architecture::Arm => "arm",
            Architecture::Riscv64 => "riscv64",
            _ => return Ok(()),
        };
        let wants = if self.facts.arch.starts_with("armv") { "arm" } else { self.facts.arch.as_str() };
        if has == wants {
            return Ok(());
        }
        Err(TargetError::Architecture {
            program: program.to_owned(),
            has: has.to_owned(),
            target: self.address().to_string(),
            wants: wants.to_owned(),
        })
    }

    /// Runs a command; `sink` gets its output as it comes.
    ///
    /// # Errors
    ///
    /// [`TargetError::Rebooted`] if the machine was booted anew meanwhile, [`TargetError::Lost`] if the
    /// link was lost, [`TargetError::Deadline`] if the command's deadline passed.
    pub fn run(&mut self, command: &Command, sink: &mut Sink<'_>) -> Result<Done> {
        self.start(command, None, sink)
    }

    /// [`Session::run`] with these bytes as the command's standard input.
    ///
    /// # Errors
    ///
    /// As [`Session::run`], and [`TargetError::Io`] if they cannot be kept for it.
    pub fn run_fed(&mut self, command: &Command, input: &[u8], sink: &mut Sink<'_>) -> Result<Done> {
        let cannot = |error| TargetError::io("keep a command's input", error);
        let mut file = tempfile::tempfile().map_err(cannot)?;
        file.write_all(input).and_then(|()| file.rewind()).map_err(cannot)?;
        self.start(command, Some(&mut file), sink)
    }

    fn start(&mut self, command: &Command, input: Option<&mut File>, sink: &mut Sink<'_>) -> Result<Done> {
        if self.is_stale {
            self.facts = look(self.target.as_mut())?;
            self.is_stale = false;
        }
        let start = Instant::now();
        match self.target.shell(&command.script(), input, command.deadline, sink) {
            Ok(status) => Ok(Done { status, elapsed: start.elapsed(), incidents: self.target.incidents() }),
            Err(error) if error.is_link() => Err(self.why_lost(error)),
            Err(error) => Err(error),
        }
    }

    /// Whether the link alone was lost, or the machine was booted anew: connects again to see.
    fn why_lost(&mut self, error: TargetError) -> TargetError {
        if self.address() == Address::Guest {
            // It is booted anew when it is needed, and asked again then.
            self.is_stale = true;
            return TargetError::Rebooted { target: self.address().to_string(), why: error.to_string() };
        }
        match look(self.target.as_mut()) {
            Ok(now) if now.boot_id != self.facts.boot_id => {
                self.facts = now;
                TargetError::Rebooted { target: self.address().to_string(), why: error.to_string() }
            }
            _ => error,
        }
    }

    /// A folder there in which files can be put: its user alone can write to it.
    pub fn folder(&self) -> String {
        self.facts.folder.clone()
    }

    /// Writes a file there, and its folder if need be. It has its name when it is whole.
    ///
    /// # Errors
    ///
    /// [`TargetError::Step`] if it cannot be written there.
    pub fn send(&mut self, bytes: &[u8], there: &str) -> Result<()> {
        let cannot = |error| TargetError::io("keep what is to be sent", error);
        let mut file = tempfile::tempfile().map_err(cannot)?;
        file.write_all(bytes).and_then(|()| file.rewind()).map_err(cannot)?;
        let (path, count) = (quoted(there), bytes.len());
        let script = format!(
            "mkdir -p \"$(dirname {path})\" && cat >{path}.new && [ \"$(wc -c <{path}.new)\" -eq {count} ] && \
             mv {path}.new {path}"
        );
        match self.step(&script, Some(&mut file))? {
            (0, _) => Ok(()),
            (status, said) => Err(self.failed("take a file", status, said)),
        }
    }

    /// Copies a file from there to here.
    ///
    /// # Errors
    ///
    /// [`TargetError::Step`] if there is no such file, [`TargetError::Io`] if it cannot be written here.
    pub fn fetch(&mut self, there: &str, here: &Path) -> Result<()> {
        let cannot = |error| TargetError::io(format!("write {}", here.display()), error);
        let folder = here.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
        let (mut written, mut said) = (Ok(()), Vec::new());
        let status =
            self.target.shell(&format!("cat {}", quoted(there)), None, None, &mut |stream, bytes| {
                match stream {
                    Stream::Stdout if written.is_ok() => written = file.write_all(bytes),
                    Stream::Stdout => {}
                    Stream::Stderr => keep(&mut said, bytes),
                }
            })?;
        if status != 0 {
            return Err(self.failed("give a file", status, said));
        }
        written.map_err(cannot)?;
        file.persist(here).map_err(|error| cannot(error.error))?;
        Ok(())
    }

    /// Keeps the machine until the lock is dropped: nobody else who asks gets it. The lock of a holder that died
    /// or is cut off ends within [`Ways::lock_silence`].
    ///
    /// # Errors
    ///
    /// [`TargetError::Locked`] if another has it, with who that is.
    pub fn lock(&mut self) -> Result<Lock> {
        let address = self.address();
        if is_shared(&address) {
            let silence = self.ways.lock_silence.unwrap_or(SILENCE);
            Lock::take(connect(&address, &self.ways)?, &self.facts.folder, silence)
        } else {
            Ok(Lock::of_ours_alone())
        }
    }

    /// A step of ours, which says little.
    fn step(&mut self, script: &str, input: Option<&mut File>) -> Result<(i32, Vec<u8>)> {
        let mut said = Vec::new();
        let status =
            self.target.shell(script, input, Some(STEP_LIMIT), &mut |_, bytes| keep(&mut said, bytes))?;
        Ok((status, said))
    }

    fn failed(&self, what: &'static str, status: i32, said: Vec<u8>) -> TargetError {
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let said = if said.is_empty() { format!("exit status {status}") } else { said };
        TargetError::Step { target: self.address().to_string(), what, said }
    }
}

fn connect(address: &Address, ways: &Ways) -> Result<Box<dyn Target + Send>> {
    Ok(match address {
        Address::Local => Box::new(Local),
        Address::Guest => Box::new(GuestTarget::usual()?),
        Address::Ssh { destination, port } => {
            Box::new(Ssh::new(destination, *port, ways.ssh_config.as_deref())?)
        }
        Address::Adb { serial } => Box::new(Adb::new(serial)?),
    })
}

fn keep(said: &mut Vec<u8>, bytes: &[u8]) {
    let room = MOST_SAID.saturating_sub(said.len());
    said.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn look(target: &mut dyn Target) -> Result<Facts> {
    let mut answer = Vec::new();
    let script = choose(target.folder().as_deref(), "/tmp") + ASK;
    target.shell(&script, None, Some(STEP_LIMIT), &mut |stream, bytes| {
        if stream == Stream::Stdout {
            keep(&mut answer, bytes);
        }
    })?;
    Facts::parse(&String::from_utf8_lossy(&answer), SystemTime::now())
        .map_err(|what| TargetError::Garbage { target: target.address().to_string(), what })
}
