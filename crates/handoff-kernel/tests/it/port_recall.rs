//! The judge of placed hunks, on a small repository of three releases.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use handoff_testkit::{require, require_tool};

use crate::recall::{Known, Verdict, judge_all};

fn git(folder: &Path, words: &[&str]) {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
        .args(words)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn release(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join("x.c"), text).expect("written");
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-q", "-m", name]);
    git(folder, &["tag", name]);
}

#[test]
fn hunks_are_judged_by_the_history_in_between() {
    require!(require_tool("git"));
    let folder = tempfile::tempdir().expect("a folder");
    git(folder.path(), &["init", "-q"]);
    let pad = |from: usize| (from..from + 12).map(|n| format!("int pad{n};\n")).collect::<String>();
    let f = "int f(void)\n{\n\tone();\n\ttwo();\n\tthree();\n\tfour();\n\treturn 0;\n}\n";
    let g = "int g(void)\n{\n\tfive();\n\tsix();\n\tseven();\n\treturn 1;\n}\n";
    let old = format!("{f}{}{g}{}", pad(0), pad(20));
    release(folder.path(), "v1", &old);
    // More above, another name beside what changes, and a function that the old tree does not have.
    let h = "int h(void)\n{\n\tnew_one();\n\tnew_two();\n\tnew_three();\n\treturn 2;\n}\n";
    let from = format!("{}{f}{}{}{}{h}", pad(40), pad(0), g.replace("five", "cinq"), pad(20)) + &pad(60);
    release(folder.path(), "v2", &from);
    let to = from
        .replace("\ttwo();\n", "\ttwo();\n\tmore();\n")
        .replace("\tsix();\n", "\tsix();\n\tmore();\n")
        .replace("\tnew_two();\n", "\tnew_two();\n\tmore();\n");
    release(folder.path(), "v3", &to);

    let told = RefCell::new(Vec::new());
    let tell = |what: &str| told.borrow_mut().push(what.to_owned());
    let paths = ["x.c".to_owned()];
    let tally = judge_all(folder.path(), &["v1", "v2", "v3"], &paths, &tell).expect("a good repository");
    assert_eq!(tally.of(Known::Traceable, Verdict::Right), 1, "{tally}");
    assert_eq!(tally.of(Known::Half, Verdict::Right), 1, "{tally} {told:?}");
    assert_eq!(tally.of(Known::Nothing, Verdict::GaveUp), 1, "{tally}");
    assert_eq!((tally.wrong_unsaid(), told.borrow().len()), (0, 0), "{told:?}");
    let error = judge_all(folder.path(), &["v1", "v3"], &paths, &tell).map(drop).expect_err("too few");
    assert!(error.to_string().contains("at least three"), "{error}");
}
