//! Real fixes of stable kernels, each with the place at which the maintainers of the older kernel have it.

use std::collections::BTreeMap;
use std::fs;

use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

use crate::pairs::tools::{OTHERS, Verdict, handoff};
use crate::pairs::{excerpt, pairs};

const HUNKS: &str = include_str!("../real-hunks/6.12-onto-6.1.txt");

#[test]
fn real_fixes_go_where_the_maintainers_put_them() {
    let pairs = excerpt::read(HUNKS);
    let mut tally: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut told = Vec::new();
    for pair in &pairs {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join(&pair.path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &pair.before).unwrap();
        let (verdict, report) = handoff(pair, folder.path());
        *tally.entry(verdict).or_default() += 1;
        if matches!(verdict, Verdict::WrongSaid | Verdict::WrongUnsaid) {
            told.push(format!("{} {verdict:?}\n{report}", pair.name));
        }
    }
    let of = |verdict| tally.get(&verdict).copied().unwrap_or(0);
    let shown = told.join("\n");
    assert!(pairs.len() >= 300, "{}", pairs.len());
    assert_eq!(of(Verdict::WrongUnsaid), 0, "{tally:?}\n{shown}");
    assert!(of(Verdict::WrongSaid) * 100 <= 2 * pairs.len(), "{tally:?}\n{shown}");
    assert!(of(Verdict::Right) * 100 >= 88 * pairs.len(), "{tally:?}\n{shown}");
}

#[test]
fn most_of_the_real_fixes_are_not_for_git_apply() {
    require!(require_tool("git"));
    let pairs = excerpt::read(HUNKS);
    let sample: Vec<_> = pairs.iter().step_by(10).collect();
    let refused = sample.iter().filter(|pair| {
        let folder = TempDir::new().unwrap();
        OTHERS[0].1(pair, folder.path()) == Some(Verdict::GaveUp)
    });
    assert!(refused.count() * 2 > sample.len());
}

#[test]
fn the_same_fix_in_two_lines_says_where_a_hunk_belongs() {
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
    let want = old.replace("\ttwo();\n", "\ttwo();\n\tmore();\n");
    assert_eq!(String::from_utf8_lossy(&pair.after), want);
    assert_eq!(handoff(pair, folder.path()).0, Verdict::Right);
    // Another change is not the same fix.
    assert!(found(&diff(20, "new_one", "less"), &diff(7, "old_one", "more")).is_empty());

    let series =
        handoff_kernel::patch::parse(&pair.patch, &handoff_kernel::patch::Limits::default()).unwrap();
    let text = excerpt::write(pair, &series.patches[0].files[0].hunks[0]).unwrap();
    let again = excerpt::read(&text);
    assert_eq!((&again[0].before, &again[0].after, &again[0].path), (&pair.before, &pair.after, &pair.path));
}
