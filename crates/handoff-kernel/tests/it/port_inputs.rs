//! Each form in which a patch may come, through each form in which it may go: nothing is lost, nothing is silently wrong,
//! and the three sorts of exit status are true.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use handoff_kernel::patch::{Input, InputError, Limits, Series, load};
use handoff_kernel::port::aside::{Onto, look, to_branch, to_folder};
use handoff_kernel::port::commit::port_and_commit;
use handoff_kernel::port::{Options, PortReport, port};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

use crate::port_commit::git;

const X: &str = "int f(void)\n{\n\tone(a);\n\ttwo(b);\n\tthree(c);\n\tfour(d);\n\treturn 0;\n}\n";
const DONE: &str =
    "int f(void)\n{\n\tone(a);\n\ttwo(b);\n\tmore(b);\n\tthree(c);\n\tfour(d);\n\treturn 0;\n}\n";
const HUNK: &str = "@@ -2,6 +2,7 @@ int f(void)\n {\n \tone(a);\n \ttwo(b);\n+\tmore(b);\n \tthree(c);\n \tfour(d);\n \treturn 0;\n";
const OTHER: &str =
    "diff --git a/y.c b/y.c\n--- a/y.c\n+++ b/y.c\n@@ -1,2 +1,3 @@\n int a;\n+int b;\n int c;\n";
const Y: &str = "int a;\nint c;\n";
const Y_DONE: &str = "int a;\nint b;\nint c;\n";

