//! Running other programs: said before they run, and with their failure explained.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

pub(crate) use crate::root::root;

/// Where cargo builds: `CARGO_TARGET_DIR`, or `target` in the workspace.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Cargo, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// Runs `command` and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs `command` and tells whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(status(command)?.success())
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    say(command);
    command.status().with_context(|| format!("cannot run `{}`", shown(command)))
}

/// What `command` prints on standard output; fails unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` did not print text", shown(command)))
}

/// Where a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// Runs `command`, keeps the end of what it prints and tells whether it succeeded.
pub(crate) fn kept(command: &mut Command, last: &mut Last) -> Result<bool> {
    Ok(watch(command, None, |_, line| last.see(line))?.success())
}

/// Runs `command`, prints what it prints as it comes and hands each line to `see`.
///
/// Past `limit` the command and everything that it started is killed, and the call fails.
pub(crate) fn watch(
    command: &mut Command,
    limit: Option<Duration>,
    mut see: impl FnMut(Stream, &str),
) -> Result<ExitStatus> {
    say(command);
    let started = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{}`", shown(command)))?;
    let lines = lines_of(&mut child);
    loop {
        let next = match limit {
            None => lines.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(limit) => lines.recv_timeout(limit.saturating_sub(started.elapsed())),
        };
        match next {
            Ok((stream, line)) => {
                match stream {
                    Stream::Output => println!("{line}"),
                    Stream::Error => eprintln!("{line}"),
                }
                see(stream, &line);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                kill_tree(&mut child);
                bail!(
                    "`{}` was still running after {} minutes and was killed",
                    shown(command),
                    started.elapsed().as_secs() / 60
                );
            }
        }
    }
    child.wait().with_context(|| format!("cannot wait for `{}`", shown(command)))
}

/// The last lines of what commands printed.
#[derive(Debug, Default)]
pub(crate) struct Last(VecDeque<String>);

impl Last {
    /// How many there are at most.
    const MOST: usize = 60;

    pub(crate) fn see(&mut self, line: &str) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// The lines of the child's standard output and error, until both close.
fn lines_of(child: &mut Child) -> mpsc::Receiver<(Stream, String)> {
    fn read(from: impl Read + Send + 'static, stream: Stream, sender: mpsc::Sender<(Stream, String)>) {
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                if sender.send((stream, String::from_utf8_lossy(&line).into_owned())).is_err() {
                    break;
                }
            }
        });
    }
    let (sender, receiver) = mpsc::channel();
    read(child.stdout.take().expect("standard output is a pipe"), Stream::Output, sender.clone());
    read(child.stderr.take().expect("standard error is a pipe"), Stream::Error, sender);
    receiver
}

/// Kills the child and all that it started. They share our process group, so that Ctrl-C reaches them;
/// hence the walk. Each is stopped before its children are listed, so that it cannot start another.
fn kill_tree(child: &mut Child) {
    let signal = |signal: &str, process: u32| {
        drop(Command::new("kill").args([signal, &process.to_string()]).stderr(Stdio::null()).status());
    };
    let mut doomed = vec![child.id()];
    let mut next = 0;
    while let Some(parent) = doomed.get(next).copied() {
        signal("-STOP", parent);
        doomed.extend(children_of(parent));
        next += 1;
    }
    doomed.into_iter().for_each(|process| signal("-KILL", process));
    drop(child.wait());
}

/// The processes whose parent is `parent` (`/proc/PID/stat`, field 4; the name before it may have spaces).
fn children_of(parent: u32) -> Vec<u32> {
    let parent_of = |process: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process| parent_of(*process) == Some(parent))
        .collect()
}

/// The program's path, if it is found where a shell would look.
pub(crate) fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/sbin".into()]); // Where an ordinary user's PATH does not lead.
    folders.into_iter().map(|folder| folder.join(program.as_ref())).find(|file| file.is_file())
}

/// Whether this process may install packages.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn say(command: &Command) {
    println!("\n$ {}", shown(command));
}

/// The command as one could type it, with the variables that it sets: but for search paths, which are
/// long and say nothing.
fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value.filter(|_| !["PATH", "LD_LIBRARY_PATH"].iter().any(|long| name == *long))?;
        Some(format!("{}={}", name.to_string_lossy(), quoted(value)))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("cargo");
        command.args(["test", "-p", "a b"]).env("RUSTFLAGS", "--cfg loom").env("PATH", "/a:/b");
        assert_eq!(shown(&command), "RUSTFLAGS='--cfg loom' cargo test -p 'a b'");
    }

    #[test]
    fn every_line_is_seen() {
        let mut seen = Vec::new();
        let mut command = Command::new("printf");
        let status = watch(command.arg("one\\ntwo\\nthree"), None, |_, line| seen.push(line.to_owned()));
        assert!(status.expect("printf runs").success());
        assert_eq!(seen, ["one", "two", "three"]);
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        let status = watch(command.args(["-c", "echo why >&2; exit 3"]), None, |stream, line| {
            seen.push((stream, line.to_owned()));
        });
        assert_eq!((status.expect("sh runs").code(), seen), (Some(3), vec![(Stream::Error, "why".into())]));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut last = Last::default();
        (0..100).for_each(|line| last.see(&line.to_string()));
        assert!(last.text().starts_with("40\n") && last.text().ends_with("99\n"));
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        let mut child = String::new();
        let outcome = watch(&mut command, Some(Duration::from_secs(5)), |_, line| child = line.to_owned());
        assert!(outcome.unwrap_err().to_string().contains("was killed"));
        let stat = Path::new("/proc").join(&child).join("stat");
        let deadline = Instant::now() + Duration::from_secs(20);
        // Killed, it may stay a zombie where nobody reaps orphans.
        let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !gone() {
            assert!(Instant::now() < deadline, "process {child} is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_tools_of_an_administrator_are_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-here"), None);
    }
}
