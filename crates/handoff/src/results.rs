//! The folder for results: reports, stores, recordings. `--output`, else `$HANDOFF_RESULTS`, else `results` of the
//! configuration, else `handoff/results` in the XDG state folder. Nothing is written into the current folder unless somebody asks for it.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use handoff_placement::PrivateFolder;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::output::Advice as _;
use crate::{config, interrupt};

/// Names another folder for results.
pub(crate) const VARIABLE: &str = config::RESULTS_VARIABLE;

/// The file of the store in the folder for results.
pub(crate) const STORE: &str = "lab.sqlite";

// The option of every command that keeps results.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Results {
    /// The folder for results; it is made if it is not there [default: HANDOFF_RESULTS, or handoff/results in the XDG
    /// state folder]
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

impl Results {
    /// The folder, which need not be there.
    ///
    /// # Errors
    ///
    /// If nothing names one.
    pub(crate) fn folder(&self) -> anyhow::Result<PathBuf> {
        self.output.clone().map_or_else(usual, Ok)
    }

    /// The folder, which is there.
    ///
    /// # Errors
    ///
    /// If nothing names one, or it cannot be made.
    pub(crate) fn made(&self) -> anyhow::Result<PathBuf> {
        let folder = self.folder()?;
        let named = self.output.is_some()
            || std::env::var_os(VARIABLE).is_some()
            || config::value("results").is_some();
        make(&folder, named)?;
        Ok(folder)
    }
}

/// The folder if no option names one.
///
/// # Errors
///
/// If nothing in the environment names one either.
pub(crate) fn usual() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let named =
        from(|name| variable(name).filter(|_| name == VARIABLE), config::value("results").map(PathBuf::from));
    if let Some(folder) = named {
        return Ok(folder);
    }
    let folder = from(variable, None)
        .with_context(|| {
            format!("there is no folder for results: neither {VARIABLE}, XDG_STATE_HOME nor HOME is set")
        })
        .advise("name a folder with --output")?;
    if rustix::process::geteuid().is_root() {
        check(&folder)?;
    }
    Ok(folder)
}

/// Whether nobody else can have put anything into the folder that nobody named: root may have another user's HOME.
fn check(folder: &Path) -> anyhow::Result<()> {
    match PrivateFolder::open(folder) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error)
            .with_context(|| format!("root does not use the folder for results {}", folder.display()))
            .advise(format!("name another one with --output or {VARIABLE}")),
    }
}

fn from(variable: impl Fn(&str) -> Option<PathBuf>, configured: Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    // The XDG specification has relative paths ignored.
    let state = || {
        set("XDG_STATE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").filter(|path| path.is_absolute()).map(|home| home.join(".local/state")))
    };
    set(VARIABLE).or(configured).or_else(|| state().map(|state| state.join("handoff/results")))
}

/// Makes the folder for results if it is not there.
///
/// # Errors
///
/// If nothing names one, or it cannot be made.
pub(crate) fn made() -> anyhow::Result<PathBuf> {
    Results { output: None }.made()
}

/// Makes a folder and those above it. One that nobody named is for its owner alone: the XDG specification asks for
/// that, and the journals of changes are beside the results.
fn make(folder: &Path, named: bool) -> anyhow::Result<()> {
    let mut made = DirBuilder::new().recursive(true).mode(if named { 0o777 } else { 0o700 }).create(folder);
    if folder.exists() && !folder.is_dir() {
        made = Err(Errno::NOTDIR.into());
    }
    made.with_context(|| format!("cannot make the folder {}", folder.display()))
        .advise(format!("name another one with --output or {VARIABLE}"))
}

/// A file name that is free in the folder: `stem.extension`, or with a number: `stem-2.extension`. With several
/// extensions it is free for all of them.
pub(crate) fn free(folder: &Path, stem: &str, extensions: &[&str]) -> String {
    let is_free = |name: &String| {
        extensions.iter().all(|extension| {
            // A link counts, wherever it leads: what is written to that name would go there.
            folder.join(format!("{name}.{extension}")).symlink_metadata().is_err()
        })
    };
    std::iter::once(stem.to_owned())
        .chain((2_u64..).map(|number| format!("{stem}-{number}")))
        .find(is_free)
        .unwrap_or_else(|| stem.to_owned())
}

