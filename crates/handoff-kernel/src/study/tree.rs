//! The tree of a study: as it came, prepared, or with the feature.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::StudyError;
use crate::patch::{Input, Limits, Series, load};
use crate::port::{Options, PortReport, port};

/// In which of its states the tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// With the patches that both kernels get.
    Without,
    /// With the feature too.
    With,
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Self::Without => "without",
            Self::With => "with",
        }
    }
}

/// A tree, and beside it the files that patches changed, as they came.
pub(super) struct StudyTree {
    pub(super) tree: PathBuf,
    /// Where the original files are kept.
    kept: PathBuf,
}

impl StudyTree {
    pub(super) fn new(tree: PathBuf, work: &Path) -> Self {
        Self { tree, kept: work.join("original") }
    }

    /// Brings the tree to a stage; gives the last port's report, unless it was there already.
    pub(super) fn bring_to(
        &self,
        stage: Stage,
        prepare: &[PathBuf],
        feature: &Series,
        made_for: Option<&Path>,
        key: &str,
    ) -> Result<Option<PortReport>, StudyError> {
        let mark = self.kept.join("stage");
        let wanted = format!("{} {key}", stage.word());
        if fs::read_to_string(&mark).is_ok_and(|is| is == wanted) {
            return Ok(None);
        }
        // An interrupted change is begun anew, from the files as they came.
        self.restore()?;
        let mut report = None;
        for patch in prepare {
            let series = read_series(patch)?;
            report = Some(self.apply(&series, None, patch)?);
        }
        if stage == Stage::With {
            report = Some(self.apply(feature, made_for, Path::new("the feature"))?);
        }
        fs::create_dir_all(&self.kept).map_err(StudyError::io("make", &self.kept))?;
        fs::write(&mark, wanted).map_err(StudyError::io("write", &mark))?;
        Ok(report)
    }

    /// Ports a series in full, or says what is in conflict and changes nothing.
    fn apply(&self, series: &Series, made_for: Option<&Path>, name: &Path) -> Result<PortReport, StudyError> {
        let options = Options {
            dry_run: true,
            markers: false,
            source: made_for.map(Path::to_owned),
            ..Options::default()
        };
        let plan = port(series, &self.tree, &options)?;
        if !plan.is_clean() {
            return Err(StudyError::Conflict { patches: name.to_owned(), report: plan.to_string() });
        }
        for file in &plan.written {
            self.keep(file)?;
        }
        Ok(port(series, &self.tree, &Options { dry_run: false, ..options })?)
    }

    /// Keeps a file as it came, or that there was none.
    fn keep(&self, file: &str) -> Result<(), StudyError> {
        let original = self.kept.join("files").join(file);
        let absent = self.kept.join("absent").join(file);
        if original.exists() || absent.exists() {
            return Ok(());
        }
        let present = self.tree.join(file);
        let target = if present.is_file() { &original } else { &absent };
        let folder = target.parent().unwrap_or(&self.kept);
        fs::create_dir_all(folder).map_err(StudyError::io("make", folder))?;
        if present.is_file() {
            fs::copy(&present, &original).map_err(StudyError::io("keep", &present)).map(drop)
        } else {
            fs::write(&absent, "").map_err(StudyError::io("write", &absent))
        }
    }

