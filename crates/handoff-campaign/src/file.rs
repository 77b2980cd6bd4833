//! Campaign files: TOML, checked as a whole before anything is started, experiments included.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_lab::experiment::file::FileError;
use handoff_targets::Address;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// A task may take so long unless the file says otherwise.
const DEADLINE: Duration = Duration::from_secs(4 * 3600);
/// A task is given up after so many tries in a row without a new round, unless the file says otherwise.
const ATTEMPTS: u32 = 5;
/// More tasks than this are a mistake.
pub const MOST_TASKS: usize = 1_000_000;
/// An experiment is a page, not a book: it travels to each device.
const LONGEST: usize = 256 << 10;

/// A campaign that was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Its name, which is that of its folder.
    pub name: String,
    /// The experiment files, as the file names them, and what is in them.
    pub experiments: Vec<(PathBuf, String)>,
    /// Parameters of the experiments' workloads, each with the values that it takes.
    pub parameters: Vec<(String, Vec<toml::Value>)>,
    pub targets: Vec<Device>,
    /// Decides the order of tasks on each device.
    pub seed: u64,
    /// A task that takes longer is killed and counts as failed.
    pub deadline: Duration,
    /// A task is given up after so many tries in a row without a new round.
    pub attempts: u32,
    /// How it is submitted to Slurm.
    pub slurm: Slurm,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What reports call it.
    pub name: String,
    /// How it is reached: by the engine `local` from here, by Slurm from its node.
    pub address: String,
    /// The handoff that is put there, if it is not the one that runs here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// The Slurm node that it is, or hangs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Features that the node must have (`--constraint`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// A generic resource that the task needs (`--gres`), such as an Android device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
}

/// `[slurm]`: how a campaign is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// `--nice`: more of it makes the campaign wait for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// `--exclusive`: nothing else runs on the node meanwhile. Off only where devices hang on a node.
    pub exclusive: bool,
    /// More options of `sbatch`, as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Default for Slurm {
    fn default() -> Self {
        Slurm { partition: None, account: None, qos: None, nice: None, exclusive: true, options: Vec::new() }
    }
}

/// What a file may hold. Unknown keys are errors everywhere.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    name: Spanned<String>,
    experiments: Spanned<Vec<Spanned<PathBuf>>>,
    #[serde(default)]
    targets: Vec<Spanned<String>>,
    #[serde(default)]
    target: Vec<Spanned<DeviceForm>>,
    #[serde(default)]
    parameters: BTreeMap<Spanned<String>, Spanned<Vec<toml::Value>>>,
    #[serde(default)]
    seed: Option<u64>,
    deadline_seconds: Option<Spanned<f64>>,
    attempts: Option<Spanned<u32>>,
    slurm: Option<Spanned<Slurm>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[target]]; a plain address goes into `targets`")]
struct DeviceForm {
    address: Spanned<String>,
    name: Option<Spanned<String>>,
    program: Option<Spanned<PathBuf>>,
    node: Option<Spanned<String>>,
    #[serde(default)]
    features: Vec<Spanned<String>>,
    gres: Option<Spanned<String>>,
}

impl Campaign {
    /// Reads and checks a file, and the experiment files that it names, which are found from its folder.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(|error| FileError::unreadable(path, &error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(path, &text, &|experiment| std::fs::read_to_string(folder.join(experiment)))
    }

    /// Checks the text of a file. `path` is for its errors, and `experiment` gives the text of the
    /// experiment files that it names.
    pub fn parse(
        path: &Path,
        text: &str,
        experiment: &dyn Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Self, FileError> {
        let reader = Reader { path, text };
        let form: FileForm = toml::from_str(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), suggest(error.message())))?;
        let experiments = reader.experiments(&form.experiments, experiment)?;
        let targets = reader.targets(&form)?;
        let parameters = form.parameters.iter().map(|(name, values)| {
            if values.get_ref().is_empty() {
                return Err(reader.error(values.span(), "a parameter has at least one value"));
            }
            Ok((name.get_ref().clone(), values.get_ref().clone()))
        });
        let deadline = match &form.deadline_seconds {
            None => DEADLINE,
            Some(seconds) if (1.0..=1e7).contains(seconds.get_ref()) => {
                Duration::from_secs_f64(*seconds.get_ref())
            }
            Some(seconds) => {
                let message =
                    format!("deadline_seconds is {}; 1 to 10000000 are possible", seconds.get_ref());
                return Err(reader.error(seconds.span(), message));
            }
        };
        let attempts = match &form.attempts {
            None => ATTEMPTS,
            Some(count) if (1..=1000).contains(count.get_ref()) => *count.get_ref(),
            Some(count) => {
                let message = format!("attempts is {}; 1 to 1000 are possible", count.get_ref());
                return Err(reader.error(count.span(), message));
            }
        };
        let slurm = form.slurm.as_ref().map(|slurm| reader.slurm(slurm)).transpose()?.unwrap_or_default();
        Ok(Campaign {
            name: reader.name(&form.name)?,
            experiments,
            parameters: parameters.collect::<Result<_, _>>()?,
            targets,
            seed: form.seed.unwrap_or(1),
            deadline,
            attempts,
            slurm,
        })
    }
}

