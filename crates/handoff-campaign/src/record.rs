//! What came of a campaign, in a folder: its plan, and for each task its rounds as they come and its result.
//!
//! A task is claimed by a lock on a file of its folder (`flock`). The kernel drops it with the process, so
//! that a worker that was killed keeps nobody from its task, and no clock has to tell who is dead. Where
//! several hosts work on one campaign (Slurm), the folder is on a file system that all of them see.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use handoff_lab::clock::timestamp;
use handoff_lab::experiment::result::{ExperimentResult, RoundRecord};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{CampaignError, Result};
use crate::plan::{CampaignPlan, Task};

/// The folder of a campaign.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

/// What happened to a task, a line each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// When, in UTC.
    pub at: String,
    /// Which host the worker is on.
    pub worker: String,
    pub what: String,
    /// Whether the device's end was started: the second time and later ones go on where it was lost.
    #[serde(default)]
    pub started: bool,
}

/// Why a task has no result and will not have one by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// When, in UTC.
    pub at: String,
    pub why: String,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Waiting,
    /// A worker has it now.
    Running,
    Done,
    /// It has none, and `submit --retry` is needed for another try.
    Failed,
}

impl Folder {
    /// Where the campaign of this name is below the folder for results.
    pub fn at(results: &Path, name: &str) -> PathBuf {
        results.join("campaigns").join(name)
    }

    /// Makes the folder of a campaign, or opens it if the same campaign made it.
    pub fn make(results: &Path, plan: &CampaignPlan) -> Result<Self> {
        let folder = Folder { path: Self::at(results, &plan.name) };
        let tasks = folder.path.join("tasks");
        std::fs::create_dir_all(&tasks).map_err(CampaignError::io("make", &tasks))?;
        let file = folder.path.join("plan.json");
        if file.exists() {
            if folder.plan()?.id != plan.id {
                return Err(CampaignError::Changed { name: plan.name.clone(), folder: folder.path });
            }
        } else {
            write_whole(&file, plan)?;
        }
        Ok(folder)
    }

    pub fn open(path: &Path) -> Result<Self> {
        if !path.join("plan.json").is_file() {
            return Err(CampaignError::Nothing(path.to_owned()));
        }
        Ok(Folder { path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plan that was submitted.
    pub fn plan(&self) -> Result<CampaignPlan> {
        read(&self.path.join("plan.json"))?.ok_or_else(|| CampaignError::Nothing(self.path.clone()))
    }

    pub fn task(&self, task: Task) -> Record {
        Record { path: self.path.join("tasks").join(format!("{:06}", task.number)) }
    }
}

/// The record of a task.
#[derive(Debug, Clone)]
pub struct Record {
    path: PathBuf,
}

impl Record {
    pub fn state(&self) -> State {
        if self.path.join("result.json").is_file() {
            return State::Done;
        }
        if self.path.join("failure.json").is_file() {
            return State::Failed;
        }
        let locked = File::open(self.path.join("lock")).is_ok_and(|file| {
            // A shared lock, so that two who look do not see each other.
            matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
        });
        if locked { State::Running } else { State::Waiting }
    }

    pub fn rounds(&self) -> Result<Vec<RoundRecord>> {
        self.lines("rounds.jsonl")
    }

    pub fn notes(&self) -> Result<Vec<Note>> {
        self.lines("notes.jsonl")
    }

    pub fn result(&self) -> Result<Option<ExperimentResult>> {
        read(&self.path.join("result.json"))
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Result<Option<Failure>> {
        read(&self.path.join("failure.json"))
    }

    /// Takes the task for this process; none if another has it.
    pub fn claim(&self) -> Result<Option<Claim>> {
        std::fs::create_dir_all(&self.path).map_err(CampaignError::io("make", &self.path))?;
        let path = self.path.join("lock");
        let lock = OpenOptions::new().create(true).append(true).open(&path);
        let lock = lock.map_err(CampaignError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(CampaignError::io("lock", path)(error)),
        }
        let rounds = self.rounds()?;
        cut_torn(&self.path.join("rounds.jsonl"))?;
        cut_torn(&self.path.join("notes.jsonl"))?;
        Ok(Some(Claim { record: self.clone(), rounds, _lock: lock }))
    }

    /// Forgets that it failed, so that it is tried again. Its rounds stay.
    pub fn retry(&self) -> Result<()> {
        let path = self.path.join("failure.json");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(CampaignError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    fn lines<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        let path = self.path.join(name);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(CampaignError::io("read", &path))?,
        };
        // A line without its end was being written when the power went.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .map_err(|source| CampaignError::Damaged { path, source })
    }
}

/// A task that this process has, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    record: Record,
    rounds: Vec<RoundRecord>,
    _lock: File,
}

impl Claim {
    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn rounds(&self) -> &[RoundRecord] {
        &self.rounds
    }

    /// Keeps a round, on disk when this returns. One that is kept already changes nothing: a device tells
    /// all of its rounds again when it is asked again. Whether it was new.
    ///
    /// # Errors
    ///
    /// If it cannot be written, is not the next one, or is another one than that which is kept.
    pub fn keep(&mut self, round: &RoundRecord) -> Result<bool> {
        if let Some(known) = self.rounds.get(round.number.wrapping_sub(1)) {
            return if known == round {
                Ok(false)
            } else {
                Err(CampaignError::Contradiction { round: round.number })
            };
        }
        if round.number != self.rounds.len() + 1 {
            return Err(CampaignError::Contradiction { round: round.number });
        }
        append(&self.record.path.join("rounds.jsonl"), round)?;
        self.rounds.push(round.clone());
        Ok(true)
    }

    /// Keeps the result.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or its rounds are not those that were kept.
    pub fn finish(&mut self, result: &ExperimentResult) -> Result<()> {
        for round in &result.rounds {
            self.keep(round)?;
        }
        if self.rounds.len() != result.rounds.len() {
            return Err(CampaignError::Contradiction { round: self.rounds.len() });
        }
        write_whole(&self.record.path.join("result.json"), result)
    }

    /// Gives the task up.
    pub fn fail(&self, why: &str) -> Result<()> {
        let failure = Failure { at: timestamp(), why: why.to_owned() };
        write_whole(&self.record.path.join("failure.json"), &failure)
    }

    pub fn note(&self, what: impl Into<String>, started: bool) -> Result<()> {
        let worker = rustix::system::uname().nodename().to_string_lossy().into_owned();
        append(
            &self.record.path.join("notes.jsonl"),
            &Note { at: timestamp(), worker, what: what.into(), started },
        )
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CampaignError::io("read", path)(error)),
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| CampaignError::Damaged { path: path.to_owned(), source }),
    }
}

/// Under another name until it is whole, and on disk before it has its own.
pub(crate) fn write_whole<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let new = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    write().map_err(CampaignError::io("write", path))
}

