//! What a variant changes on the machine: a sysctl, a file of sysfs or debugfs, a scheduler feature.

use std::io;
use std::path::{Path, PathBuf};

use handoff_placement::write_setting;
use serde::{Deserialize, Serialize};

/// Where the kernel tells and takes its scheduler features.
const FEATURES: &str = "/sys/kernel/debug/sched/features";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// A sysctl, such as `net.ipv4.tcp_autocorking`.
    Sysctl { name: String, value: String },
    /// A file below `/sys` or `/proc`.
    File { path: PathBuf, value: String },
    /// A scheduler feature, such as `WA_IDLE` or `NO_WA_IDLE`.
    Feature { token: String },
}

/// Why a setting cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    #[error("{0}")]
    Name(String),
    #[error("cannot {doing} {}", path.display())]
    Io { doing: String, path: PathBuf, source: io::Error },
    #[error("{} holds {found:?} after {wanted:?} was written to it", path.display())]
    Refused { path: PathBuf, wanted: String, found: String },
}

/// A file and what to write to it to have the old state again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    pub path: PathBuf,
    pub value: String,
}

impl Setting {
    pub fn path(&self) -> Result<PathBuf, SettingError> {
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
        };
        match self {
            Self::Sysctl { name, .. } => {
                if !plain(name) || name.split(['.', '/']).any(str::is_empty) {
                    return Err(SettingError::Name(format!(
                        "{name:?} is not the name of a sysctl, such as net.ipv4.tcp_autocorking"
                    )));
                }
                Ok(Path::new("/proc/sys").join(name.replace('.', "/")))
            }
            Self::File { path, .. } => {
                check_place(path)?;
                Ok(path.clone())
            }
            Self::Feature { token } => {
                let plain = !token.is_empty()
                    && token.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit());
                if !plain {
                    return Err(SettingError::Name(format!(
                        "{token:?} is not a scheduler feature, such as WA_IDLE or NO_WA_IDLE"
                    )));
                }
                Ok(PathBuf::from(FEATURES))
            }
        }
    }

    /// What to write to the file.
    pub fn value(&self) -> &str {
        match self {
            Self::Sysctl { value, .. } | Self::File { value, .. } => value,
            Self::Feature { token } => token,
        }
    }

    /// What would put the present state back.
    pub fn undo(&self) -> Result<Undo, SettingError> {
        let path = self.path()?;
        let text = std::fs::read_to_string(&path).map_err(|source| SettingError::Io {
            doing: "read".to_owned(),
            path: path.clone(),
            source,
        })?;
        let value = match self {
            Self::Feature { token } => {
                let name = token.strip_prefix("NO_").unwrap_or(token);
                let off = format!("NO_{name}");
                let state = text.split_whitespace().find(|word| *word == name || *word == off);
                state
                    .ok_or_else(|| {
                        SettingError::Name(format!("this kernel has no scheduler feature {name}"))
                    })?
                    .to_owned()
            }
            _ => chosen(&text).to_owned(),
        };
        Ok(Undo { path, value })
    }

    /// Writes it, and looks whether it stayed.
    pub fn apply(&self) -> Result<(), SettingError> {
        let path = self.path()?;
        write(&path, self.value())?;
        let found = self.undo()?.value;
        let same = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if same(&found) != same(self.value()) {
            return Err(SettingError::Refused { path, wanted: self.value().to_owned(), found });
        }
        Ok(())
    }
}

/// The content of a file, or the bracketed word of a list such as `always [madvise] never`.
fn chosen(text: &str) -> &str {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.unwrap_or(text.trim_end())
}

/// Whether a path is one of a kernel setting: what is set and what is put back goes by the same list.
fn check_place(path: &Path) -> Result<(), SettingError> {
    let inside = ["/sys", "/proc/sys", "/dev/cpuctl", "/dev/cpuset"].iter().any(|top| path.starts_with(top));
    let climbs = path.components().any(|part| part.as_os_str() == "..");
    if inside && !climbs {
        return Ok(());
    }
    Err(SettingError::Name(format!(
        "{} is not below /sys or /proc/sys: the lab changes and puts back kernel settings only",
        path.display()
    )))
}

fn write(path: &Path, value: &str) -> Result<(), SettingError> {
    write_setting(path, value).map_err(|source| SettingError::Io {
        doing: format!("write {value:?} to"),
        path: path.to_owned(),
        source,
    })
}

impl Undo {
    /// Puts the old state back.
    ///
    /// # Errors
    ///
    /// If the path is not one of a kernel setting, as for [`Setting::path`]; if the kernel refuses.
    pub fn apply(&self) -> Result<(), SettingError> {
        check_place(&self.path)?;
        write(&self.path, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lead_elsewhere() {
        for name in ["../../etc/passwd", "a..b", "", ".a", "net.ipv4.x y", "a/../b"] {
            let setting = Setting::Sysctl { name: name.into(), value: "1".into() };
            assert!(setting.path().is_err(), "{name}");
        }
        for path in ["/etc/passwd", "/sys/../etc/passwd", "sys/x", "/proc/1/mem"] {
            let setting = Setting::File { path: path.into(), value: "1".into() };
            assert!(setting.path().is_err(), "{path}");
        }
        let sysctl = Setting::Sysctl { name: "net.ipv4.tcp_autocorking".into(), value: "1".into() };
        assert_eq!(sysctl.path().expect("good"), Path::new("/proc/sys/net/ipv4/tcp_autocorking"));
        assert!(Setting::Feature { token: "WA_IDLE; rm".into() }.path().is_err());
    }

    #[test]
    fn nothing_but_settings_of_the_kernel_is_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "mine").expect("written");
        let climbing = Path::new("/sys/..").join(file.strip_prefix("/").expect("absolute"));
        for path in [file.clone(), climbing, "/proc/self/oom_score_adj".into(), "/dev/null".into()] {
            let undo = Undo { path: path.clone(), value: "0".into() };
            assert!(matches!(undo.apply(), Err(SettingError::Name(_))), "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "mine");
        // Below /sys, but of no file system of the kernel's settings: nothing is made there.
        let undo = Undo { path: "/sys/fs/cgroup/no-such-file".into(), value: "0".into() };
        assert!(undo.apply().is_err() && !undo.path.exists());
    }

    #[test]
    fn a_list_is_put_back_by_its_chosen_word() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("4096\t131072\t6291456\n"), "4096\t131072\t6291456");
    }
}
