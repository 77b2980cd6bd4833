//! Studies a small tree from its patches to its document. What the tree builds is the distribution's
//! kernel, so that it boots.

use std::fs;
use std::path::{Path, PathBuf};

use handoff_guest::{Acceleration, Guest, Stopper};
use handoff_kernel::document::Block;
use handoff_kernel::patch::{Input, Limits, load};
use handoff_kernel::study::{self, Boot, Measured, Options, Step, Study, StudyError, StudyOutcome};
use handoff_testkit::{require, require_guest, require_tool};

use crate::tiny::{MAKEFILE, Tree, tools};

const PREPARE: &str = "Subject: [PATCH] take the rule out\n\n---\n--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n\
    @@ -1,2 +1,2 @@\n static int wake_wide(int x) { return x * 3; }\n\
    -int select_task(int x) { return wake_wide(x); }\n+int select_task(int x) { return x; }\n";
// Made for a file with three more lines above.
const FEATURE: &str = "Subject: [PATCH] ask the rule\n\nBecause it knows.\n\n---\n--- a/kernel/sched/fair.c\n\
    +++ b/kernel/sched/fair.c\n@@ -4,2 +4,2 @@\n static int wake_wide(int x) { return x * 3; }\n\
    -int select_task(int x) { return x; }\n+int select_task(int x) { return wake_wide(x); }\n";

const STUDY: &str = r#"
title = "The rule"
question = "Is it asked?"
[source]
tree = "tree"
prepare = ["off.patch"]
[feature]
patches = "on.patch"
[build]
fragments = ["none"]
set = ["NET=y"]
[guest]
cpus = "1"
memory_mib = 512
acceleration = "tcg"
module_folder = "MODULES"
setup = "echo prepared >/tmp/setup"
[proof]
raw = true
load = ["sh", "-c", "[ -f /tmp/setup ] && for i in 1 2 3; do cat /proc/version; done"]
without = ["function:no_such_function, zero"]
with = ["function:do_sys_openat2, >= 3"]
[measure]
answer = 42
"#;

/// A folder with a study of the small tree.
struct Case {
    tree: Tree,
    stopper: Stopper,
    modules: String,
}

impl Case {
    fn new() -> Self {
        let tree = Tree::new();
        // The image that make leaves is one that boots.
        let builder = Guest::builder().acceleration(Acceleration::Tcg).memory_mib(512);
        let image = builder.prepare().expect("the distribution's kernel").image;
        // Its modules are unpacked when they are first needed.
        builder.boot().expect("it boots").shutdown();
        let modules = image.with_file_name("modules");
        let made = format!("@cp {} $(O)/$(IMAGE_$@)", image.display());
        tree.write("Makefile", &MAKEFILE.replace("@cat $^ >$(O)/$(IMAGE_$@)", &made));
        let case = Self { tree, stopper: Stopper::new(), modules: String::new() };
        case.write("off.patch", PREPARE);
        case.write("on.patch", FEATURE);
        let case = Self { modules: modules.display().to_string(), ..case };
        case.write_study(STUDY);
        case
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.tree.path(name), text).expect("written");
    }

    fn write_study(&self, text: &str) {
        self.write("study.toml", &text.replace("MODULES", &self.modules));
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.tree.path("work").join(name)).expect(name)
    }

    fn run(&self, until: Step, measure: &mut study::Measure<'_>) -> Result<StudyOutcome, StudyError> {
        let study = Study::read(&self.tree.path("study.toml"))?;
        let options = Options {
            work: self.tree.path("work"),
            handoff: PathBuf::from("/bin/true"),
            stopper: &self.stopper,
            until,
            again: None,
            jobs: Some(1),
            tell: &|_| {},
        };
        study::run(&study, &options, measure)
    }
}

#[test]
fn every_study_of_the_project_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let is_study = |path: &PathBuf| path.to_string_lossy().ends_with("-study.toml");
    let files: Vec<_> = fs::read_dir(folder)
        .expect("the folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(is_study)
        .collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let study = Study::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for patch in study.source.prepare.iter().chain([&study.feature.patches]) {
            let series = load(&Input::Path(patch.clone()), &Limits::default());
            let series = series.unwrap_or_else(|error| panic!("{}: {error}", patch.display()));
            assert!(series.patches.iter().all(|patch| !patch.files.is_empty()), "{}", patch.display());
        }
    }
}

fn measured(_: &Study, boots: [&Boot; 2]) -> Result<Measured, StudyError> {
    assert!(boots.iter().all(|boot| boot.image.is_file()) && boots[0].image != boots[1].image);
    let blocks = vec![Block::Text("the measurement says 42".to_owned())];
    Ok(Measured { summary: "42".to_owned(), good: true, finished: true, blocks })
}

/// What a busy host leaves of a measurement.
fn cut_short(_: &Study, _: [&Boot; 2]) -> Result<Measured, StudyError> {
    let blocks = vec![Block::Text("three rounds so far".to_owned())];
    Ok(Measured { summary: "cut short".to_owned(), good: false, finished: false, blocks })
}

