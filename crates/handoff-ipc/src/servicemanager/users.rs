//! Numbers of users and groups that a policy calls by name, from `/etc/passwd` and `/etc/group`.
//!
//! Read here rather than asked of the C library: a static binary has no name service, and the
//! accounts that a system-wide policy names are local ones.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The names of one of the two files.
pub(super) struct Names {
    file: PathBuf,
    ids: Result<HashMap<String, u32>, String>,
}

impl Names {
    /// Reads a file. One that cannot be read is an error only when a name is looked for.
    pub(super) fn read(file: &Path) -> Self {
        let ids = std::fs::read(file).map_err(|error| error.to_string());
        Names { file: file.to_owned(), ids: ids.map(|bytes| parse(&String::from_utf8_lossy(&bytes))) }
    }

    /// The number of a name.
    pub(super) fn id(&self, name: &str) -> Result<u32, String> {
        let file = self.file.display();
        match &self.ids {
            Ok(ids) => ids
                .get(name)
                .copied()
                .ok_or_else(|| format!("no {name:?} in {file}: write the number, or add the account first")),
            Err(error) => Err(format!("{name:?} cannot be looked up: {file}: {error}: write the number")),
        }
    }
}

/// `name:password:number:...`; the first of equal names counts, as for the C library.
fn parse(text: &str) -> HashMap<String, u32> {
    let mut ids = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(_), Some(Ok(id))) =
            (fields.next(), fields.next(), fields.next().map(str::parse))
        {
            ids.entry(name.to_owned()).or_insert(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name() {
        let ids =
            parse("root:x:0:0:root:/root:/bin/sh\n# a comment\nbroken\naudio:x:29:pulse\nroot:x:7\n::\n");
        assert_eq!((ids.get("root"), ids.get("audio"), ids.len()), (Some(&0), Some(&29), 2));
        let missing = Names::read(Path::new("/no/such/passwd"));
        assert!(missing.id("root").unwrap_err().contains("/no/such/passwd"));
        assert_eq!(Names::read(Path::new("/etc/passwd")).id("root"), Ok(0));
    }
}
