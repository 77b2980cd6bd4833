//! Commits that were picked onto another branch of a repository: each shows where its change belongs there.
//!
//! A pick names the commit that it was made from, or has the author, the date and the subject of another one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use handoff_kernel::patch::text;

use super::{Pair, pairs};

/// What goes wrong is git's word or the file system's.
type Failure = Box<dyn std::error::Error>;

/// A commit and the one that it was picked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) commit: String,
    pub(crate) from: String,
}

struct Commit {
    id: String,
    parent: String,
    /// Author, date and subject.
    key: String,
    /// When it was committed.
    time: u64,
    body: String,
}

/// The picks of a repository, the oldest first.
pub(crate) fn picks(repository: &Path) -> Result<Vec<Pick>, Failure> {
    let words = ["log", "--all", "--no-merges", "--format=%H%x1f%P%x1f%ae %at %s%x1f%ct%x1f%B%x1e"];
    let log = text::decode(&git(repository, &words)?);
    let mut commits: Vec<Commit> = log.split('\u{1e}').filter_map(commit).collect();
    commits.sort_by(|a, b| (a.time, &a.id).cmp(&(b.time, &b.id)));
    let mut ids: Vec<&str> = commits.iter().map(|commit| commit.id.as_str()).collect();
    ids.sort_unstable();
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut out = Vec::new();
    for commit in &commits {
        let same = *first.entry(&commit.key).or_insert(&commit.id);
        let named = named(&commit.body).and_then(|name| {
            let id = ids.get(ids.partition_point(|id| *id < name))?;
            id.starts_with(name).then_some(*id)
        });
        let from = named.unwrap_or(same);
        if from != commit.id && !commit.parent.is_empty() {
            out.push(Pick { commit: commit.id.clone(), from: from.to_owned() });
        }
    }
    Ok(out)
}

fn commit(record: &str) -> Option<Commit> {
    let fields: Vec<&str> = record.trim_start().splitn(5, '\u{1f}').collect();
    let [id, parent, key, time, body] = fields[..] else { return None };
    Some(Commit {
        id: id.to_owned(),
        parent: parent.to_owned(),
        key: key.to_owned(),
        time: time.parse().ok()?,
        body: body.to_owned(),
    })
}

/// The commit that a pick's message names.
fn named(body: &str) -> Option<&str> {
    const MARKS: [&str; 7] = [
        "cherry picked from commit ",
        "cherry-picked from commit ",
        "backported from commit ",
        "ackport of commit ",
        "ackport of ",
        "aster commit: ",
        "upstream commit ",
    ];
    let at = MARKS.iter().find_map(|mark| Some(body.find(mark)? + mark.len()))?;
    let rest = &body[at..];
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    (7..=40).contains(&end).then(|| &rest[..end])
}

/// The hunks of a pick's source that the pick has, too, in files that were different in front of it.
///
/// The files as they were in front of the pick are written into `tree`.
pub(crate) fn pairs_of(repository: &Path, pick: &Pick, tree: &Path) -> Result<Vec<Pair>, Failure> {
    let Pick { commit, from } = pick;
    let (before, base) = (format!("{commit}^"), format!("{from}^"));
    let names = |range: [&str; 2]| -> Result<Vec<String>, Failure> {
        let words = ["diff", "--no-renames", "--name-only", "-z", "--diff-filter=M", range[0], range[1]];
        let out = text::decode(&git(repository, &words)?);
        Ok(out.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    };
    let theirs = names([base.as_str(), from.as_str()])?;
    let mut ours = names([before.as_str(), commit.as_str()])?;
    ours.retain(|name| theirs.contains(name));
    let mut paths = Vec::new();
    let (mut old, mut bases) = (BTreeMap::new(), BTreeMap::new());
    for path in ours {
        let was = git(repository, &["show", &format!("{before}:{path}")])?;
        let base = git(repository, &["show", &format!("{base}:{path}")])?;
        if was != base {
            let full = tree.join(text::to_path(&path));
            fs::create_dir_all(full.parent().unwrap_or(tree))?;
            fs::write(full, &was)?;
            old.insert(path.clone(), was);
            bases.insert(path.clone(), Rc::<[u8]>::from(base));
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let diff = |from: &str, to: &str| {
        let mut words = vec!["diff", "--no-color", "--no-ext-diff", "--no-renames", "-U3"];
        words.extend(["--src-prefix=a/", "--dst-prefix=b/", from, to, "--"]);
        words.extend(paths.iter().map(String::as_str));
        git(repository, &words)
    };
    let mut out = pairs(&diff(&base, from)?, &diff(&before, commit)?, tree)?;
    for pair in &mut out {
        pair.base = bases.get(&pair.path).cloned();
        pair.name = format!("{} {}", &commit[..12], pair.name);
    }
    Ok(out)
}

fn git(repository: &Path, words: &[&str]) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(["-c", "core.quotePath=off", "-c", "diff.renameLimit=0"]);
    // What a copy of a repository lacks is not fetched.
    command.env("GIT_NO_LAZY_FETCH", "1").args(words).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()).into())
}