/// What becomes of an input.
enum Expect {
    /// It is refused, with these words.
    Refused(&'static str),
    /// The exit status, the number of parts that are reported, and the files that differ from the tree afterwards.
    Ported(u8, usize, Vec<(&'static str, Option<&'static str>)>),
}

struct Case {
    name: &'static str,
    input: Vec<u8>,
    strip: usize,
    /// Files that the tree has otherwise.
    tree: Vec<(&'static str, &'static str)>,
    expect: Expect,
}

fn case(name: &'static str, input: impl Into<Vec<u8>>, expect: Expect) -> Case {
    Case { name, input: input.into(), strip: 1, tree: Vec::new(), expect }
}

fn change(path: &str, hunk: &str) -> String {
    format!("--- a/{path}\n+++ b/{path}\n{hunk}")
}

fn mail(number: &str, subject: &str, diff: &str) -> String {
    format!(
        "From {} Mon Sep 17 00:00:00 2001\nFrom: A B <a@example.org>\nDate: Tue, 3 Mar 2015 10:00:00 +0100\nSubject: [PATCH {number}] {subject}\n\nWhy.\n---\n{diff}-- \n2.39\n\n",
        "a".repeat(40)
    )
}

fn wide(text: &str) -> Vec<u8> {
    [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
}

fn cases() -> Vec<Case> {
    use Expect::{Ported, Refused};
    let plain = change("x.c", HUNK);
    let done = || vec![("x.c", Some(DONE))];
    let git = |head: &str, rest: &str| format!("diff --git {head}\n{rest}");
    let beside = |part: &str| format!("{part}{OTHER}");
    // One part cannot be ported, and the one behind it is.
    let rest = || Ported(1, 2, vec![("y.c", Some(Y_DONE))]);
    let second = "@@ -3,6 +3,7 @@ int f(void)\n \tone(a);\n \ttwo(b);\n \tmore(b);\n+\teven(b);\n \tthree(c);\n \tfour(d);\n \treturn 0;\n";
    let both = DONE.replace("\tmore(b);\n", "\tmore(b);\n\teven(b);\n");
    let both: &'static str = Box::leak(both.into_boxed_str());
    let dos: &'static str = Box::leak(X.replace('\n', "\r\n").into_boxed_str());
    let dos_done: &'static str = Box::leak(DONE.replace('\n', "\r\n").into_boxed_str());
    let cut: &'static str = DONE.strip_suffix('\n').unwrap();
    let reverse = plain.replace("-2,6 +2,7", "-2,7 +2,6").replace("+\tmore", "-\tmore");
    let last = "@@ -8 +9 @@ int f(void)\n-}\n+}\n\\ No newline at end of file\n";
    let wrapped = plain.replace("+\tmore(b);\n", "+\tmore(\nb);\n");
    let quoted: String = plain.lines().map(|line| format!("> {line}\n")).collect();
    let spaces = plain.replace('\t', "        ");
    let context = "*** a/x.c\n--- b/x.c\n***************\n*** 3,5 ****\n--- 3,6 ----\n  \ttwo(b);\n+ \tmore(b);\n  \tthree(c);\n";
    let combined = "diff --cc x.c\nindex 1111111,2222222..3333333\n--- a/x.c\n+++ b/x.c\n@@@ -3,3 -3,3 +3,4 @@@\n  \ttwo(b);\n++\tmore(b);\n  \tthree(c);\n";
    let binary =
        git("a/i.png b/i.png", "index 1234567..2345678 100644\nBinary files a/i.png and b/i.png differ\n");
    let module = git(
        "a/sub b/sub",
        "index 1234567..2345678 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n",
    );
    let lies = change("x.c", &HUNK.replace("+2,7", "+2,9"));
    let short = change("x.c", &HUNK.replace("-2,6 +2,7", "-2,5 +2,6"));
    vec![
        case("a plain diff", &*plain, Ported(0, 1, done())),
        case(
            "timestamps",
            plain.replace("x.c\n", "x.c\t2014-01-19 20:40:07.000000000 +0100\n"),
            Ported(0, 1, done()),
        ),
        case(
            "timestamps behind a blank",
            plain.replace("x.c\n", "x.c 2014-01-19 20:40:07.000000000 +0100\n"),
            Ported(0, 1, done()),
        ),
        case("only a diffstat", " x.c | 1 +\n 1 file changed, 1 insertion(+)\n", Refused("no change in it")),
        case("nothing", "", Refused("no change in it")),
        case("a combined diff alone", combined, Ported(1, 1, vec![])),
        case("a combined diff beside another", beside(combined), rest()),
        case("a context diff alone", context, Ported(1, 1, vec![])),
        case("a context diff beside another", beside(context), rest()),
        case(
            "two context diffs",
            format!("{context}{}{OTHER}", context.replace("x.c", "z.c")),
            Ported(1, 3, vec![("y.c", Some(Y_DONE))]),
        ),
        case("a hunk without a file", beside(HUNK), rest()),
        case("a binary file of diff -r", beside("Binary files a/i.png and b/i.png differ\n"), rest()),
        case("a file of one side", beside("Only in b: new.c\n"), rest()),
        case("a binary change", beside(&binary), rest()),
        case("a submodule", beside(&module), rest()),
        case("a count that is too high", beside(&lies), rest()),
        case("a count that is too low", beside(&short), rest()),
        case("a line that a mail program wrapped", beside(&wrapped), rest()),
        case("a mail that quotes a patch", format!("Subject: Re: x\n\n{quoted}"), Refused("no change in it")),
        case("white space that a mail program changed", &*spaces, Ported(3, 1, done())),
        case("CR LF of the patch", plain.replace('\n', "\r\n"), Ported(0, 1, done())),
        Case {
            tree: vec![("x.c", dos)],
            ..case("CR LF of the file", &*plain, Ported(0, 1, vec![("x.c", Some(dos_done))]))
        },
        case("UTF-16", wide(&plain.replace('\n', "\r\n")), Ported(0, 1, done())),
        case("UTF-16 that was cut", wide(&plain)[..51].to_vec(), Refused("zero byte")),
        case("a byte order mark", format!("\u{feff}{plain}"), Ported(0, 1, done())),
        case(
            "a byte order mark in front of two",
            beside(&format!("\u{feff}{plain}")),
            Ported(0, 2, vec![("x.c", Some(DONE)), ("y.c", Some(Y_DONE))]),
        ),
        Case { strip: 0, ..case("-p0", format!("--- x.c\n+++ x.c\n{HUNK}"), Ported(0, 1, done())) },
        Case {
            strip: 2,
            ..case("-p2", format!("--- v1/src/x.c\n+++ v2/src/x.c\n{HUNK}"), Ported(0, 1, done()))
        },
        case("no prefix", git("x.c x.c", &format!("--- x.c\n+++ x.c\n{HUNK}")), Ported(0, 1, done())),
        case(
            "other prefixes",
            git("i/x.c w/x.c", &format!("--- i/x.c\n+++ w/x.c\n{HUNK}")),
            Ported(0, 1, done()),
        ),
        case(
            "a rename with a change",
            git(
                "a/x.c b/z.c",
                &format!(
                    "similarity index 90%\nrename from x.c\nrename to z.c\n--- a/x.c\n+++ b/z.c\n{HUNK}"
                ),
            ),
            Ported(0, 1, vec![("x.c", None), ("z.c", Some(DONE))]),
        ),
        case(
            "a rename alone",
            git("a/x.c b/z.c", "similarity index 100%\nrename from x.c\nrename to z.c\n"),
            Ported(0, 1, vec![("x.c", None), ("z.c", Some(X))]),
        ),
        case(
            "a copy with a change",
            git(
                "a/x.c b/z.c",
                &format!("similarity index 90%\ncopy from x.c\ncopy to z.c\n--- a/x.c\n+++ b/z.c\n{HUNK}"),
            ),
            Ported(0, 1, vec![("z.c", Some(DONE))]),
        ),
        case(
            "a mode alone",
            git("a/x.c b/x.c", "old mode 100644\nnew mode 100755\n"),
            Ported(0, 1, vec![("x.c", Some(X))]),
        ),
        case(
            "a new empty file",
            git("a/e.c b/e.c", "new file mode 100644\nindex 0000000..e69de29\n"),
            Ported(0, 1, vec![("e.c", Some(""))]),
        ),
        Case {
            tree: vec![("e.c", "")],
            ..case(
                "an empty file that goes",
                git("a/e.c b/e.c", "deleted file mode 100644\nindex e69de29..0000000\n"),
                Ported(0, 1, vec![("e.c", None)]),
            )
        },
        case(
            "a new file that is there",
            "--- /dev/null\n+++ b/y.c\n@@ -0,0 +1 @@\n+int other;\n",
            Ported(1, 1, vec![]),
        ),
        case("no newline at the end", format!("{plain}{last}"), Ported(0, 2, vec![("x.c", Some(cut))])),
        case("a mail", mail("1/1", "more", &plain), Ported(0, 1, done())),
        case(
            "a quoted From line",
            mail("1/1", "more", &plain).replace("Why.\n", ">From here on it is faster.\n"),
            Ported(0, 1, done()),
        ),
        case(
            "two mails",
            format!("{}{}", mail("1/2", "more", &plain), mail("2/2", "even", &change("x.c", second))),
            Ported(0, 2, vec![("x.c", Some(both))]),
        ),
        case("the same patch twice", format!("{plain}{plain}"), Ported(0, 2, done())),
        Case { tree: vec![("x.c", DONE)], ..case("what is there already", &*plain, Ported(0, 1, vec![])) },
        case("the reverse of what is not there", &*reverse, Ported(3, 1, vec![])),
        Case {
            tree: vec![("x.c", DONE)],
            ..case("a reverse patch", &*reverse, Ported(0, 1, vec![("x.c", Some(X))]))
        },
        case("a file that is not there", change("gone.c", HUNK), Ported(1, 1, vec![])),
        case(
            "another function",
            plain
                .replace("four(d)", "vier(d, x, y)")
                .replace("three(c)", "drei(z)")
                .replace("two(b)", "zwei(y)"),
            Ported(1, 1, vec![]),
        ),
    ]
}

type Files = BTreeMap<String, String>;

/// All files of a folder but git's own.
fn files(folder: &Path) -> Files {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != ".git" {
            let inside = files(&path).into_iter().map(|(inner, text)| (format!("{name}/{inner}"), text));
            found.extend(inside);
        } else if name != ".git" {
            found.insert(name, String::from_utf8(fs::read(&path).unwrap()).unwrap());
        }
    }
    found
}

const SETTINGS: &str = "
[user]
    name = P
    email = p@example.org
[commit]
    gpgsign = false
[core]
    autocrlf = false
";

fn tree(case: &Case) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, text) in [("x.c", X), ("y.c", Y)].into_iter().chain(case.tree.iter().copied()) {
        fs::write(folder.path().join(path), text).unwrap();
    }
    git(folder.path(), &["init", "-q"]);
    // Written here: there are hundreds of trees, and each setting would be a process.
    let mut settings = fs::OpenOptions::new().append(true).open(folder.path().join(".git/config")).unwrap();
    settings.write_all(SETTINGS.as_bytes()).unwrap();
    git(folder.path(), &["add", "-A"]);
    git(folder.path(), &["commit", "-q", "-m", "start"]);
    folder
}

