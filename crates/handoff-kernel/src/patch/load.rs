//! Where patches come from: a file, a folder or quilt series of files, or a range of a repository.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Limits, PatchError, Series, parse, text, transfer};

/// What the user named.
#[derive(Clone, Debug)]
pub enum Input {
    /// A patch, a mailbox, a folder of `*.patch` files, or a quilt `series` file.
    Path(PathBuf),
    Stdin,
    /// Commits of a repository, oldest first, as `git format-patch` understands the range.
    Range {
        repository: PathBuf,
        /// For example `v3.12..v3.13`, or one commit as `abc123`.
        range: String,
    },
}

impl Input {
    /// Takes `text` for a path if it exists, and for a range of `repository` otherwise.
    pub fn guess(text: &str, repository: &Path) -> Self {
        const ENDS: [&str; 9] = [".patch", ".diff", ".mbox", ".eml", ".gz", ".xz", ".zst", ".bz2", ".series"];
        let path = PathBuf::from(text);
        if text == "-" {
            Self::Stdin
        } else if path.exists()
            || !text.contains("..") && ENDS.iter().any(|end| text.ends_with(end))
            || !text.contains("..") && !text.ends_with("^!") && text.contains('/')
        {
            Self::Path(path)
        } else {
            Self::Range { repository: repository.to_owned(), range: text.to_owned() }
        }
    }
}

/// Why patches could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Patch {
        path: PathBuf,
        #[source]
        error: PatchError,
    },
    #[error("{} holds neither a `series` file nor `*.patch` or `*.diff` files", .0.display())]
    Nothing(PathBuf),
    #[error(
        "{}:{line}: `{option}` is not followed: a patch of a series may have `-pN` and `-R` behind its name; apply this \
         one by itself",
        path.display()
    )]
    Option { path: PathBuf, line: usize, option: String },
    #[error("{} has {bytes} bytes, more than the {limit} allowed: split it", path.display())]
    TooLarge { path: PathBuf, bytes: u64, limit: usize },
    #[error("git cannot make patches of `{range}` in {}: {message}", repository.display())]
    Git { repository: PathBuf, range: String, message: String },
    #[error("`{word}` is neither a file nor a commit of the repository {}: {message}", repository.display())]
    Unknown { repository: PathBuf, word: String, message: String },
    #[error("there is no file `{word}`, and {} is no Git repository that could have a commit of this name", repository.display())]
    NoRepository { repository: PathBuf, word: String },
}

/// Loads the patches of an input, in the order in which they apply.
///
/// # Errors
///
/// [`InputError`], with the file and the line.
pub fn load(input: &Input, limits: &Limits) -> Result<Series, InputError> {
    match input {
        Input::Stdin => {
            let name = Path::new("standard input");
            let mut content = Vec::new();
            let read = std::io::stdin().lock().take(limits.bytes as u64 + 1).read_to_end(&mut content);
            read.map_err(|error| InputError::Read { path: name.to_owned(), error })?;
            load_bytes(name, content, limits)
        }
        Input::Range { repository, range } => load_range(repository, range, limits),
        Input::Path(path) if path.is_dir() => {
            let series = path.join("series");
            if series.is_file() { load_quilt(&series, limits) } else { load_folder(path, limits) }
        }
        Input::Path(path) if path.file_name().is_some_and(|name| name == "series") => {
            load_quilt(path, limits)
        }
        Input::Path(path) => load_file(path, limits),
    }
}

fn load_file(path: &Path, limits: &Limits) -> Result<Series, InputError> {
    let read = |error| InputError::Read { path: path.to_owned(), error };
    let bytes = fs::metadata(path).map_err(read)?.len();
    if bytes > limits.bytes as u64 {
        return Err(InputError::TooLarge { path: path.to_owned(), bytes, limit: limits.bytes });
    }
    let content = fs::read(path).map_err(read)?;
    load_bytes(path, content, limits)
}

fn load_bytes(path: &Path, content: Vec<u8>, limits: &Limits) -> Result<Series, InputError> {
    let content = match transfer::unpacker(&content) {
        Some(program) => transfer::unpack(program, &content, limits.bytes).map_err(|message| {
            let error = io::Error::other(message);
            InputError::Read { path: path.to_owned(), error }
        })?,
        None => content,
    };
    if content.len() > limits.bytes {
        let bytes = content.len() as u64;
        return Err(InputError::TooLarge { path: path.to_owned(), bytes, limit: limits.bytes });
    }
    let content = without_byte_order_mark(content);
    let content = transfer::decode_mails(&content);
    let content = with_plain_line_ends(&content);
    let series =
        parse(&content, limits).map_err(|error| InputError::Patch { path: path.to_owned(), error })?;
    let mut series = series.in_order();
    for patch in &mut series.patches {
        patch.source = Some(path.display().to_string());
    }
    Ok(series)
}

