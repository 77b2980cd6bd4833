//! Package lists of another suite than the system's, such as `trixie-backports`: fetched into the cache, from the
//! servers that the system's own sources name. Nothing of the system is changed.

use std::path::{Path, PathBuf};

use super::GuestError;
use super::cache::{Cache, write_whole};

/// Where a system keeps the names of its servers.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];
/// The keys of Debian's archive, where its package puts them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Lists of one suite.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    pub(crate) name: String,
    folder: PathBuf,
}

impl Suite {
    /// Makes a folder of the cache for the lists of a suite.
    pub(crate) fn new(cache: &Cache, name: &str) -> Result<Self, GuestError> {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
        if !plain || name.is_empty() || name.starts_with(['-', '.']) {
            return Err(GuestError::Options(format!("{name:?} cannot be the name of a suite")));
        }
        let server = server(&read_sources()).ok_or_else(|| {
            GuestError::Options(format!(
                "the packages of {name} cannot be found: neither {} nor {} names a server of Debian's packages; \
                 name a kernel image yourself with `--kernel FILE`",
                SOURCES[0], SOURCES[1]
            ))
        })?;
        let folder = cache.folder(&format!("suites/{name}"))?;
        for part in ["lists/partial", "cache/archives/partial"] {
            cache.folder(&format!("suites/{name}/{part}"))?;
        }
        let suite = Self { name: name.to_owned(), folder };
        write_whole(&suite.folder.join("status"), b"")?;
        let signed =
            if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        let mut suites = vec![release_of(name), name];
        suites.dedup();
        let list: String =
            suites.iter().map(|suite| format!("deb {signed}{server} {suite} main\n")).collect();
        write_whole(&suite.folder.join("sources.list"), list.as_bytes())?;
        Ok(suite)
    }

    /// Options that have the package manager use these lists alone, and prefer what the suite has.
    pub(crate) fn options(&self) -> Vec<String> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        [
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("cache")),
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("APT::Default-Release={}", self.name),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect()
    }
}

/// The name of a package, and the suite that it is to come from: as apt has it, `PACKAGE/SUITE`.
pub(crate) fn split(package: &str) -> (&str, Option<&str>) {
    match package.split_once('/') {
        Some((name, suite)) => (name, Some(suite)),
        None => (package, None),
    }
}

/// `trixie` of `trixie-backports`, whose packages need those of the release.
fn release_of(suite: &str) -> &str {
    let parts = ["-backports-sloppy", "-backports", "-proposed-updates", "-updates"];
    parts.iter().find_map(|part| suite.strip_suffix(part)).unwrap_or(suite)
}

fn read_sources() -> String {
    let mut files = vec![PathBuf::from(SOURCES[0])];
    if let Ok(entries) = std::fs::read_dir(SOURCES[1]) {
        let mut more: Vec<PathBuf> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        more.sort();
        files.extend(more);
    }
    files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|text| [text, "\n".into()])
        .collect()
}

/// The first server of Debian's packages that sources name, in either of their two forms.
fn server(sources: &str) -> Option<String> {
    let of_line = |line: &str| -> Option<String> {
        let line = line.trim();
        let rest = line.strip_prefix("URIs:").or_else(|| {
            let rest = line.strip_prefix("deb ")?.trim_start();
            // Options stand in brackets.
            Some(if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest })
        })?;
        let uri = rest.split_whitespace().next()?;
        let is_address = ["http://", "https://", "file:"].iter().any(|scheme| uri.starts_with(scheme));
        let is_debian = uri.contains("debian") && !uri.contains("security");
        (is_address && is_debian).then(|| uri.to_owned())
    };
    sources.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_packages_is_found_in_both_forms() {
        let new = "Types: deb\n# http://old/debian\nURIs: http://a.test/debian\nSuites: x\n";
        assert_eq!(server(new).as_deref(), Some("http://a.test/debian"));
        let old = "# deb http://no.test/debian x\ndeb-src http://s.test/debian x\n\
                   deb http://security.test/debian-security x main\ndeb [arch=amd64] https://b.test/debian x main\n";
        assert_eq!(server(old).as_deref(), Some("https://b.test/debian"));
        for none in ["", "deb", "deb [arch", "URIs:", "URIs: cdrom:debian", "deb http://u.test/ubuntu x main"]
        {
            assert_eq!(server(none), None, "{none}");
        }
    }

    #[test]
    fn a_package_may_name_its_suite() {
        assert_eq!(split("linux-image-amd64"), ("linux-image-amd64", None));
        assert_eq!(split("linux-image-amd64/sid"), ("linux-image-amd64", Some("sid")));
        assert_eq!(release_of("trixie-backports"), "trixie");
        assert_eq!(release_of("sid"), "sid");
    }

    #[test]
    fn a_suites_name_is_no_path_and_no_option() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(Some(folder.path())).expect("a cache");
        for bad in ["", "../x", "-o", "a b", "a/b", ".hidden", "x\nfile:"] {
            assert!(Suite::new(&cache, bad).is_err(), "{bad:?}");
        }
    }
}
