//! What an analysis has not read, and why: a file or a function that is left out is named.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Facts, is_code};
use crate::patch::Series;
use crate::port::Versions;

/// A part of the change, or of the code around it, of which the analysis says nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unread {
    pub file: String,
    /// The functions, where it is not the whole file, with their first lines.
    pub functions: Vec<(String, usize)>,
    pub why: String,
}

impl Unread {
    /// A whole file.
    pub(super) fn file(file: impl Into<String>, why: impl Into<String>) -> Self {
        Self { file: file.into(), functions: Vec::new(), why: why.into() }
    }
}

/// Parts of the patches that are no text, and changed files whose language is not read.
pub(super) fn of_patches(series: &Series, changed: &BTreeMap<String, Versions>) -> Vec<Unread> {
    let refused = series.patches.iter().flat_map(|patch| &patch.refused);
    let mut out: Vec<Unread> =
        refused.map(|part| Unread::file(&part.path, format!("not ported: {}", part.problem))).collect();
    let other = changed.keys().filter(|path| !is_read(path));
    out.extend(other.map(|path| Unread::file(path, "not C: only its lines are counted")));
    out
}

/// True for the files whose lines are more to an analysis than a number.
fn is_read(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ends = [".dts", ".dtsi", ".tbl", ".rej"];
    is_code(path)
        || name.starts_with("Kconfig")
        || path.starts_with("Documentation/")
        || ends.iter().any(|end| path.ends_with(end))
}

/// The functions of which the parser read a part only, or nothing.
pub(super) fn of_functions(files: &BTreeMap<String, Facts>) -> Vec<Unread> {
    let mut out = Vec::new();
    for (file, facts) in files {
        for (functions, why) in [
            (&facts.unread, "read in part: the parser met what it does not know, so calls may lack"),
            (&facts.missed, "not read: a macro or a condition hides from the parser where it starts or ends"),
        ] {
            if !functions.is_empty() {
                out.push(Unread { file: file.clone(), functions: functions.clone(), why: why.to_owned() });
            }
        }
    }
    out
}