/// The input as UTF-8, if a byte order mark in front says how its characters are written: shells of Windows write
/// UTF-16.
fn without_byte_order_mark(content: Vec<u8>) -> Vec<u8> {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let units: Option<Vec<u16>> =
            content[2..].chunks(2).map(|pair| pair.try_into().ok().map(unit)).collect();
        String::from_utf16(&units?).ok()
    };
    let text = match &content[..] {
        [0xFF, 0xFE, ..] => wide(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => wide(u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => return rest.to_vec(),
        _ => None,
    };
    text.map_or(content, String::into_bytes)
}

/// The input without the CR of each CR LF, if all of its lines end so: it was converted on its way.
fn with_plain_line_ends(content: &[u8]) -> Cow<'_, [u8]> {
    let lines = || content.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    if !content.contains(&b'\r') || !lines().all(|line| line.ends_with(b"\r")) {
        return Cow::Borrowed(content);
    }
    let lines: Vec<&[u8]> =
        content.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    Cow::Owned(lines.join(&b'\n'))
}

fn load_folder(folder: &Path, limits: &Limits) -> Result<Series, InputError> {
    let read = |error| InputError::Read { path: folder.to_owned(), error };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|end| end == "patch" || end == "diff" || end == "mbox") {
            paths.push(path);
        }
    }
    paths.sort();
    // The cover letter of `git format-patch --cover-letter` holds no change.
    paths
        .retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().contains("cover-letter")));
    if paths.is_empty() {
        return Err(InputError::Nothing(folder.to_owned()));
    }
    let mut all = Series::default();
    for path in &paths {
        all.extend(load_file(path, limits)?);
    }
    Ok(all)
}

/// A quilt `series` file: on each line a patch, and how it applies. A word that starts with `#` starts a comment.
fn load_quilt(series: &Path, limits: &Limits) -> Result<Series, InputError> {
    let content = fs::read(series).map_err(|error| InputError::Read { path: series.to_owned(), error })?;
    let content = text::decode(&content);
    let folder = series.parent().unwrap_or(Path::new("."));
    let mut all = Series::default();
    let mut lines = 0;
    for (index, line) in content.lines().enumerate() {
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let Some(name) = words.next() else { continue };
        lines += 1;
        let (mut limits, mut reverse) = (*limits, false);
        for option in words {
            match option.strip_prefix("-p").map(str::parse) {
                Some(Ok(strip)) => limits.strip = strip,
                None if option == "-R" => reverse = true,
                _ => {
                    return Err(InputError::Option {
                        path: series.to_owned(),
                        line: index + 1,
                        option: option.to_owned(),
                    });
                }
            }
        }
        let patches = load_file(&folder.join(text::to_path(name)), &limits)?;
        all.extend(if reverse { patches.reversed() } else { patches });
    }
    if lines == 0 { Err(InputError::Nothing(folder.to_owned())) } else { Ok(all) }
}

fn load_range(repository: &Path, range: &str, limits: &Limits) -> Result<Series, InputError> {
    let fail = |message: String| InputError::Git {
        repository: repository.to_owned(),
        range: range.to_owned(),
        message: message.trim().to_owned(),
    };
    if range.starts_with('-') {
        return Err(fail("a range does not start with `-`".to_owned()));
    }
    // A revision alone is that commit, and not all that came after it.
    let one = !range.contains("..") && !range.contains('^') && !range.contains(' ');
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(repository)
        .args(["format-patch", "--stdout", "--no-signature", "--find-renames", "--full-index"])
        .args(one.then_some("-1"))
        .args([range, "--"]);
    tracing::debug!("starting {command:?}");
    let output = command.output().map_err(|error| fail(error.to_string()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if one {
            // Whoever mistypes the name of a file has not asked for git.
            let (repository, word) = (repository.to_owned(), range.to_owned());
            return Err(if is_repository(&repository) {
                InputError::Unknown { repository, word, message }
            } else {
                InputError::NoRepository { repository, word }
            });
        }
        return Err(fail(message));
    }
    if output.stdout.is_empty() {
        return Err(fail("no commit with changes in it".to_owned()));
    }
    let mut series = parse(&output.stdout, limits)
        .map_err(|error| InputError::Patch { path: PathBuf::from(range), error })?;
    for patch in &mut series.patches {
        patch.source = Some(range.to_owned());
    }
    Ok(series)
}

/// Whether git finds a repository around the folder.
fn is_repository(folder: &Path) -> bool {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["rev-parse", "--git-dir"]);
    command.output().is_ok_and(|output| output.status.success())
}
