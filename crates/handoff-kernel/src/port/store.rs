//! Where a tree's files are read from: a folder, or a commit of a repository that nobody has checked out.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::PortError;
use crate::patch::{PatchPath, text};

/// Where files are read from.
pub(super) enum Store {
    Folder(PathBuf),
    Commit(Objects),
}

impl Store {
    pub(super) fn root(&self) -> &Path {
        match self {
            Self::Folder(root) => root,
            Self::Commit(objects) => &objects.repository,
        }
    }

    /// The bytes of a file; `None` if there is no such file.
    pub(super) fn read(&self, path: &PatchPath) -> Result<Option<Vec<u8>>, PortError> {
        let fail = |error| PortError::Read { path: path.clone(), error };
        match self {
            Self::Folder(root) => match fs::read(locate(root, path)?) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(fail(error)),
            },
            Self::Commit(objects) => objects.read(path),
        }
    }

    /// The permissions of a file.
    pub(super) fn mode(&self, path: &PatchPath) -> Option<u32> {
        match self {
            Self::Folder(root) => {
                let full = locate(root, path).ok()?;
                Some(fs::metadata(full).ok()?.permissions().mode() & 0o777)
            }
            Self::Commit(objects) => objects.files.get(path.as_str()).map(|file| file.mode & 0o777),
        }
    }

    /// The names of the files that stand right in a folder.
    pub(super) fn files_in(&self, folder: &str) -> Vec<String> {
        match self {
            Self::Folder(root) => {
                let Ok(entries) = fs::read_dir(root.join(text::to_path(folder))) else { return Vec::new() };
                entries
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
                    .map(|entry| text::of_path(&entry.file_name()))
                    .collect()
            }
            Self::Commit(objects) => {
                let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
                let below =
                    objects.files.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
                let name = |(path, file): (&String, &Entry)| {
                    let name = &path[start.len()..];
                    (file.is_ordinary() && !name.contains('/')).then(|| name.to_owned())
                };
                below.filter_map(name).collect()
            }
        }
    }

    /// All files by their last component; symbolic links and git's folder are left out.
    pub(super) fn by_name(&self) -> HashMap<String, Vec<PatchPath>> {
        match self {
            Self::Folder(root) => index(root),
            Self::Commit(objects) => {
                let mut names: HashMap<String, Vec<PatchPath>> = HashMap::new();
                let files = objects.files.iter().filter(|(_, file)| file.is_ordinary());
                for path in files.filter_map(|(path, _)| PatchPath::new(path).ok()) {
                    names.entry(path.file_name().to_owned()).or_default().push(path);
                }
                names
            }
        }
    }
}

/// The parts of a path that lead to it, and the path itself.
pub(super) fn parts(path: &PatchPath) -> impl Iterator<Item = &str> {
    let path = path.as_str();
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// The file on disk, if no symbolic link on the way leads elsewhere and nothing else stands there: reading a pipe
/// would wait for ever.
pub(super) fn locate(root: &Path, path: &PatchPath) -> Result<PathBuf, PortError> {
    for part in parts(path) {
        let Ok(meta) = fs::symlink_metadata(root.join(text::to_path(part))) else { break };
        let what = match meta.file_type() {
            kind if kind.is_symlink() => {
                return Err(PortError::Link { path: path.clone(), link: root.join(text::to_path(part)) });
            }
            kind if part == path.as_str() && kind.is_dir() => "a folder",
            kind if part == path.as_str() && !kind.is_file() => "a pipe, a socket or a device",
            kind if part != path.as_str() && !kind.is_dir() => "no folder",
            _ => continue,
        };
        return Err(PortError::InTheWay { path: path.clone(), at: part.to_owned(), what });
    }
    Ok(root.join(path.on_disk()))
}

/// The files of a commit, which `git cat-file --batch` reads from the object database.
pub(super) struct Objects {
    repository: PathBuf,
    files: BTreeMap<String, Entry>,
    batch: RefCell<Batch>,
}

struct Entry {
    mode: u32,
    id: String,
}

impl Entry {
    /// False for symbolic links and submodules.
    fn is_ordinary(&self) -> bool {
        self.mode >> 12 == 0o10
    }
}

struct Batch {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        // It ends when its input is closed.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

impl Objects {
    /// Lists the files of a commit.
    pub(super) fn open(repository: &Path, commit: &str) -> io::Result<Self> {
        let git = || {
            let mut command = Command::new("git");
            // A partial clone must not fetch behind the user's back.
            command.arg("-C").arg(repository).env("GIT_NO_LAZY_FETCH", "1");
            command
        };
        let listed = git().args(["ls-tree", "-r", "-z", "--full-tree", commit]).output()?;
        if !listed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).trim().to_owned()));
        }
        let entry = |line: &[u8]| -> Option<(String, Entry)> {
            let line = text::decode(line);
            let (head, path) = line.split_once('\t')?;
            let mut fields = head.split(' ');
            let mode = u32::from_str_radix(fields.next()?, 8).ok()?;
            Some((path.to_owned(), Entry { mode, id: fields.nth(1)?.to_owned() }))
        };
        let files = listed.stdout.split(|&byte| byte == 0).filter_map(entry).collect();
        let mut child = git()
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let answers = child.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe)?;
        let batch = RefCell::new(Batch { child, answers });
        Ok(Self { repository: repository.to_owned(), files, batch })
    }

    fn read(&self, path: &PatchPath) -> Result<Option<Vec<u8>>, PortError> {
        let in_the_way = |at: &str, what| PortError::InTheWay { path: path.clone(), at: at.to_owned(), what };
        for part in parts(path) {
            match self.files.get(part) {
                Some(file) if !file.is_ordinary() => {
                    return Err(PortError::Link { path: path.clone(), link: text::to_path(part) });
                }
                Some(_) if part != path.as_str() => return Err(in_the_way(part, "no folder")),
                _ => {}
            }
        }
        let below = format!("{path}/");
        if self.files.range(below.clone()..).next().is_some_and(|(file, _)| file.starts_with(&below)) {
            return Err(in_the_way(path.as_str(), "a folder"));
        }
        let Some(file) = self.files.get(path.as_str()) else { return Ok(None) };
        self.blob(&file.id).map(Some).map_err(|error| PortError::Read { path: path.clone(), error })
    }

    fn blob(&self, id: &str) -> io::Result<Vec<u8>> {
        let batch = &mut *self.batch.borrow_mut();
        let stdin = batch.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{id}\n").as_bytes())?;
        let mut head = String::new();
        batch.answers.read_line(&mut head)?;
        let fields: Vec<&str> = head.split_whitespace().collect();
        let &[_, "blob", size] = fields.as_slice() else {
            return Err(io::Error::other(format!("git has no such object here: {}", head.trim())));
        };
        let size: usize = size.parse().map_err(io::Error::other)?;
        let mut bytes = vec![0; size + 1];
        batch.answers.read_exact(&mut bytes)?;
        bytes.pop();
        Ok(bytes)
    }
}

/// All files of a tree by their last component; symbolic links and git's folder are left out.
fn index(root: &Path) -> HashMap<String, Vec<PatchPath>> {
    let mut names: HashMap<String, Vec<PatchPath>> = HashMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(text::to_path(&folder))) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = text::of_path(&entry.file_name());
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if kind.is_dir() && name != ".git" {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(path) = PatchPath::new(&path)
            {
                names.entry(name).or_default().push(path);
            }
        }
    }
    names
}
