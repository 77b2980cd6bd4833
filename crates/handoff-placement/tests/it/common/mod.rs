//! Recorded machines as trees; see `tests/trees/README.md`.

use handoff_placement::{CpuSet, Root};
use std::fs;
use std::path::Path;

/// A recorded machine, unpacked for as long as the value lives.
pub(crate) struct Machine {
    _folder: tempfile::TempDir,
    pub(crate) root: Root,
}

/// Unpacks `tests/trees/NAME.tree`.
pub(crate) fn machine(name: &str) -> Machine {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees").join(name).with_extension("tree");
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (path, value) = line.split_once(" =").unwrap_or_else(|| panic!("{line}"));
        for (path, value) in expand(path, value.trim()) {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value + "\n").unwrap();
        }
    }
    Machine { _folder: folder, root }
}

fn expand(path: &str, value: &str) -> Vec<(String, String)> {
    let Some((before, rest)) = path.split_once('{') else { return vec![(path.into(), value.into())] };
    let (numbers, after) = rest.split_once('}').unwrap();
    let numbers: CpuSet = numbers.parse().unwrap();
    numbers.iter().map(|n| (format!("{before}{n}{after}"), value.replace('$', &n.to_string()))).collect()
}