fn append<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&line)?;
        file.sync_data()
    };
    write().map_err(CampaignError::io("write", path))
}

/// Cuts off a last line that was not whole when the power went, or the next would be written behind it.
fn cut_torn(path: &Path) -> Result<()> {
    let cut = || -> std::io::Result<()> {
        let text = std::fs::read(path)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        if whole < text.len() {
            OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        Ok(())
    };
    match cut() {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(CampaignError::io("mend", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_lab::experiment::ArmId;
    use handoff_lab::experiment::result::Sample;

    fn round(number: usize) -> RoundRecord {
        RoundRecord { number, order: ArmId::ALL.to_vec(), samples: std::collections::BTreeMap::new() }
    }

    fn record(folder: &Path) -> Record {
        Record { path: folder.join("000001") }
    }

    #[test]
    fn a_task_has_one_owner_and_is_free_when_that_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = record(folder.path());
        assert_eq!(record.state(), State::Waiting);
        let claim = record.claim().expect("possible").expect("free");
        assert!(record.claim().expect("possible").is_none());
        assert_eq!(record.state(), State::Running);
        drop(claim);
        assert_eq!(record.state(), State::Waiting);
        let claim = record.claim().expect("possible").expect("free again");
        claim.fail("it burns").expect("kept");
        assert_eq!(record.state(), State::Failed);
        assert_eq!(record.failure().expect("read").expect("there").why, "it burns");
        record.retry().expect("forgotten");
        record.retry().expect("nothing to forget");
        assert_eq!(record.state(), State::Running);
    }

    #[test]
    fn rounds_are_kept_once_and_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = record(folder.path());
        let mut claim = record.claim().expect("possible").expect("free");
        assert!(claim.keep(&round(1)).expect("kept"));
        assert!(!claim.keep(&round(1)).expect("known"), "the same once more changes nothing");
        assert!(claim.keep(&round(2)).expect("kept"));
        let mut other = round(2);
        other.order.reverse();
        assert!(matches!(claim.keep(&other), Err(CampaignError::Contradiction { round: 2 })));
        assert!(matches!(claim.keep(&round(4)), Err(CampaignError::Contradiction { round: 4 })));
        assert!(claim.keep(&round(0)).is_err());
        assert_eq!(record.rounds().expect("read"), [round(1), round(2)]);
    }

    #[test]
    fn a_round_with_any_number_is_the_same_when_it_is_told_again() {
        let mut random = handoff_lab::stats::random::Random::new(3);
        let mut told = round(1);
        // The first is read as its neighbour by a parser that only comes near.
        let numbers = std::iter::once(0.999_866_255_512_736_7).chain((0..500).map(|_| random.unit() * 3.0));
        let values = numbers.enumerate().map(|(index, value)| (format!("metric-{index}"), value)).collect();
        let sample = Sample { values, proofs: std::collections::BTreeMap::new(), flags: Vec::new() };
        told.samples.insert(ArmId::A, sample);
        let folder = tempfile::tempdir().expect("a folder");
        let record = record(folder.path());
        assert!(record.claim().expect("possible").expect("free").keep(&told).expect("kept"));
        assert_eq!(record.rounds().expect("read"), [told.clone()]);
        // As a worker that was started anew hears it.
        let mut claim = record.claim().expect("possible").expect("free");
        assert!(!claim.keep(&told).expect("the same"), "it is known");
    }

    #[test]
    fn a_line_that_was_torn_is_written_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = record(folder.path());
        record.claim().expect("possible").expect("free").keep(&round(1)).expect("kept");
        let path = record.path.join("rounds.jsonl");
        let whole = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, format!("{whole}{{\"number\":2,\"or")).expect("torn");
        assert_eq!(record.rounds().expect("read").len(), 1);
        let mut claim = record.claim().expect("possible").expect("free");
        assert!(claim.keep(&round(2)).expect("kept"));
        drop(claim);
        assert_eq!(record.rounds().expect("read").len(), 2);
        std::fs::write(&path, "no JSON\n").expect("damaged");
        assert!(record.rounds().expect_err("damaged").to_string().contains("is damaged"));
    }
}