/// A file that is being read.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        FileError::at(self.path, self.text, span, message)
    }

    /// A name that is also that of a folder.
    fn name(&self, name: &Spanned<String>) -> Result<String, FileError> {
        let text = name.get_ref();
        let sound = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if (1..=100).contains(&text.len()) && text.chars().all(sound) && !text.starts_with('.') {
            return Ok(text.clone());
        }
        let message =
            format!("{text:?} is no name: letters, digits, `-`, `_` and `.` make one, 100 of them at most");
        Err(self.error(name.span(), message))
    }

    /// What becomes an argument of a program.
    fn word(&self, span: Range<usize>, text: &str) -> Result<(), FileError> {
        if !text.is_empty() && text.len() <= 1000 && text.chars().all(|c| c.is_ascii_graphic()) {
            return Ok(());
        }
        Err(self.error(span, format!("{text:?} is no single word")))
    }

    fn slurm(&self, form: &Spanned<Slurm>) -> Result<Slurm, FileError> {
        let slurm = form.get_ref();
        let named = [&slurm.partition, &slurm.account, &slurm.qos].into_iter().flatten();
        for word in named.chain(&slurm.options) {
            self.word(form.span(), word)?;
        }
        Ok(slurm.clone())
    }

    fn experiments(
        &self,
        files: &Spanned<Vec<Spanned<PathBuf>>>,
        read: &dyn Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Vec<(PathBuf, String)>, FileError> {
        if files.get_ref().is_empty() {
            return Err(self.error(files.span(), "a campaign has at least one experiment"));
        }
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for file in files.get_ref() {
            let path = file.get_ref();
            if !seen.insert(path) {
                return Err(self.error(file.span(), format!("{} is there twice", path.display())));
            }
            let text = read(path).map_err(|error| {
                self.error(file.span(), format!("cannot read {}: {error}", path.display()))
            })?;
            if text.len() > LONGEST {
                let message = format!("{} has {} bytes; {LONGEST} at most", path.display(), text.len());
                return Err(self.error(file.span(), message));
            }
            all.push((path.clone(), text));
        }
        Ok(all)
    }

    fn targets(&self, form: &FileForm) -> Result<Vec<Device>, FileError> {
        let plain = form.targets.iter().map(|address| Ok((address.span(), self.device(address, None)?)));
        let named = form.target.iter().map(|target| {
            Ok((target.span(), self.device(&target.get_ref().address, Some(target.get_ref()))?))
        });
        let mut all: Vec<Device> = Vec::new();
        for target in plain.chain(named) {
            let (span, device) = target?;
            if all.iter().any(|other| other.name == device.name) {
                let message = format!("two targets are called {:?}: give one another `name`", device.name);
                return Err(self.error(span, message));
            }
            all.push(device);
        }
        if all.is_empty() {
            let message = "a campaign has at least one target: targets = [\"local\"], or a table [[target]]";
            return Err(self.error(form.name.span(), message));
        }
        Ok(all)
    }

    fn device(&self, address: &Spanned<String>, form: Option<&DeviceForm>) -> Result<Device, FileError> {
        let parsed: Address = address
            .get_ref()
            .parse()
            .map_err(|error: handoff_targets::TargetError| self.error(address.span(), error.to_string()))?;
        let words = |word: &Option<Spanned<String>>| -> Result<Option<String>, FileError> {
            word.as_ref()
                .map(|word| self.word(word.span(), word.get_ref()).map(|()| word.get_ref().clone()))
                .transpose()
        };
        let Some(form) = form else {
            return Ok(Device {
                name: parsed.to_string(),
                address: parsed.to_string(),
                program: None,
                node: None,
                features: Vec::new(),
                gres: None,
            });
        };
        for feature in &form.features {
            self.word(feature.span(), feature.get_ref())?;
        }
        Ok(Device {
            name: words(&form.name)?.unwrap_or_else(|| parsed.to_string()),
            address: parsed.to_string(),
            program: form.program.as_ref().map(|program| program.get_ref().clone()),
            node: words(&form.node)?,
            features: form.features.iter().map(|feature| feature.get_ref().clone()).collect(),
            gres: words(&form.gres)?,
        })
    }
}