/// Refuses a file that could not be written at the end of a long command, before the command begins. Nothing is made.
pub(crate) fn check_writable(file: &Path) -> anyhow::Result<()> {
    let what = || format!("cannot write {}", file.display());
    if file.is_dir() {
        return Err(io::Error::from(Errno::ISDIR)).with_context(what).advise("name a file");
    }
    // The file itself, or else the nearest folder above it: what is missing in between is made.
    let above = || {
        file.ancestors()
            .skip(1)
            .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    };
    let found = std::iter::once(file).chain(above()).find(|path| path.symlink_metadata().is_ok());
    let access = Access::WRITE_OK | if found == Some(file) { Access::empty() } else { Access::EXEC_OK };
    // The rights of the effective user, whose the write will be.
    rustix::fs::accessat(CWD, found.unwrap_or(file), access, AtFlags::EACCESS)
        .map_err(io::Error::from)
        .with_context(what)
        .advise("name a file in a folder that you may write to")
}

/// Reads a file that the user named.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    tracing::debug!("reading {}", file.display());
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Writes a file that the user named, and makes its folder. It has its name once it is whole: half of it, as on a full
/// disk, is no result, and what was there before stays until then.
pub(crate) fn write(file: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let made = match file.parent() {
        // `create_dir_all` says of a file in the place of the folder that it exists.
        Some(folder) if folder.exists() && !folder.is_dir() => Err(Errno::NOTDIR.into()),
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder),
        _ => io::Result::Ok(()),
    };
    tracing::debug!("writing {}", file.display());
    let bytes = bytes.as_ref();
    // A link stays one: it is the file that it leads to that is replaced.
    let target = file.canonicalize();
    let write = || match &target {
        Err(_) => write_new(file, bytes),
        Ok(old) => match beside(old)? {
            Some(mut new) => {
                new.file().write_all(bytes)?;
                // A file that is mounted by itself, as into a container, can take no other one's place.
                new.take_the_place_of(old).or_else(|_| std::fs::write(old, bytes))
            }
            None => std::fs::write(old, bytes),
        },
    };
    made.and_then(|()| interrupt::keeping(file, write))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Writes a file that is not there. A link that leads nowhere stays, and gets the file that it leads to.
fn write_new(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As for any new file, the umask takes rights away.
    match NewFile::in_folder(folder, 0o666) {
        Ok(mut new) if !file.is_symlink() => {
            new.file().write_all(bytes)?;
            new.take_the_place_of(file)
        }
        // Some folders take no further files, such as /dev/fd.
        _ => std::fs::write(file, bytes).inspect_err(|_| drop(std::fs::remove_file(file))),
    }
}

/// A file that has no name in its folder yet (O_TMPFILE), so that nothing is left of a command that is killed; or one with
/// a name of chance, where the file system has no others.
enum NewFile<'a> {
    Nameless(File, &'a Path),
    Named(NamedTempFile),
}

impl<'a> NewFile<'a> {
    fn in_folder(folder: &'a Path, rights: u32) -> io::Result<Self> {
        // Without /proc it could be given no name.
        if Path::new("/proc/self/fd").exists() {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            if let Ok(file) = rustix::fs::open(folder, flags, Mode::from_raw_mode(rights)) {
                return Ok(Self::Nameless(file.into(), folder));
            }
        }
        let rights = Permissions::from_mode(rights);
        tempfile::Builder::new().permissions(rights).tempfile_in(folder).map(Self::Named)
    }

    fn file(&mut self) -> &mut File {
        match self {
            Self::Nameless(file, _) => file,
            Self::Named(named) => named.as_file_mut(),
        }
    }

    fn take_the_place_of(self, path: &Path) -> io::Result<()> {
        let name = match self {
            Self::Named(named) => named.into_temp_path(),
            Self::Nameless(file, folder) => {
                let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
                // linkat replaces nothing: that takes a name and rename.
                let link = |name: &Path| Ok(linkat(CWD, &nameless, CWD, name, AtFlags::SYMLINK_FOLLOW)?);
                tempfile::Builder::new().make_in(folder, link)?.into_temp_path()
            }
        };
        Ok(name.persist(path)?)
    }
}