    /// Puts every file back as it came.
    pub(super) fn restore(&self) -> Result<(), StudyError> {
        let mark = self.kept.join("stage");
        if mark.exists() {
            fs::remove_file(&mark).map_err(StudyError::io("remove", &mark))?;
        }
        let files = self.kept.join("files");
        for file in below(&files)? {
            let (from, to) = (files.join(&file), self.tree.join(&file));
            let content = fs::read(&from).map_err(StudyError::io("read", &from))?;
            // A file that is the same keeps its time, and is not compiled again.
            if fs::read(&to).is_ok_and(|is| is == content) {
                continue;
            }
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).map_err(StudyError::io("make", folder))?;
            }
            fs::write(&to, content).map_err(StudyError::io("restore", &to))?;
        }
        for file in below(&self.kept.join("absent"))? {
            let made = self.tree.join(&file);
            match fs::remove_file(&made) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StudyError::io("remove", &made)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The files below a folder, as paths in it; none if there is no such folder.
fn below(folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = match fs::read_dir(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(StudyError::io("read", &next))?,
        };
        for entry in entries {
            let path = entry.map_err(StudyError::io("read", &next))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(inside) = path.strip_prefix(folder) {
                found.push(inside.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a tree; links stay links.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), StudyError> {
    fs::create_dir_all(to).map_err(StudyError::io("make", to))?;
    for entry in fs::read_dir(from).map_err(StudyError::io("read", from))? {
        let entry = entry.map_err(StudyError::io("read", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(StudyError::io("look at", &path))?;
        if kind.is_dir() {
            if entry.file_name() != ".git" {
                copy_tree(&path, &target)?;
            }
        } else if kind.is_symlink() {
            let link = fs::read_link(&path).map_err(StudyError::io("read", &path))?;
            // The tree's own links stay inside of it.
            if link.is_relative() && link.components().all(|part| !matches!(part, Component::Prefix(_))) {
                std::os::unix::fs::symlink(&link, &target).map_err(StudyError::io("make", &target))?;
            }
        } else {
            fs::copy(&path, &target).map_err(StudyError::io("copy", &path))?;
        }
    }
    Ok(())
}

/// Reads patches of a file or folder.
pub(super) fn read_series(path: &Path) -> Result<Series, StudyError> {
    Ok(load(&Input::Path(path.to_owned()), &Limits::default())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::parse;

    const A: &str = "int a;\nint f(void)\n{\n\tone(a);\n\ttwo(a);\n\treturn 0;\n}\n";
    const PREPARE: &str =
        "--- a/x.c\n+++ b/x.c\n@@ -3,3 +3,3 @@ int f(void)\n {\n-\tone(a);\n+\tuno(a);\n \ttwo(a);\n";
    const FEATURE: &str = "--- a/x.c\n+++ b/x.c\n@@ -4,3 +4,4 @@ int f(void)\n \tuno(a);\n \ttwo(a);\n+\tmore(a);\n \treturn 0;\n\
        --- /dev/null\n+++ b/new/y.c\n@@ -0,0 +1 @@\n+int y;\n";

    #[test]
    fn a_tree_goes_to_each_stage_and_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tree, patch) = (folder.path().join("tree"), folder.path().join("prepare.patch"));
        fs::create_dir(&tree).expect("made");
        fs::write(tree.join("x.c"), A).expect("written");
        fs::write(&patch, PREPARE).expect("written");
        let feature = parse(FEATURE.as_bytes(), &Limits::default()).expect("good");
        let study = StudyTree::new(tree.clone(), folder.path());
        let bring = |stage| study.bring_to(stage, std::slice::from_ref(&patch), &feature, None, "key");
        let read = || fs::read_to_string(tree.join("x.c")).expect("there");
        assert!(bring(Stage::Without).expect("clean").is_some());
        assert!(read().contains("uno(a)") && !read().contains("more(a)"));
        assert!(bring(Stage::Without).expect("clean").is_none(), "there already");
        let report = bring(Stage::With).expect("clean").expect("changed");
        assert_eq!(report.written, ["new/y.c", "x.c"]);
        assert!(read().contains("more(a)") && tree.join("new/y.c").exists());
        bring(Stage::Without).expect("clean");
        assert!(read().contains("uno(a)") && !read().contains("more(a)") && !tree.join("new/y.c").exists());
        study.restore().expect("restored");
        assert_eq!(read(), A);

        let elsewhere = FEATURE
            .replace("two(a)", "absent(a)")
            .replace("uno(a)", "nowhere(a)")
            .replace("return 0", "return gone");
        let bad = parse(elsewhere.as_bytes(), &Limits::default());
        let error = study.bring_to(Stage::With, &[], &bad.expect("good"), None, "k").expect_err("a conflict");
        assert!(matches!(error, StudyError::Conflict { .. }), "{error}");
        assert_eq!(read(), A, "nothing was written");
    }
}