fn loaded(case: &Case) -> Result<Series, InputError> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("in.patch");
    fs::write(&file, &case.input).unwrap();
    load(&Input::Path(file), &Limits { strip: case.strip, keep_going: true, ..Limits::default() })
}

fn status(report: &PortReport) -> u8 {
    match (report.is_clean(), report.is_doubtful()) {
        (false, _) => 1,
        (true, true) => 3,
        (true, false) => 0,
    }
}

#[test]
fn each_input_through_each_output() {
    require!(require_tool("git"));
    let mut wrong: Vec<String> = Vec::new();
    for case in cases() {
        let series = match (loaded(&case), &case.expect) {
            (Err(error), Expect::Refused(words)) => {
                if !error.to_string().contains(words) {
                    wrong.push(format!("{}: refused, but: {error}", case.name));
                }
                continue;
            }
            (Err(error), _) => {
                wrong.push(format!("{}: refused: {error}", case.name));
                continue;
            }
            (Ok(_), Expect::Refused(_)) => {
                wrong.push(format!("{}: not refused", case.name));
                continue;
            }
            (Ok(series), _) => series,
        };
        let Expect::Ported(exit, parts, changes) = &case.expect else { continue };
        let folder = tree(&case);
        let before = files(folder.path());
        let mut after = before.clone();
        for (path, text) in changes {
            match text {
                Some(text) => after.insert((*path).to_owned(), (*text).to_owned()),
                None => after.remove(*path),
            };
        }
        let mut expect = |what: &str, is_so: bool, instead: &dyn std::fmt::Display| {
            if !is_so {
                wrong.push(format!("{}, {what}: {instead}", case.name));
            }
        };
        let mut check = |what: &str, report: &PortReport, is: &Files, want: &Files| {
            let (exit_now, total) = (status(report), report.counts.total());
            let is_so = (exit_now, total) == (*exit, *parts) && is == want;
            expect(what, is_so, &format!("exit {exit_now}, {total} parts\n{report}\n{is:?}"));
        };
        let options = Options { markers: false, ..Options::default() };
        let dry = Options { dry_run: true, review: true, ..options.clone() };
        let report = port(&series, folder.path(), &dry).unwrap();
        check("--dry-run", &report, &files(folder.path()), &before);
        let page = report.review_page();
        for hunk in report.hunks().filter(|hunk| hunk.view.is_some()) {
            assert!(page.contains(hunk.outcome.word()), "{}: {page}", case.name);
        }
        let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        let told =
            json["patches"].as_array().unwrap().iter().flat_map(|patch| patch["files"].as_array().unwrap());
        let told: usize = told.map(|file| file["hunks"].as_array().unwrap().len().max(1)).sum();
        assert_eq!(told, *parts, "{}: {json}", case.name);

        let head = Onto::commit(folder.path(), "HEAD").unwrap();
        check("--onto REF", &look(&series, &head, &dry).unwrap(), &files(folder.path()), &before);
        let out = TempDir::new().unwrap();
        let wrote = to_folder(&series, &head, &out.path().join("q"), &options).unwrap();
        check("--write", &wrote.report, &files(folder.path()), &before);
        let quilt = load(&Input::Path(out.path().join("q")), &Limits::default());
        let branch = to_branch(&series, &head, "made", &options).unwrap();
        if *exit != 1 {
            check("--branch", &branch.report, &files(folder.path()), &before);
            if branch.branch.is_some() {
                git(folder.path(), &["checkout", "-q", "made"]);
                check("the branch", &branch.report, &files(folder.path()), &after);
                git(folder.path(), &["checkout", "-q", "-"]);
            }
        } else {
            assert!(branch.stopped.is_some(), "{}", case.name);
        }
        let fresh = tree(&case);
        match quilt {
            Ok(quilt) if *exit != 1 => {
                port(&quilt, fresh.path(), &options).unwrap();
                check("what was written", &wrote.report, &files(fresh.path()), &after);
            }
            _ => {}
        }
        let fresh = tree(&case);
        let made = port_and_commit(&series, fresh.path(), &options).unwrap();
        if *exit == 1 {
            assert!(made.stopped.is_some(), "{}", case.name);
        } else {
            check("--commit", &made.report, &files(fresh.path()), &after);
            assert_eq!(git(fresh.path(), &["status", "--porcelain"]), "", "{}", case.name);
        }
        let fresh = tree(&case);
        let report = port(&series, fresh.path(), &options).unwrap();
        check("in place", &report, &files(fresh.path()), &after);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n\n"));
}