fn never(_: &Study, _: [&Boot; 2]) -> Result<Measured, StudyError> {
    Err(StudyError::Measure("nobody asked for it".to_owned()))
}

#[test]
fn a_study_goes_from_patches_to_a_document_and_on_where_it_stopped() {
    require!(tools());
    require!(require_guest());
    let case = Case::new();
    let first = case.run(Step::Port, &mut never).expect("the first steps");
    assert_eq!(first.steps.len(), 4);
    assert!(case.read("tree/kernel/sched/fair.c").contains("return wake_wide(x)"));
    assert!(case.read("study.md").contains("not done"), "the document says what lacks");

    let busy = case.run(Step::Measure, &mut cut_short).expect("a document all the same");
    assert!(!busy.is_good() && case.read("study.md").contains("three rounds so far"));
    let whole = case.run(Step::Measure, &mut measured).expect("the rest");
    assert!(
        whole.is_good(),
        "{:?}",
        whole.steps.iter().map(|(step, done)| (step, &done.summary)).collect::<Vec<_>>()
    );
    assert_eq!(whole.kept, Step::ALL[..6], "what was cut short goes on");
    let text = case.read("study.md");
    for part in [
        "# The rule",
        "take the rule out",
        "Because it knows.",
        "`select_task`",
        "| moved | 5 | 2 |",
        "6.1.0-test",
        "## Proof",
        "`function:do_sys_openat2`",
        "the measurement says 42",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = case.read("study.html");
    assert!(page.starts_with("<!doctype html>"));
    // Guests are tested where no browser is, too.
    if let Ok(chromium) = require_tool("chromium") {
        crate::browser::look(&chromium, "study", &page);
    }
    assert!(case.read("with/serial.log").contains("Linux version"));
    let again = case.run(Step::Measure, &mut never).expect("nothing is left to do");
    assert_eq!(again.kept, Step::ALL);

    // Only what the change reaches is done again: the proof that fails, and what follows it.
    case.write_study(&STUDY.replace("do_sys_openat2, >= 3", "no_such_function, increases"));
    let other = case.run(Step::Measure, &mut measured).expect("it runs");
    assert_eq!(other.kept.len(), 5);
    assert!(!other.is_good(), "the proof failed");
    assert!(case.read("study.md").contains("NOT proved"));

    // A kernel of another configuration than the file's words stand for today is built anew, as if the
    // fragment of a newer handoff asked for more.
    case.write_study(STUDY);
    case.run(Step::Prove, &mut never).expect("as before");
    let recipe = case.read("without/.handoff-config");
    let path = case.tree.path("work/without/.handoff-config");
    fs::write(&path, recipe.replace("CONFIG_NET=y\n", "")).expect("written");
    let anew = case.run(Step::Prove, &mut never).expect("built anew");
    assert_eq!(anew.kept, [Step::Source, Step::Analyse]);
    assert_eq!(case.read("without/.handoff-config"), recipe);
    assert_eq!(case.run(Step::Prove, &mut never).expect("nothing to do").kept, Step::ALL[..6]);

    // A feature that does not fit leaves the tree alone, and says which hunk.
    case.write(
        "on.patch",
        &FEATURE.replace("-int select_task(int x) { return x; }", "-long gone(void) { return 7; }"),
    );
    let error = case.run(Step::Measure, &mut never).expect_err("a conflict").to_string();
    assert!(error.contains("does not fit") && error.contains("hunk 1"), "{error}");
    case.write("on.patch", FEATURE);
    let back = case.run(Step::BuildWith, &mut never).expect("as before");
    assert_eq!(back.kept, [Step::Source, Step::BuildWithout]);
}

#[test]
fn a_study_in_use_and_one_that_does_not_compile_are_refused() {
    require!(tools());
    let tree = Tree::new();
    let case = Case { tree, stopper: Stopper::new(), modules: String::new() };
    case.write("off.patch", PREPARE);
    case.write("on.patch", FEATURE);
    case.write_study(STUDY);
    let work = case.tree.path("work");
    fs::create_dir_all(&work).expect("made");
    let lock = fs::File::create(work.join("lock")).expect("made");
    lock.lock().expect("locked");
    assert!(matches!(case.run(Step::Source, &mut never), Err(StudyError::Busy { .. })));
    drop(lock);
    case.write(
        "on.patch",
        &FEATURE.replace(
            "+int select_task(int x) { return wake_wide(x); }",
            "+int select_task(int x) { return no_rule; }",
        ),
    );
    let error = case.run(Step::Measure, &mut never).expect_err("it does not compile").to_string();
    assert!(error.contains("no_rule"), "{error}");
    let text = case.read("study.md");
    assert!(
        text.contains("| build-with | **stopped**: see below |"),
        "what was done is in the document: {text}"
    );
    assert!(
        text.contains("## Stopped at build-with\n") && text.contains("no_rule"),
        "and why it stopped: {text}"
    );
}
