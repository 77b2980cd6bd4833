//! What git can tell: the file that a patch was made for, and a three-way merge with it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::outcome::{Edit, How, HunkOutcome, Placement};
use super::scope::{Language, ScopeKind, Scopes};
use super::source::Source;
use crate::patch::{FilePatch, Hunk, Op, text};

/// Where the files that patches were made for can be found.
pub(super) struct Bases {
    /// Repositories to ask for blobs.
    repositories: Vec<PathBuf>,
    /// A tree in which the files may simply stand.
    tree: Option<PathBuf>,
}

impl Bases {
    pub(super) fn new(onto: &Path, source: Option<&Path>) -> Self {
        let repositories =
            source.into_iter().chain([onto]).filter(|path| is_repository(path)).map(Path::to_owned).collect();
        Self { repositories, tree: source.map(Path::to_owned) }
    }

    /// The file that `file`'s hunks were made for, if it is at hand and they fit it exactly.
    pub(super) fn of(&self, file: &FilePatch) -> Option<Source> {
        let path = file.old_path.as_ref()?;
        let from_tree = || {
            let full = self.tree.as_ref()?.join(path.on_disk());
            fs::symlink_metadata(&full).ok().filter(|meta| meta.is_file())?;
            fs::read(full).ok()
        };
        let fits = |bytes: &Vec<u8>| {
            let source = Source::new(bytes, path.as_str());
            file.hunks.iter().all(|hunk| fits_exactly(hunk, &source)).then_some(source)
        };
        let blob = file.blobs.as_ref().and_then(|(old, _)| self.blob(old));
        blob.as_ref().and_then(fits).or_else(|| from_tree().as_ref().and_then(fits))
    }

    fn blob(&self, id: &str) -> Option<Vec<u8>> {
        if id.bytes().all(|b| b == b'0') {
            return None;
        }
        self.repositories.iter().find_map(|repository| {
            let output = Command::new("git")
                .arg("-C")
                .arg(repository)
                .args(["cat-file", "blob", id])
                .stderr(Stdio::null())
                // A partial clone must not fetch behind the user's back.
                .env("GIT_NO_LAZY_FETCH", "1")
                .output()
                .ok()?;
            output.status.success().then_some(output.stdout)
        })
    }
}

/// True if `path` is the top of a work tree or a bare repository, and not merely inside of one.
fn is_repository(path: &Path) -> bool {
    path.join(".git").exists() || path.join("HEAD").is_file() && path.join("objects").is_dir()
}

fn fits_exactly(hunk: &Hunk, source: &Source) -> bool {
    let at = hunk.old_start.saturating_sub(1);
    let mut lines = source.text.iter().skip(at);
    hunk.before().all(|line| lines.next() == Some(&line.text))
}

/// The hunk with up to `lines` lines more context, and the heading that says what encloses it.
pub(super) fn widen(hunk: &Hunk, base: &Source, lines: usize) -> Hunk {
    let start = hunk.old_start.saturating_sub(1);
    let end = start + hunk.before().count();
    let above = start.saturating_sub(lines)..start;
    let below = end..(end + lines).min(base.text.len());
    let context = |range: std::ops::Range<usize>| {
        range.map(|index| crate::patch::HunkLine {
            op: Op::Context,
            text: base.text[index].clone(),
            no_newline: false,
        })
    };
    let first = above.start;
    let inside = base.scopes.at(first).filter(|scope| scope.start < first);
    let heading = match inside {
        None => hunk.heading.clone(),
        Some(scope) if base.language == Language::Indented => base.text[scope.start].clone(),
        Some(scope) => {
            let head = base.text[scope.start..first].join(" ").split('{').next().unwrap_or("").to_owned();
            let opens = matches!(scope.kind, ScopeKind::Table | ScopeKind::Type);
            if opens { format!("{head}{{") } else { head }
        }
    };
    let mut all: Vec<_> = context(above).collect();
    all.extend(hunk.lines.iter().cloned());
    all.extend(context(below));
    Hunk {
        line: hunk.line,
        old_start: first + 1,
        new_start: (hunk.new_start + first).saturating_sub(start),
        heading,
        lines: all,
    }
}

