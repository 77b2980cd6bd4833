//! The steps of a study, each from what the last one left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::boot::Boot;
use super::file::Study;
use super::state::{Done, State, Step};
use super::tree::{Stage, StudyTree, copy_tree, read_series};
use super::{Measure, Measured, Options, StudyError};
use crate::analyse::{self, analyse};
use crate::build::{
    Base, Built, KernelArch, KernelBuild, RECIPE, Toolchain, fetch_source, is_built_in_fragment,
};
use crate::document::{Block, code, counted, lowered, plain};
use crate::patch::Series;
use crate::port::PortReport;
use crate::prove::{Finding, Proof};

/// What is kept of a build besides the image.
const KEPT: [&str; 3] = [".config", "build.log", RECIPE];

/// The steps with what they share.
pub(super) struct Chain<'a> {
    study: &'a Study,
    options: &'a Options<'a>,
    work: &'a Path,
    state: &'a mut State,
    feature: Series,
    keys: Vec<(Step, String)>,
    /// Steps that needed not be done again.
    pub(super) kept: Vec<Step>,
    /// The step that is being done.
    pub(super) at: Option<Step>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(
        study: &'a Study,
        options: &'a Options<'a>,
        work: &'a Path,
        state: &'a mut State,
    ) -> Result<Self, StudyError> {
        let feature = read_series(&study.feature.patches)?;
        let keys = keys(study, &feature)?;
        // What no longer fits the file must not stand in the document.
        let fits =
            |step: &Step, done: &Done| keys.iter().any(|(known, key)| known == step && *key == done.key);
        state.done.retain(|step, done| fits(step, done));
        Ok(Self { study, options, work, state, feature, keys, kept: Vec::new(), at: None })
    }

    pub(super) fn run(&mut self, measure: &mut Measure<'_>) -> Result<(), StudyError> {
        for step in Step::ALL {
            if step > self.options.until || step == Step::Measure && self.study.measure.is_none() {
                break;
            }
            let key = self.key(step).to_owned();
            let is_done = |done: &Done| done.finished && done.key == key;
            if self.state.done.get(&step).is_some_and(is_done) && self.is_there(step)? {
                (self.options.tell)(&format!("{step}: done before"));
                self.kept.push(step);
                continue;
            }
            match step {
                // What is built anew may be another kernel than what follows was made of.
                Step::BuildWithout | Step::BuildWith => self.state.forget(step)?,
                _ => drop(self.state.done.remove(&step)),
            }
            (self.options.tell)(&format!("{step} ..."));
            self.at = Some(step);
            let started = Instant::now();
            let Measured { summary, good, finished, blocks } = self.step(step, measure)?;
            let seconds = started.elapsed().as_secs_f64();
            (self.options.tell)(&format!("{step}: {summary} ({seconds:.1} s)"));
            self.state.keep(step, Done { key, seconds, summary, good, finished, blocks })?;
        }
        Ok(())
    }

    fn key(&self, step: Step) -> &str {
        self.keys.iter().find(|(known, _)| *known == step).map_or("", |(_, key)| key)
    }

    /// Whether the files of a step that is done are still there, and what would be made now.
    fn is_there(&self, step: Step) -> Result<bool, StudyError> {
        Ok(match step {
            Step::Source => self.tree().join("Makefile").is_file(),
            Step::BuildWithout => self.is_built(Stage::Without)?,
            Step::BuildWith => self.is_built(Stage::With)?,
            _ => true,
        })
    }

    /// Whether a kernel is there that was configured as it would be now: the keys know the guest's
    /// fragment by its name alone.
    fn is_built(&self, stage: Stage) -> Result<bool, StudyError> {
        if !self.image(stage).is_file() {
            return Ok(false);
        }
        let kept = [self.folder(stage), self.build_folder()].map(|folder| folder.join(RECIPE));
        let Some(recipe) = kept.iter().find_map(|file| fs::read_to_string(file).ok()) else {
            return Ok(false);
        };
        Ok(self.kernel_build()?.is_made_of(&recipe)?)
    }

    fn tree(&self) -> PathBuf {
        let package = self.study.source.package.as_deref().unwrap_or("tree");
        // The suite that a package is of is not in its tree's name.
        self.work.join(package.split('/').next().unwrap_or(package))
    }

    fn folder(&self, stage: Stage) -> PathBuf {
        self.work.join(match stage {
            Stage::Without => "without",
            Stage::With => "with",
        })
    }

    fn image(&self, stage: Stage) -> PathBuf {
        self.folder(stage).join("image")
    }

    fn step(&self, step: Step, measure: &mut Measure<'_>) -> Result<Measured, StudyError> {
        match step {
            Step::Source => self.source(),
            Step::Analyse => self.analyse(),
            Step::BuildWithout => self.build(Stage::Without),
            Step::Port => self.port(),
            Step::BuildWith => self.build(Stage::With),
            Step::Prove => self.prove(),
            Step::Measure => measure(self.study, [&self.boot(Stage::Without), &self.boot(Stage::With)]),
        }
    }

    /// Brings the tree to a stage, whatever it was at.
    fn stage(&self, stage: Stage) -> Result<Option<PortReport>, StudyError> {
        let (prepare, made_for) = (&self.study.source.prepare, self.study.feature.made_for.as_deref());
        let key = self.key(if stage == Stage::With { Step::Port } else { Step::Source });
        StudyTree::new(self.tree(), self.work).bring_to(stage, prepare, &self.feature, made_for, key)
    }

    fn source(&self) -> Result<Measured, StudyError> {
        let tree = self.tree();
        if !tree.join("Makefile").is_file() {
            if let Some(package) = &self.study.source.package {
                fetch_source(package, self.work, None, self.options.tell)?;
            } else if let Some(from) = &self.study.source.tree {
                copy_tree(from, &tree)?;
            }
        }
        self.stage(Stage::Without)?;
        let source = &self.study.source;
        let what = source.package.clone().unwrap_or_else(|| {
            source
                .tree
                .as_ref()
                .and_then(|tree| tree.file_name())
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        });
        let mut blocks = vec![
            Block::Heading(2, "The tree".to_owned()),
            Block::Text(format!("Both kernels are built from {}.", code(&what))),
        ];
        if !source.prepare.is_empty() {
            let names = source.prepare.iter().map(|path| {
                let subjects = read_series(path).map(|series| {
                    series.patches.iter().map(|patch| plain(&patch.subject)).collect::<Vec<_>>().join("; ")
                });
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{}: {}", code(&name), subjects.unwrap_or_default())
            });
            blocks.push(Block::Text("Patches that both of them have:".to_owned()));
            blocks.push(Block::List(names.collect()));
        }
        Ok(Measured { summary: what, good: true, finished: true, blocks })
    }

    fn analyse(&self) -> Result<Measured, StudyError> {
        self.stage(Stage::Without)?;
        let cache = self.work.join("analysis");
        let options = analyse::Options { cache: Some(cache), ..analyse::Options::default() };
        let analysis = analyse(&self.feature, &self.tree(), &options)?;
        let summary = format!(
            "{} and {} change in {}",
            counted(analysis.functions.len(), "function"),
            counted(analysis.interfaces.len(), "interface"),
            counted(analysis.stats.len(), "file")
        );
        let mut blocks = vec![Block::Heading(2, "What the patches change".to_owned())];
        blocks.extend(lowered(analysis.blocks(), 2));
        Ok(Measured { summary, good: true, finished: true, blocks })
    }

    fn port(&self) -> Result<Measured, StudyError> {
        // Once more from the prepared tree, even if it is ported already: the report is wanted.
        StudyTree::new(self.tree(), self.work).restore()?;
        let report = self.stage(Stage::With)?;
        let Some(report) = report else {
            return Err(StudyError::Measure("the tree did not change its stage".to_owned()));
        };
        let rows = report.patches.iter().flat_map(|patch| &patch.files).flat_map(|file| {
            file.hunks.iter().map(|hunk| {
                let place = |line: Option<usize>| line.map_or_else(String::new, |line| line.to_string());
                vec![
                    code(file.onto.as_deref().unwrap_or(&file.path)),
                    hunk.number.to_string(),
                    hunk.outcome.word().to_owned(),
                    hunk.asked.to_string(),
                    place(hunk.placed),
                    hunk.enclosing.as_ref().map_or_else(String::new, |scope| code(&scope.name)),
                    plain(&hunk.differences.join("; ")),
                ]
            })
        });
        let counts = report.counts;
        let kinds = [
            (counts.applied, "where asked for"),
            (counts.moved, "moved"),
            (counts.present, "there before"),
            (counts.fuzzy, "fuzzy"),
        ];
        let kinds = kinds.iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds.map(|(count, what)| format!("{count} {what}")).collect();
        let summary = format!("{}: {}", counted(counts.total(), "hunk"), kinds.join(", "));
        let heads = ["file", "hunk", "outcome", "asked for line", "belongs at", "in", "what differs"];
        let mut blocks = vec![
            Block::Heading(2, "The patches on this tree".to_owned()),
            Block::table(&heads, rows.collect()),
        ];
        if counts.fuzzy > 0 {
            blocks.push(Block::Text(
                "**Fuzzy hunks were placed by likeness**: read them before you believe what follows."
                    .to_owned(),
            ));
        }
        let name = self.tree();
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        blocks.push(Block::Text(format!(
            "The tree with the patches is left in {} of the work folder; the files as they came are in `original`.",
            code(&name)
        )));
        Ok(Measured { summary, good: true, finished: true, blocks })
    }

    fn build(&self, stage: Stage) -> Result<Measured, StudyError> {
        self.stage(stage)?;
        let build = self.kernel_build()?;
        let built = build.run_watched(&mut |_| {})?;
        let folder = self.folder(stage);
        fs::create_dir_all(&folder).map_err(StudyError::io("make", &folder))?;
        let image = self.image(stage);
        fs::copy(&built.image, &image).map_err(StudyError::io("keep", &built.image))?;
        for name in KEPT {
            let (from, to) = (self.build_folder().join(name), folder.join(name));
            if from.is_file() {
                fs::copy(&from, to).map_err(StudyError::io("keep", &from))?;
            }
        }
        // The compiler's notes fit the counts of this image alone.
        for file in &self.study.build.count_branches {
            let notes = file.with_extension("gcno");
            let (from, to) = (self.build_folder().join(&notes), folder.join(&notes));
            if let (true, Some(parent)) = (from.is_file(), to.parent()) {
                fs::create_dir_all(parent).map_err(StudyError::io("make", parent))?;
                fs::copy(&from, &to).map_err(StudyError::io("keep", &from))?;
            }
        }
        let size = fs::metadata(&image).map_err(StudyError::io("look at", &image))?.len();
        Ok(self.built(stage, &built, size))
    }

    fn built(&self, stage: Stage, built: &Built, size: u64) -> Measured {
        let title = match stage {
            Stage::Without => "The kernel without the feature",
            Stage::With => "The kernel with the feature",
        };
        let ccache = if built.ccache { ", through ccache" } else { "" };
        let (files, seconds) = (counted(built.compiled, "file"), built.elapsed.as_secs_f64());
        let compiled = format!("{files} compiled in {seconds:.1} s{ccache}");
        let plan = &self.study.build;
        let asked = [format!("base {}", code(&plan.base))]
            .into_iter()
            .chain(plan.fragments.iter().map(|name| format!("fragment {}", code(name))))
            .chain(plan.set.iter().map(|set| code(set)));
        let compiler = fs::read_to_string(&built.config).ok();
        let compiler = compiler.as_deref().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="))?;
            Some(format!(", by {}", plain(line.trim_matches('"'))))
        });
        let folder = self.folder(stage);
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        let mut items = vec![
            format!("release {}, an image of {:.1} MB", code(&built.release), size as f64 / 1e6),
            format!("{compiled}{}", compiler.unwrap_or_default()),
            format!("configuration: {}", asked.collect::<Vec<_>>().join(", ")),
            format!("the image, its configuration and the log of its build are in {}", code(&folder)),
        ];
        for file in &self.study.build.visible {
            items.push(format!(
                "small functions of {} are kept out of line",
                code(&file.display().to_string())
            ));
        }
        items.extend(built.notes.iter().map(|note| plain(note)));
        let mut blocks = vec![Block::Heading(2, title.to_owned()), Block::List(items)];
        if let Some(first) = built.warnings.first() {
            let count = built.warnings.len();
            blocks.push(Block::Text(format!("The compiler gives {}, first:", counted(count, "warning"))));
            blocks.push(Block::Lines(first.to_string()));
        }
        Measured { summary: format!("{}: {compiled}", built.release), good: true, finished: true, blocks }
    }

    fn build_folder(&self) -> PathBuf {
        self.work.join("build")
    }

    fn kernel_build(&self) -> Result<KernelBuild, StudyError> {
        let plan = &self.study.build;
        let arch =
            plan.arch.as_ref().and_then(|arch| arch.parse::<KernelArch>().ok()).or_else(KernelArch::host);
        let mut build = KernelBuild::new(self.tree(), self.build_folder())
            .base(match plan.base.as_str() {
                "tiny" => Base::Tiny,
                "def" => Base::Default,
                file => Base::File(file.into()),
            })
            .stopper(self.options.stopper);
        if let Some(arch) = arch {
            build = build.arch(arch);
        }
        if let Some(jobs) = self.options.jobs {
            build = build.jobs(jobs);
        }
        build = build.fragments(&plan.fragments)?;
        if plan.fetch_toolchain {
            build = build.toolchain(Toolchain::fetch(None, &|_| {})?);
        }
        for setting in &plan.set {
            let prefix = if setting.starts_with("CONFIG_") { "" } else { "CONFIG_" };
            build = build.fragment("set", &format!("{prefix}{setting}"))?;
        }
        let build = plan.visible.iter().fold(build, |build, file| build.visible(file));
        Ok(plan.count_branches.iter().fold(build, |build, file| build.count_branches(file)))
    }

    fn boot(&self, stage: Stage) -> Boot {
        let plan = &self.study.proof;
        let probes = if stage == Stage::With { &plan.with } else { &plan.without };
        Boot::new(
            &self.image(stage),
            &self.folder(stage),
            &self.study.guest,
            &self.options.handoff,
            plan,
            probes,
        )
    }

    fn prove(&self) -> Result<Measured, StudyError> {
        let plan = &self.study.proof;
        let words = plan.load.iter().map(String::as_str);
        let program = (!plan.raw).then_some("handoff");
        let mut blocks = vec![
            Block::Heading(2, "Proof".to_owned()),
            Block::Text(format!(
                "Each kernel was booted with {} and ran {}.",
                code(&self.study.guest.spec.cpus()),
                code(&program.into_iter().chain(words).collect::<Vec<_>>().join(" "))
            )),
        ];
        let mut good = true;
        for stage in [Stage::Without, Stage::With] {
            let proof = self.proof(stage)?;
            good &= proof.holds();
            let word = match stage {
                Stage::Without => "Without the feature",
                Stage::With => "With the feature",
            };
            let verdict = if proof.holds() { "as expected" } else { "**not as expected**" };
            blocks.push(Block::Heading(3, word.to_owned()));
            blocks.push(Block::Text(format!(
                "{verdict}; the load took {:.1} s and ended with status {}.",
                proof.seconds, proof.status
            )));
            blocks.push(Block::table(
                &["probe", "expected", "counted", "by", "holds", "note"],
                proof.findings.iter().map(row).collect(),
            ));
            if !proof.incidents.is_empty() {
                blocks.push(Block::Text("The kernel reported trouble:".to_owned()));
                blocks.push(Block::Lines(proof.incidents.join("\n")));
            }
            if proof.status != 0 {
                blocks.push(Block::Lines(proof.output));
            }
        }
        let summary = if good { "executed with the feature, and not without" } else { "NOT proved" };
        Ok(Measured { summary: summary.to_owned(), good, finished: true, blocks })
    }

    /// Boots one kernel under the probes; its console is kept whatever becomes of it.
    fn proof(&self, stage: Stage) -> Result<Proof, StudyError> {
        let said = Arc::new(Mutex::new(String::new()));
        let keep = {
            let said = Arc::clone(&said);
            move |line: &str| {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_str(line);
                said.push('\n');
            }
        };
        let boot = self.boot(stage);
        let proof = boot.start(self.options.stopper, keep).and_then(|mut guest| boot.prove(&mut guest));
        let log = self.folder(stage).join("serial.log");
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        fs::write(&log, said.as_bytes()).map_err(StudyError::io("write", &log))?;
        proof
    }
}

