//! The folder for programs on a target: one that nobody but its user and root can write to, so that a program is
//! the one whose hash was compared a moment before.

use crate::command::quoted;

/// Chooses `$FOLDER`, makes it, and says it; says nothing where there is none.
///
/// `private` looks at each part of the path without links: its owner must be this user or root (on Android also
/// `system`, which owns `/data`), and others must not be able to write to it, unless the sticky bit keeps them from
/// what is not theirs. A group that has its owner's number has no other member. What `take` has entered is what it
/// checks and changes, and it is no link: one of another user would lead to any folder of ours.
const CHOOSE: &str = "\
me=$(id -u)
private() {
  at=$(cd \"$1\" 2>/dev/null && pwd -P) || return 1
  while :; do
    set -f; set -- $(ls -ldn \"$at\" 2>/dev/null); set +f
    [ \"$3\" = 0 ] || [ \"$3\" = \"$me\" ] || { [ \"$3\" = 1000 ] && [ -e /system/build.prop ]; } || return 1
    case $1 in
      d????????[tT]*) ;;
      d???????w*) return 1 ;;
      d????w*) [ \"$3\" = \"$4\" ] && [ \"$3\" != 0 ] || return 1 ;;
      d*) ;;
      *) return 1 ;;
    esac
    [ \"$at\" != / ] || return 0
    at=${at%/*}; at=${at:-/}
  done
}
take() {
  [ -z \"$FOLDER\" ] && private \"$1\" || return 1
  (umask 022; mkdir -p \"$1/${2%/*}\") 2>/dev/null
  mkdir -m 700 \"$1/$2\" 2>/dev/null
  FOLDER=$(
    top=$(cd \"$1/${2%/*}\" && pwd -P) && cd \"$top/${2##*/}\" && here=$(pwd -P) &&
    [ \"$here\" = \"${top%/}/${2##*/}\" ] && [ -O . ] && private . && chmod 700 . && [ -w . ] && echo \"$here\"
  ) 2>/dev/null
}
";

/// As a script of `sh` that ends with `$FOLDER` set: `named`, or the first of the usual ones that is this user's
/// alone. `shared` is where every user may make folders.
pub(crate) fn choose(named: Option<&str>, shared: &str) -> String {
    let wanted = match named {
        Some(folder) => {
            let (parent, name) = folder.trim_end_matches('/').rsplit_once('/').unwrap_or(("", folder));
            let (top, name) =
                (quoted(if parent.is_empty() { "/" } else { parent }), quoted(&format!("./{name}")));
            format!("mkdir -p {top} 2>/dev/null; take {top} {name}\n")
        }
        None => format!(
            "if [ -e /system/build.prop ]; then\n\
             if [ \"$me\" = 0 ]; then take /data/local ./handoff; else take /data/local/tmp ./handoff; fi\nfi\n\
             [ -z \"$HOME\" ] || take \"$HOME\" .cache/handoff\n\
             take {} \"./handoff-$me\"\n",
            quoted(shared)
        ),
    };
    format!("FOLDER=\n{CHOOSE}{wanted}")
}

/// A place of which everybody on the target knows, for the lock: it is only opened, and never written to.
pub(crate) const LOCK: &str = "/tmp/handoff";

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn chosen(named: Option<&str>, home: &Path, shared: &Path) -> Option<PathBuf> {
        let script = choose(named, shared.to_str().expect("text")) + "echo \"$FOLDER\"";
        let output = Command::new("sh").args(["-c", &script]).env("HOME", home).output().expect("sh");
        let said = String::from_utf8(output.stdout).expect("text");
        Some(said.trim().to_owned()).filter(|said| !said.is_empty()).map(PathBuf::from)
    }

    fn folder(path: &Path, mode: u32) {
        fs::create_dir_all(path).expect("made");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }

    #[test]
    fn a_folder_in_the_home_is_made_for_its_user_alone() {
        let top = tempfile::tempdir().expect("a folder");
        let (home, shared) = (top.path().join("it's home"), top.path().join("shared"));
        folder(&home, 0o755);
        folder(&shared, 0o1777);
        let there = chosen(None, &home, &shared).expect("a folder");
        assert_eq!(there, home.join(".cache/handoff"));
        assert_eq!(there.metadata().expect("made").mode() & 0o777, 0o700);
        assert_eq!(chosen(None, &home, &shared), Some(there), "the same again");
        let named = top.path().join("a/b");
        assert_eq!(chosen(named.to_str(), &home, &shared), Some(named));
    }

    #[test]
    fn a_home_that_others_may_write_to_is_not_used() {
        let top = tempfile::tempdir().expect("a folder");
        let (home, shared) = (top.path().join("home"), top.path().join("shared"));
        folder(&home, 0o777);
        folder(&shared, 0o1777);
        let there = chosen(None, &home, &shared).expect("the other");
        assert_eq!(there.parent(), Some(shared.as_path()));
        folder(&home, 0o755);
        folder(&home.join(".cache"), 0o777);
        assert_eq!(chosen(None, &home, &shared), Some(there), "nor what is on the way");
        folder(&shared, 0o777);
        assert_eq!(chosen(None, &home, &shared), None, "without the sticky bit others can replace it");
    }

    #[test]
    fn a_folder_of_another_user_is_never_used() {
        require!(require_root());
        let top = tempfile::tempdir().expect("a folder");
        let (home, shared) = (top.path().join("home"), top.path().join("shared"));
        folder(&home, 0o755);
        folder(&shared, 0o1777);
        let theirs = shared.join("handoff-0");
        folder(&theirs, 0o755);
        chown(&theirs, Some(1001), Some(1001)).expect("given away");
        chown(&home, Some(1001), Some(1001)).expect("given away");
        assert_eq!(chosen(None, &home, &shared), None);
        assert!(!home.join(".cache").exists(), "nothing is made in another user's home");
        assert_eq!(chosen(theirs.to_str(), &home, &shared), None);
        assert_eq!(chosen(theirs.join("below").to_str(), &home, &shared), None);
        // A link of theirs in the place of ours.
        fs::remove_dir_all(&theirs).expect("gone");
        let victim = top.path().join("victim");
        folder(&victim, 0o755);
        symlink(&victim, &theirs).expect("made");
        std::os::unix::fs::lchown(&theirs, Some(1001), None).expect("given away");
        assert_eq!(chosen(None, &home, &shared), None);
        assert_eq!(victim.metadata().expect("there").mode() & 0o777, 0o755, "it is left as it was");
    }
}