/// A new file that can take the place of `file`: of the same owner, with the same rights. None where only the contents may
/// be replaced: a device, a pipe, a file with several names or with rights of single users, or one in a folder that we may
/// not write to.
fn beside(file: &Path) -> io::Result<Option<NewFile<'_>>> {
    let old = file.metadata()?;
    let has_one_name = old.is_file() && old.nlink() == 1;
    let is_writable = || rustix::fs::accessat(CWD, file, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    let of_single_users =
        || rustix::fs::getxattr(file, "system.posix_acl_access", &mut [0_u8; 0][..]).is_ok();
    let Some(folder) = file.parent().filter(|_| has_one_name && is_writable() && !of_single_users()) else {
        return Ok(None);
    };
    let like = |new: &mut NewFile<'_>| {
        std::os::unix::fs::fchown(&*new.file(), Some(old.uid()), Some(old.gid()))?;
        new.file().set_permissions(old.permissions())?;
        io::Result::Ok(())
    };
    let mut new = NewFile::in_folder(folder, 0o600).ok();
    Ok(new.take_if(|new| like(new).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<PathBuf> {
        from(
            |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            },
            None,
        )
    }

    #[test]
    fn the_folder_is_named_by_the_variable_then_by_xdg_then_by_the_home() {
        let (home, state) = (("HOME", "/home/a"), ("XDG_STATE_HOME", "/s"));
        assert_eq!(of(&[home, state, (VARIABLE, "here")]), Some("here".into()));
        assert_eq!(of(&[home, state, (VARIABLE, "")]), Some("/s/handoff/results".into()));
        assert_eq!(of(&[home]), Some("/home/a/.local/state/handoff/results".into()));
        assert_eq!(
            of(&[home, ("XDG_STATE_HOME", "relative")]),
            Some("/home/a/.local/state/handoff/results".into())
        );
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_name_is_free_for_all_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(free(folder.path(), "run", &["html", "json"]), "run");
        std::fs::write(folder.path().join("run.json"), "").expect("written");
        assert_eq!(free(folder.path(), "run", &["html", "json"]), "run-2");
        std::fs::write(folder.path().join("run-2.html"), "").expect("written");
        assert_eq!(free(folder.path(), "run", &["html", "json"]), "run-3");
        assert_eq!(free(folder.path(), "run", &["dat"]), "run");
        std::os::unix::fs::symlink("/nowhere", folder.path().join("run.dat")).expect("made");
        assert_eq!(
            free(folder.path(), "run", &["dat"]),
            "run-2",
            "what is written would go where the link leads"
        );
    }

    #[test]
    fn root_keeps_no_results_in_another_users_folder() {
        handoff_testkit::require!(handoff_testkit::require_root());
        let home = tempfile::tempdir().expect("a folder");
        let state = home.path().join(".local/state/handoff/results");
        assert!(check(&state).is_ok(), "it is made");
        std::os::unix::fs::chown(home.path(), Some(1000), Some(1000)).expect("root may");
        let told = format!("{:?}", check(&state).expect_err("another user's"));
        assert!(told.contains("belongs to user 1000") && told.contains("--output"), "{told}");
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let told =
            |path: &str| check_writable(&folder.path().join(path)).map_err(|error| format!("{error:?}"));
        std::fs::write(folder.path().join("file"), "").expect("written");
        assert_eq!(told("file"), Ok(()));
        assert_eq!(told("new"), Ok(()));
        assert_eq!(told("a/b/new"), Ok(()), "its folders are made");
        assert!(!folder.path().join("a").exists(), "nothing is made by looking");
        assert!(told(".").is_err_and(|text| text.contains("directory")));
        assert!(told("file/new").is_err_and(|text| text.contains("cannot write")));
        assert_eq!(check_writable(Path::new("/dev/null")).map_err(|error| error.to_string()), Ok(()));
    }

    #[test]
    fn a_file_gets_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a/b/c.html");
        write(&file, "x").expect("written");
        assert_eq!(std::fs::read_to_string(file).expect("it is there"), "x");
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_rights_and_its_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("changed");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write(&file, "new").expect("written");
        let is = file.metadata().expect("it is there");
        assert_eq!(is.permissions().mode() & 0o777, 0o640);
        write(&link, "newer").expect("written");
        assert!(link.symlink_metadata().expect("it is there").is_symlink());
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "newer");
        std::fs::hard_link(&file, folder.path().join("name")).expect("linked");
        write(&file, "newest").expect("written");
        assert_eq!(std::fs::read_to_string(folder.path().join("name")).expect("read"), "newest");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 3, "nothing else is left");
    }
}
