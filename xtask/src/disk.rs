//! Room on the disk: a build that runs out of it says so in many ways, few of them clear.

use std::path::Path;
use std::process::Command;

use crate::process::target_dir;

/// What a first run of everything leaves in the target folder, in GiB.
const FIRST_RUN: f64 = 10.0;
/// With less left after a failure, that is the likely reason.
const FULL: f64 = 2.0;

/// Says so before a first run for which there is not enough room.
pub(crate) fn announce() {
    let folder = target_dir();
    if let Some(free) = free(&folder)
        && free < FIRST_RUN
        && !folder.join("debug/deps").exists()
    {
        println!(
            "note: {free:.1} GiB are free for {}; a first run of everything takes about {FIRST_RUN} GiB",
            folder.display()
        );
    }
}

/// Why a check may have failed, if the disk is full or nearly so.
pub(crate) fn suspicion() -> Option<String> {
    let folder = target_dir();
    let free = free(&folder).filter(|free| *free < FULL)?;
    let folder = folder.display();
    Some(format!(
        "only {free:.1} GiB are free for {folder}: what failed may have failed for want of room. Free some, and run it again"
    ))
}

/// GiB that this user may still write where `folder` is, or will be.
fn free(folder: &Path) -> Option<f64> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let said = Command::new("df").arg("-Pk").arg(there).output().ok().filter(|said| said.status.success())?;
    available(&String::from_utf8_lossy(&said.stdout))
}

/// The fourth column of the last line of `df -Pk`, in GiB.
fn available(said: &str) -> Option<f64> {
    let kib: u64 = said.lines().last()?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_read_from_df() {
        let said = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                    /dev/vda         264113844 92274688   3879731      96% /\n";
        assert_eq!(available(said).map(|free| (free * 10.0).round()), Some(37.0));
        for odd in ["", "Filesystem", "a b c d e", "a b c -1 e"] {
            assert_eq!(available(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_yet_is_on_its_parent_s_disk() {
        let there = tempfile::tempdir().expect("a folder");
        let free = free(&there.path().join("not/yet")).expect("df is everywhere");
        assert!(free > 0.0);
    }
}