fn row(finding: &Finding) -> Vec<String> {
    let mut note = finding.note.clone().unwrap_or_default();
    for branch in &finding.branches {
        note.push_str(&format!(" {branch};"));
    }
    vec![
        code(&finding.probe.what.to_string()),
        finding.probe.expect.to_string(),
        finding.count.map_or_else(|| "-".to_owned(), |count| count.to_string()),
        finding.means.clone(),
        if finding.holds { "yes".to_owned() } else { "**no**".to_owned() },
        plain(note.trim()),
    ]
}

/// What each step depends on: its own part of the file, and what the steps before it depend on.
///
/// Patches and fragments count by what they say, not by where they are: the same study from another
/// clone goes on with what is there.
fn keys(study: &Study, feature: &Series) -> Result<Vec<(Step, String)>, StudyError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(StudyError::io("read", path));
    let prepared: Vec<String> =
        study.source.prepare.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let said = |name: &String, is_word: bool| if is_word { Ok(name.clone()) } else { read(Path::new(name)) };
    let build = &study.build;
    let fragments: Vec<String> = build
        .fragments
        .iter()
        .map(|name| said(name, is_built_in_fragment(name)))
        .collect::<Result<_, _>>()?;
    let base = said(&build.base, ["tiny", "def"].contains(&build.base.as_str()))?;
    let build = super::file::Build { base, fragments, ..build.clone() };
    let patches: Vec<_> =
        feature.patches.iter().map(|patch| (&patch.subject, &patch.message, &patch.files)).collect();
    let patches = format!("{patches:?}");
    let mut keys = Vec::new();
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    for step in Step::ALL {
        let own = match step {
            Step::Source => format!("{:?}{:?}{prepared:?}", study.source.package, study.source.tree),
            Step::Analyse | Step::BuildWith => String::new(),
            Step::BuildWithout => format!("{build:?}"),
            Step::Port => format!("{patches}{:?}", study.feature.made_for),
            Step::Prove => format!("{:?}{:?}", study.guest, study.proof),
            Step::Measure => format!("{:?}{:?}", study.measure, study.quiet),
        };
        // The patches are what is analysed, but the first kernel does not have them.
        let own_digest = fnv(digest, if step == Step::Analyse { &patches } else { &own });
        keys.push((step, format!("{own_digest:016x}")));
        if step != Step::Analyse {
            digest = own_digest;
        }
    }
    Ok(keys)
}

/// FNV-1a, going on from `digest`: unlike the standard library's, the same in every version.
fn fnv(digest: u64, text: &str) -> u64 {
    text.bytes().fold(digest, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
