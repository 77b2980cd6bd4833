//! Real fixes of stable kernels tell where a hunk belongs: in the example `pairs`, of which this tries the judgement.

use std::fs;
use std::path::Path;

use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

use crate::pairs::pairs;
use crate::pairs::picks::{pairs_of, picks};
use crate::pairs::tally::{Judging, PairTally};
use crate::pairs::tools::{OTHERS, Verdict, handoff, judged, ported, with_base};
use crate::port_commit::git;

#[test]
fn the_same_fix_in_two_lines_says_where_a_hunk_belongs() {
    require!(require_tool("git"));
    let folder = TempDir::new().unwrap();
    let old = "int g(void)\n{\n\tother();\n}\n\nint f(void)\n{\n\told_one();\n\ttwo();\n\tthree();\n}\n";
    fs::write(folder.path().join("x.c"), old).unwrap();
    let diff = |start: usize, one: &str, added: &str| {
        format!(
            "--- a/x.c\n+++ b/x.c\n@@ -{start},4 +{start},5 @@ int f(void)\n {{\n \t{one}();\n \ttwo();\n+\t{added}();\n \tthree();\n"
        )
    };
    let found = |newer: &str, older: &str| pairs(newer.as_bytes(), older.as_bytes(), folder.path()).unwrap();
    let both = found(&diff(20, "new_one", "more"), &diff(7, "old_one", "more"));
    let [pair] = &both[..] else { panic!("{} pairs", both.len()) };
    assert!(pair.name.starts_with("x.c"), "{}", pair.name);
    let want = old.replace("\ttwo();\n", "\ttwo();\n\tmore();\n");
    assert_eq!(String::from_utf8_lossy(&pair.after), want);
    assert_eq!(handoff(pair, folder.path()).0, Verdict::Right);
    let (whole, number) = &pair.whole;
    assert_eq!(judged(pair, &ported(whole, folder.path(), None), *number), Verdict::Right);
    let (git_apply, judge) = OTHERS[0];
    assert_eq!(judge(pair, TempDir::new().unwrap().path()), Some(Verdict::GaveUp), "{git_apply}");
    // Another change is not the same fix.
    assert!(found(&diff(20, "new_one", "less"), &diff(7, "old_one", "more")).is_empty());
}

/// A repository with a release branch, and picks onto it: one as `git cherry-pick -x` makes it, one without a name.
fn with_picks(folder: &Path) {
    let text = |head: &str| {
        format!("{head}int f(void)\n{{\n\tone();\n\ttwo();\n\tthree();\n\tfour();\n\tfive();\n}}\n")
    };
    let commit = |text: &str, message: &str, when: &str| {
        fs::write(folder.join("x.c"), text).unwrap();
        git(folder, &["add", "-A"]);
        git(folder, &["commit", "-q", "-m", message, "--date", when]);
        git(folder, &["rev-parse", "HEAD"]).trim().to_owned()
    };
    git(folder, &["init", "-q", "-b", "main"]);
    for (key, value) in [("user.name", "A"), ("user.email", "a@example.org"), ("commit.gpgsign", "false")] {
        git(folder, &["config", key, value]);
    }
    commit(&text(""), "First", "2020-01-01T00:00:00Z");
    git(folder, &["branch", "release"]);
    let newer = text("int a;\n\n").replace("one", "new_one");
    commit(&newer, "More", "2020-01-02T00:00:00Z");
    let named = newer.replace("\ttwo();\n", "\ttwo();\n\tmore();\n");
    let id = commit(&named, "Fix", "2020-01-03T00:00:00Z");
    let other = named.replace("\tfour();\n", "\tquatre();\n");
    commit(&other, "Fix four", "2020-01-04T00:00:00Z");
    git(folder, &["checkout", "-q", "release"]);
    let older = text("").replace("\ttwo();\n", "\ttwo();\n\tmore();\n");
    commit(&older, &format!("Fix\n\n(cherry picked from commit {id})"), "2020-01-05T00:00:00Z");
    commit(&older.replace("\tfour();\n", "\tquatre();\n"), "Fix four", "2020-01-04T00:00:00Z");
}

#[test]
fn picks_of_a_repository_say_where_hunks_belong() {
    require!(require_tool("git"));
    let folder = TempDir::new().unwrap();
    with_picks(folder.path());
    let found = picks(folder.path()).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    let mut tally = PairTally::default();
    for pick in &found {
        let tree = TempDir::new().unwrap();
        let pairs = pairs_of(folder.path(), pick, tree.path()).unwrap();
        assert_eq!(pairs.len(), 1, "{pick:?}");
        assert_eq!(with_base(&pairs[0], tree.path()), Some(Verdict::Right));
        tally.judge(&pairs, tree.path(), Judging { whole: true, ..Judging::default() });
        tally.judge(&pairs, tree.path(), Judging { tools: true, ..Judging::default() });
    }
    assert_eq!(tally.of("handoff", Verdict::Right), 4, "{tally}");
    // The one has other lines around it in the older tree.
    assert_eq!(
        (tally.of("git apply", Verdict::GaveUp), tally.of("git apply", Verdict::Right)),
        (2, 2),
        "{tally}"
    );
}