/// Lets git merge one hunk; only a clean merge inside the same definition counts.
pub(super) fn merge(hunk: &Hunk, base: &Source, ours: &Source) -> Option<Placement> {
    let start = hunk.old_start.saturating_sub(1);
    let mut theirs: Vec<&str> = base.text[..start].iter().map(String::as_str).collect();
    theirs.extend(hunk.after().map(|line| line.text.as_str()));
    theirs.extend(base.text.iter().skip(start + hunk.before().count()).map(String::as_str));
    let join = |lines: &[&str]| {
        let mut bytes = text::encode(&lines.join("\n"));
        bytes.push(b'\n');
        bytes
    };
    let folder = tempfile::tempdir().ok()?;
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).ok();
    let as_lines = |source: &Source| join(&source.text.iter().map(String::as_str).collect::<Vec<_>>());
    write("ours", as_lines(ours))?;
    write("base", as_lines(base))?;
    write("theirs", join(&theirs))?;
    let output = Command::new("git")
        .current_dir(folder.path())
        .args(["merge-file", "-p", "-q", "ours", "base", "theirs"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let merged = text::decode(&output.stdout);
    let mut merged: Vec<&str> = merged.split('\n').collect();
    merged.pop();
    let edit = difference(&ours.text, &merged)?;
    let change = start + hunk.lines.iter().take_while(|line| line.op == Op::Context).count();
    let removes = hunk.removed() > 0;
    if !same_scope(&base.scopes, change, &ours.scopes, edit.line - 1, removes) {
        return None;
    }
    let enclosing = ours.scopes.at(edit.line - 1).filter(|scope| !scope.name.is_empty());
    Some(Placement {
        // Its lines do not stand here word for word and once, or git would not have been asked.
        outcome: HunkOutcome::Fuzzy,
        how: How::Git,
        confidence: 0.85,
        enclosing: enclosing
            .map(|scope| super::outcome::Enclosing { kind: scope.kind, name: scope.name.clone() }),
        edits: vec![edit],
        differences: vec![
            "git merged it, but its lines are not all here as they are in the patch".to_owned(),
        ],
        needs: None,
        near: None,
        region: None,
        twins: Vec::new(),
    })
}

/// The one stretch of lines in which two files differ; `None` if they do not.
fn difference(ours: &[String], merged: &[&str]) -> Option<Edit> {
    let head = ours.iter().zip(merged).take_while(|(a, b)| a == *b).count();
    if head == ours.len() && head == merged.len() {
        return None;
    }
    let room = ours.len().min(merged.len()) - head;
    let tail = ours.iter().rev().zip(merged.iter().rev()).take(room).take_while(|(a, b)| a == *b).count();
    Some(Edit {
        line: head + 1,
        removed: ours.len() - tail - head,
        added: merged[head..merged.len() - tail].iter().map(|line| (*line).to_owned()).collect(),
    })
}

fn same_scope(base: &Scopes, from: usize, ours: &Scopes, to: usize, removes: bool) -> bool {
    let (was, is) = (base.at(from), ours.at(to));
    match (was, is) {
        (Some(was), Some(is)) if !was.name.is_empty() => {
            // Between two definitions, the one below may start right here.
            was.name == is.name && was.kind == is.kind
        }
        (None, None) => neighbour(base, from) == neighbour(ours, to),
        _ => !removes && neighbour(base, from).is_some() && neighbour(base, from) == neighbour(ours, to),
    }
}

/// The definition that ends last above a line.
fn neighbour(scopes: &Scopes, line: usize) -> Option<&str> {
    let above = scopes.all.iter().rfind(|scope| scope.end < line);
    above.map(|scope| scope.name.as_str())
}

/// A file in front of a change and behind it, with its mode.
pub(crate) struct Sides<'a> {
    pub path: &'a str,
    pub before: Option<(&'a [u8], u32)>,
    pub after: Option<(&'a [u8], u32)>,
}

/// Changes as git writes them.
pub(crate) fn diff(files: &[Sides<'_>]) -> io::Result<Vec<u8>> {
    let area = tempfile::tempdir()?;
    for side in ["a", "b"] {
        let root = area.path().join(side);
        fs::create_dir(&root)?;
        for file in files {
            let Some((bytes, mode)) = (if side == "a" { file.before } else { file.after }) else { continue };
            let full = root.join(text::to_path(file.path));
            fs::create_dir_all(full.parent().unwrap_or(&root))?;
            fs::write(&full, bytes)?;
            let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
            fs::set_permissions(&full, fs::Permissions::from_mode(mode))?;
        }
    }
    let output = Command::new("git")
        .current_dir(area.path())
        .args(["-c", "core.quotePath=off", "-c", "diff.algorithm=myers", "diff", "--no-index", "--no-prefix"])
        .args(["--no-color", "--no-ext-diff", "--text", "--full-index", "-M", "a", "b"])
        .stdin(Stdio::null())
        .output()?;
    match output.status.code() {
        Some(0 | 1) => Ok(with_names_of_a_tree(&output.stdout)),
        _ => Err(io::Error::other(format!("git diff: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

/// A diff of the folders `a` and `b` with the names that a diff of two trees has: git puts the folder in front of what was
/// renamed or copied, and names a new file `b/` twice.
fn with_names_of_a_tree(diff: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(diff.len());
    let mut header = false;
    for line in diff.split_inclusive(|&byte| byte == b'\n') {
        header = line.starts_with(b"diff --git ") || header && !line.starts_with(b"@@ ");
        match header.then(|| header_of_a_tree(&text::decode(line))).flatten() {
            Some(line) => out.extend(text::encode(&line)),
            None => out.extend(line),
        }
    }
    out
}

/// A line of a file's header with other names; `None` if they are right.
fn header_of_a_tree(line: &str) -> Option<String> {
    if let Some(names) = line.strip_prefix("diff --git ") {
        let (old, new) = names.trim_end().split_at_checked(names.trim_end().len() / 2)?;
        let (mut old, mut new) = (old.to_owned(), new.strip_prefix(' ')?.to_owned());
        let at = usize::from(old.starts_with('"'));
        (old == new).then(|| {
            old.replace_range(at..=at, "a");
            new.replace_range(at..=at, "b");
            format!("diff --git {old} {new}\n")
        })
    } else {
        let keys = ["rename from ", "rename to ", "copy from ", "copy to "];
        let key = keys.into_iter().find(|key| line.starts_with(key))?;
        let name = &line[key.len()..];
        let (quote, path) = name.strip_prefix('"').map_or(("", name), |path| ("\"", path));
        Some(format!("{key}{quote}{}", path.split_once('/')?.1))
    }
}
