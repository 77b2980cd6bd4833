//! Real fixes of stable kernels tell where a hunk belongs: in the example `pairs`, of which this tries the judgement.

use std::fs;

use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

use crate::pairs::pairs;
use crate::pairs::tools::{OTHERS, Verdict, handoff, judged, ported};

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
    assert_eq!(judged(pair, &ported(whole, folder.path()), *number), Verdict::Right);
    let (git_apply, judge) = OTHERS[0];
    assert_eq!(judge(pair, TempDir::new().unwrap().path()), Some(Verdict::GaveUp), "{git_apply}");
    // Another change is not the same fix.
    assert!(found(&diff(20, "new_one", "less"), &diff(7, "old_one", "more")).is_empty());
}