/// The parser's message, with the known key that an unknown one was probably meant to be.
fn suggest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (true, Some(unknown)) = (message.starts_with("unknown field"), quoted.next()) else {
        return message.to_owned();
    };
    let near = quoted.map(|known| (strsim::damerau_levenshtein(unknown, known), known)).min();
    match near {
        Some((distance, known)) if distance <= 1 + known.len() / 4 => {
            format!("{message}; did you mean `{known}`?")
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str =
        "name = \"rack\"\nexperiments = [\"a.toml\"]\ntargets = [\"local\", \"ssh://lab-1\"]\n";

    fn parse(text: &str) -> Result<Campaign, FileError> {
        Campaign::parse(Path::new("c.toml"), text, &|path| {
            if path == Path::new("missing.toml") {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            Ok("title = \"t\"".to_owned())
        })
    }

    #[test]
    fn a_file_has_what_it_says_and_the_rest_as_usual() {
        let campaign = parse(GOOD).expect("sound");
        assert_eq!((campaign.name.as_str(), campaign.seed, campaign.attempts), ("rack", 1, 5));
        assert_eq!(campaign.targets[1].name, "ssh://lab-1");
        assert!(campaign.slurm.exclusive);
        let more = format!(
            "seed = 9\ndeadline_seconds = 60\nattempts = 2\n{GOOD}[parameters]\ntasks = [1, 2]\n\
             [[target]]\naddress = \"adb://x\"\nname = \"phone\"\nnode = \"n1\"\nfeatures = [\"arm64\"]\ngres = \"adb:1\"\n\
             [slurm]\npartition = \"lab\"\nexclusive = false\n"
        );
        let campaign = parse(&more).expect("sound");
        assert_eq!((campaign.seed, campaign.attempts, campaign.deadline.as_secs()), (9, 2, 60));
        assert_eq!(campaign.parameters, [("tasks".to_owned(), vec![1.into(), 2.into()])]);
        assert_eq!(
            (campaign.targets[2].name.as_str(), campaign.targets[2].gres.as_deref()),
            ("phone", Some("adb:1"))
        );
        assert!(!campaign.slurm.exclusive);
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_what_was_meant() {
        for (text, place, says) in [
            ("name = \"rack\"\nexperimets = []\n", "c.toml:2:1", "did you mean `experiments`?"),
            ("name = \"../x\"\nexperiments = [\"a\"]\ntargets = [\"local\"]\n", "c.toml:1:8", "is no name"),
            (
                "name = \"x\"\nexperiments = []\ntargets = [\"local\"]\n",
                "c.toml:2:15",
                "at least one experiment",
            ),
            ("name = \"x\"\nexperiments = [\"missing.toml\"]\n", "c.toml:2:16", "cannot read missing.toml"),
            ("name = \"x\"\nexperiments = [\"a\", \"a\"]\n", "c.toml:2:21", "twice"),
            ("name = \"x\"\nexperiments = [\"a\"]\n", "c.toml:1:8", "at least one target"),
            (
                "name = \"x\"\nexperiments = [\"a\"]\ntargets = [\"lab\"]\n",
                "c.toml:3:12",
                "`lab` is no target",
            ),
            (
                "name = \"x\"\nexperiments = [\"a\"]\ntargets = [\"local\", \"local\"]\n",
                "c.toml:3:21",
                "another `name`",
            ),
            (
                "name = \"x\"\nexperiments = [\"a\"]\ntargets = [\"local\"]\nattempts = 0\n",
                "c.toml:4:12",
                "1 to 1000",
            ),
            (
                "name = \"x\"\nexperiments = [\"a\"]\ntargets = [\"local\"]\ndeadline_seconds = nan\n",
                "c.toml:4:20",
                "are possible",
            ),
            (
                "name = \"x\"\nexperiments = [\"a\"]\ntargets = [\"local\"]\n[parameters]\ntasks = []\n",
                "c.toml:5:9",
                "at least one value",
            ),
            (
                "name = \"x\"\nexperiments = [\"a\"]\n[[target]]\naddres = \"local\"\n",
                "c.toml:4:1",
                "did you mean `address`?",
            ),
            (
                "name = \"x\"\nexperiments = [\"a\"]\ntargets = [\"local\"]\n[slurm]\npartition = \"a b\"\n",
                "c.toml:4:1",
                "no single word",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(place) && error.contains(says), "{text}\n{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_campaign_or_an_error(text in "\\PC{0,80}", at in 0..GOOD.len()) {
            for text in [text.clone(), format!("{}{text}\n{}", &GOOD[..at], &GOOD[at..])] {
                if let Err(error) = parse(&text) {
                    prop_assert!(error.line >= 1 && error.column >= 1);
                }
            }
        }
    }
}
