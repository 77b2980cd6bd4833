//! What patches arrive as: mails with encodings, packed files, single revisions, and parts that are no text.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use handoff_kernel::patch::{Input, Limits, Series, load};
use handoff_kernel::port::{Options, port};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

const CHANGE: &str = "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,3 @@\n int a;\n+int b;\n int c;\n";
const MAIL: &str = "From: A B <a@example.org>\nSubject: [PATCH] x: add b\n";

fn alone() -> Limits {
    Limits { keep_going: true, ..Limits::default() }
}

fn load_text(text: &[u8]) -> Series {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("in.patch");
    fs::write(&file, text).unwrap();
    load(&Input::Path(file), &alone()).unwrap()
}

fn added(series: &Series) -> Vec<&str> {
    let files = series.patches.iter().flat_map(|patch| &patch.files);
    files.flat_map(|file| &file.hunks).flat_map(|hunk| &hunk.lines).map(|line| line.text.as_str()).collect()
}

#[test]
fn encoded_mails_are_read() {
    let quoted = CHANGE.replace("int b;", "int b =3D 1;");
    let mail = format!("{MAIL}Content-Transfer-Encoding: quoted-printable\n\n---\n{quoted}");
    let series = load_text(mail.as_bytes());
    assert_eq!(added(&series), ["int a;", "int b = 1;", "int c;"]);
    assert_eq!(series.patches[0].subject, "x: add b");
}

#[test]
fn a_patch_with_other_line_ends_throughout_is_read() {
    let series = load_text(CHANGE.replace('\n', "\r\n").as_bytes());
    assert_eq!(added(&series), ["int a;", "int b;", "int c;"]);
}

#[test]
fn packed_patches_are_read() {
    for (program, end) in [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst")] {
        require!(require_tool(program));
        let folder = TempDir::new().unwrap();
        let plain = folder.path().join("in.mbox");
        fs::write(&plain, CHANGE).unwrap();
        let packed = Command::new(program).arg("-c").arg(&plain).stderr(Stdio::null()).output().unwrap();
        let file = folder.path().join(format!("in.mbox.{end}"));
        fs::write(&file, packed.stdout).unwrap();
        let series = load(&Input::guess(file.to_str().unwrap(), Path::new(".")), &alone()).unwrap();
        assert_eq!(added(&series).len(), 3, "{program}");
        let small = Limits { bytes: 20, ..alone() };
        assert!(load(&Input::Path(file), &small).is_err(), "{program} unpacks no more than the limit");
    }
}

#[test]
fn a_revision_alone_is_one_commit() {
    require!(require_tool("git"));
    let folder = TempDir::new().unwrap();
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(folder.path())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q"]);
    for (number, text) in ["int a;\n", "int a;\nint b;\n", "int a;\nint b;\nint c;\n"].iter().enumerate() {
        fs::write(folder.path().join("x.c"), text).unwrap();
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", &format!("change {number}")]);
    }
    let one = |range: &str| load(&Input::guess(range, folder.path()), &alone()).unwrap();
    let subjects = |series: &Series| -> Vec<String> {
        series.patches.iter().map(|patch| patch.subject.clone()).collect()
    };
    assert_eq!(subjects(&one("HEAD")), ["change 2"]);
    assert_eq!(subjects(&one("HEAD~1")), ["change 1"]);
    assert_eq!(subjects(&one("HEAD~2..HEAD")), ["change 1", "change 2"]);
    let error = load(&Input::guess("nosuch.patch", folder.path()), &alone()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read nosuch.patch"), "{error}");
    let error = load(&Input::guess("nosuch", folder.path()), &alone()).unwrap_err();
    assert!(error.to_string().starts_with("`nosuch` is neither a file nor a commit of "), "{error}");
    let apart = tempfile::tempdir().unwrap();
    let error = load(&Input::guess("nosuch", apart.path()), &alone()).unwrap_err();
    assert!(error.to_string().starts_with("there is no file `nosuch`, and "), "{error}");
    assert!(!error.to_string().contains("fatal"), "git was not asked for: {error}");
    let error = load(&Input::guess("nosuch..HEAD", folder.path()), &alone()).unwrap_err();
    assert!(error.to_string().starts_with("git cannot make patches of `nosuch..HEAD`"), "{error}");
}

#[test]
fn one_bad_file_fails_alone() {
    let text = format!(
        "diff --git a/i.png b/i.png\nindex 1234567..2345678 100644\nBinary files a/i.png and b/i.png differ\n\
         diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+target\n\
         diff --git a/cut.c b/cut.c\n--- a/cut.c\n+++ b/cut.c\n@@ -1,9 +1,9 @@\n int a;\n+int b;\n int c;\n\
         diff --git a/x.c b/x.c\n{CHANGE}"
    );
    let series = load_text(text.as_bytes());
    let refused: Vec<&str> = series.patches[0].refused.iter().map(|refusal| refusal.path.as_str()).collect();
    assert_eq!(refused, ["i.png", "link", "cut.c"]);
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("x.c"), "int a;\nint c;\n").unwrap();
    let report = port(&series, folder.path(), &Options::default()).unwrap();
    assert_eq!((report.counts.applied, report.counts.conflict), (1, 3), "{report}");
    assert_eq!(fs::read_to_string(folder.path().join("x.c")).unwrap(), "int a;\nint b;\nint c;\n");
    assert!(report.to_string().contains("a binary change"), "{report}");
    assert!(!folder.path().join("link").exists());
    // A path that could leave the tree still refuses everything.
    let file = folder.path().join("bad.patch");
    fs::write(&file, format!("{CHANGE}{}", CHANGE.replace("/x.c", "/../../x.c"))).unwrap();
    assert!(load(&Input::Path(file), &alone()).is_err());
}

#[test]
fn the_options_of_a_quilt_series_are_followed() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let options = Options::default();
    let tree = TempDir::new().unwrap();
    fs::create_dir(tree.path().join("net")).unwrap();
    fs::write(tree.path().join("net/x.c"), "int a;\nint b;\nint c;\n").unwrap();
    // The first has no components to drop, the second adds what is to go, and `#` inside a name is part of it.
    file("plain.patch", "--- net/x.c\n+++ net/x.c\n@@ -1,3 +1,3 @@\n-int a;\n+long a;\n int b;\n int c;\n");
    let undo = "--- v1/net/x.c\n+++ v2/net/x.c\n@@ -1,2 +1,3 @@\n long a;\n-int d;\n+int b;\n+int c;\n";
    file("undo#1.patch", undo);
    file("series", "# two\n\nplain.patch -p0\nundo#1.patch -p1 -R # take it back\n");
    let series = load(&Input::Path(folder.path().to_owned()), &alone()).unwrap();
    let report = port(&series, tree.path(), &options).unwrap();
    assert_eq!((report.counts.applied, report.counts.total()), (2, 2), "{report}");
    assert_eq!(fs::read_to_string(tree.path().join("net/x.c")).unwrap(), "long a;\nint d;\n");

    for wrong in ["-p", "-pone", "--dry-run", "-p0R"] {
        file("series", &format!("plain.patch -p0\nundo#1.patch {wrong}\n"));
        let error = load(&Input::Path(folder.path().join("series")), &alone()).unwrap_err().to_string();
        assert!(error.contains(&format!("series:2: `{wrong}`")), "{error}");
    }
}

#[test]
fn each_part_that_is_left_out_is_named_as_the_tree_has_it() {
    let broken = "@@ -1,9 +1,9 @@\n int a;\n+int b;\n";
    let text = format!(
        "--- a/net/x.c\n+++ b/net/x.c\n{broken}--- a/gone.c\n+++ /dev/null\n{broken}diff --git net/y.c net/y.c\n--- net/y.c\n+++ net/y.c\n{broken}diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+x\n{CHANGE}"
    );
    let series = load_text(text.as_bytes());
    let refused: Vec<&str> = series.patches[0].refused.iter().map(|refusal| refusal.path.as_str()).collect();
    assert_eq!(refused, ["net/x.c", "gone.c", "net/y.c", "link"]);
    assert_eq!(series.patches[0].files.len(), 1, "the part behind them is read");
}

/// The paths of the parts that are left out of each patch.
fn refused(series: &Series) -> Vec<Vec<&str>> {
    let patches = series.patches.iter();
    patches.map(|patch| patch.refused.iter().map(|refusal| refusal.path.as_str()).collect()).collect()
}

#[test]
fn parts_in_front_of_the_first_file_of_a_mail_are_named() {
    let context = "*** a/z.c\n--- b/z.c\n***************\n*** 1 ****\n--- 1,2 ----\n  int a;\n+ int b;\n";
    let binary = "Binary files a/i.png and b/i.png differ\n";
    for (part, path) in [(context, "z.c"), (binary, "i.png"), ("Only in b: n.c\n", "n.c")] {
        let series = load_text(format!("{MAIL}\n{part}{CHANGE}").as_bytes());
        assert_eq!(refused(&series), [[path]]);
        assert_eq!(series.patches[0].files.len(), 1, "{path}");
    }
    let from = format!("From {} Mon Sep 17 00:00:00 2001\n{MAIL}", "a".repeat(40));
    let series = load_text(format!("{from}\n{context}{from}\n{CHANGE}").as_bytes());
    assert_eq!(refused(&series), [vec!["z.c"], vec![]]);
}

#[test]
fn text_that_only_begins_like_a_part_is_text() {
    let text = "Only in debug builds the count was wrong.\nBinary files of it are not.\n\n";
    for mail in ["", &format!("{MAIL}\nOnly in b: n.c\nis what diff says.\n")] {
        let series = load_text(format!("{mail}{text}{CHANGE}").as_bytes());
        assert_eq!(refused(&series), [[""; 0]], "{mail}");
        assert!(series.patches[0].message.ends_with("are not."), "{mail}");
    }
}

#[test]
fn a_mail_that_has_only_parts_without_text_is_named() {
    let from = format!("From {} Mon Sep 17 00:00:00 2001\n{MAIL}\nWhy.\n\n", "a".repeat(40));
    let parts = "Binary files a/i.png and b/i.png differ\nOnly in b: n.c\n";
    for end in ["", "-- \n2.39.5\n"] {
        let series = load_text(format!("{from}{parts}{end}{from}---\n{CHANGE}").as_bytes());
        assert_eq!(refused(&series), [vec!["i.png", "n.c"], vec![]], "{end}");
        assert_eq!(refused(&load_text(format!("{MAIL}\n{parts}{end}").as_bytes())), [["i.png", "n.c"]]);
    }
    // A cover letter that speaks of such a line is none.
    let letter = format!("{from}Only in b: n.c\nis what diff says.\n\n");
    let series = load_text(format!("{letter}{from}---\n{CHANGE}").as_bytes());
    assert_eq!(refused(&series), [[""; 0]]);
}

#[test]
fn the_text_of_a_mail_may_name_a_commit() {
    let from = format!("From {} Mon Sep 17 00:00:00 2001\n{MAIL}\n", "a".repeat(40));
    let upstream = format!("commit {} upstream.\n\nWhy.\n", "b".repeat(40));
    let series = load_text(format!("{from}{upstream}---\n{CHANGE}").as_bytes());
    let patch = &series.patches[0];
    assert_eq!(patch.commit, Some("a".repeat(40)));
    assert_eq!((patch.subject.as_str(), patch.author.as_deref()), ("x: add b", Some("A B <a@example.org>")));
    assert_eq!(patch.message, upstream.trim());
}

#[test]
fn what_checks_a_signature_may_stand_above_the_author() {
    let id = |letter: &str| letter.repeat(40);
    let entry = |letter: &str, below: &str| {
        format!("commit {}\n{below}Author: A B <a@example.org>\n\n    {letter}\n\n{CHANGE}", id(letter))
    };
    for below in
        ["", "gpg: Good signature\n", "Good \"git\" signature with ED25519 key\nNo principal matched.\n"]
    {
        let series = load_text(format!("{}\n{}", entry("a", below), entry("b", below)).as_bytes());
        let ids: Vec<_> = series.patches.iter().map(|patch| patch.commit.clone()).collect();
        assert_eq!(ids, [Some(id("a")), Some(id("b"))], "{below}");
    }
}

#[test]
fn mails_are_taken_by_their_numbers() {
    let mail = |mark: &str, file: &str| {
        let from = "From a@example.org Mon Sep 17 00:00:00 2001\nFrom: A B <a@example.org>\n";
        format!("{from}Subject: [{mark}] {file}\n\n---\n{}\n", CHANGE.replace("x.c", file))
    };
    let order = |mails: &[(&str, &str)]| {
        let series =
            load_text(mails.iter().map(|(mark, file)| mail(mark, file)).collect::<String>().as_bytes());
        let subjects: Vec<String> = series.patches.iter().map(|patch| patch.subject.clone()).collect();
        (subjects.join(" "), series.reordered)
    };
    let taken = order(&[("PATCH v2 10/10", "c.c"), ("PATCH v2 9/10", "b.c"), ("PATCH v2 2/10", "a.c")]);
    assert_eq!(taken, ("a.c b.c c.c".to_owned(), true));
    assert_eq!(order(&[("PATCH 1/2", "a.c"), ("PATCH 2/2", "b.c")]), ("a.c b.c".to_owned(), false));
    // Where they are not one series, nothing says which goes first.
    assert_eq!(order(&[("PATCH 2/2", "b.c"), ("PATCH", "a.c")]), ("b.c a.c".to_owned(), false));
    assert_eq!(order(&[("PATCH 2/2", "b.c"), ("PATCH 1/3", "a.c")]), ("b.c a.c".to_owned(), false));
    assert_eq!(order(&[("PATCH 2/2", "b.c"), ("PATCH v2 2/2", "b.c")]), ("b.c b.c".to_owned(), false));
    assert_eq!(order(&[("PATCH v2 2/2", "b.c"), ("PATCH 1/2", "a.c")]), ("b.c a.c".to_owned(), false));
}

#[test]
fn a_plain_part_behind_a_binary_one_is_read() {
    let head = "diff --git a/i.png b/i.png\nindex 1234567..2345678 100644\n";
    for body in [
        "Binary files a/i.png and b/i.png differ\n",
        "GIT binary patch\nliteral 3\nKcmZQzU|?Vb\n\nliteral 0\nHcmV?d00001\n\n",
    ] {
        let series = load_text(format!("{head}{body}{CHANGE}").as_bytes());
        assert_eq!(refused(&series), [["i.png"]]);
        assert_eq!(series.patches[0].files.len(), 1, "{body}");
    }
}

#[test]
fn a_part_that_is_left_out_has_its_whole_path() {
    let text = format!(
        "@@ -1,2 +1,3 @@ int f(a / b)\n int a;\n+int b;\n int c;\nOnly in b/drivers: x.c\n\
         diff --cc drivers/net/x.c\nindex 1111111,2222222..3333333\n--- a/drivers/net/x.c\n+++ b/drivers/net/x.c\n\
         @@@ -1,1 -1,1 +1,2 @@@\n  int a;\n++int b;\n{CHANGE}"
    );
    let series = load_text(text.as_bytes());
    assert_eq!(refused(&series), [["@@ -1,2 +1,3 @@ int f(a / b)", "drivers/x.c", "drivers/net/x.c"]]);
}

/// Ports a patch onto a tree of files with these names and contents; returns the report and the tree.
fn ported(files: &[(&[u8], &[u8])], patch: &[u8]) -> (handoff_kernel::port::PortReport, TempDir) {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let report = port(&load_text(patch), folder.path(), &Options::default()).unwrap();
    (report, folder)
}

fn read_name(folder: &TempDir, name: &[u8]) -> Vec<u8> {
    fs::read(folder.path().join(std::ffi::OsStr::from_bytes(name))).unwrap()
}

#[test]
fn a_file_whose_name_is_no_utf_8_is_found_and_written() {
    // As git quotes it, and as other programs write it.
    for name in ["\"{}/na\\357ve.c\"".to_owned(), "{}/na\u{F7EF}ve.c".to_owned()] {
        let [old, new] = ["a", "b"].map(|side| name.replace("{}", side));
        let text = format!(
            "diff --git {old} {new}\n--- {old}\n+++ {new}\n@@ -1,2 +1,3 @@\n int a;\n+/* \u{F7E9} */\n int c;\n"
        );
        let patch = handoff_kernel::patch::text::encode(&text);
        let (report, folder) = ported(&[(b"na\xefve.c", b"int a;\nint c;\n")], &patch);
        assert_eq!(report.counts.applied, 1, "{report}");
        assert_eq!(read_name(&folder, b"na\xefve.c"), b"int a;\n/* \xe9 */\nint c;\n");
    }
}

#[test]
fn a_moved_file_and_its_rejects_keep_a_name_that_is_no_utf_8() {
    let lines = " int first(void);\n int second(void);\n-int third(void);\n+int other(void);\n";
    let patch = format!("--- \"a/old/na\\357ve.h\"\n+++ \"b/old/na\\357ve.h\"\n@@ -1,3 +1,3 @@\n{lines}");
    let file = b"int first(void);\nint second(void);\nint third(void);\n";
    let (report, folder) = ported(&[(b"n\xe9w/na\xefve.h", file)], patch.as_bytes());
    assert!(report.is_clean(), "{report}");
    assert!(read_name(&folder, b"n\xe9w/na\xefve.h").ends_with(b"other(void);\n"));
    let (report, folder) = ported(&[(b"old/na\xefve.h", b"int nothing;\n")], patch.as_bytes());
    assert!(!report.is_clean(), "{report}");
    let rejects = read_name(&folder, b"old/na\xefve.h.rej");
    assert!(rejects.starts_with(b"--- a/old/na\xefve.h\n"), "{}", String::from_utf8_lossy(&rejects));
}

#[test]
fn submodules_are_named_and_the_other_parts_placed() {
    let old = "1".repeat(40);
    let new = "2".repeat(40);
    let moved = |mode: &str| {
        format!(
            "diff --git a/vendor/x b/vendor/x\nindex 1111111..2222222{mode}\n--- a/vendor/x\n+++ b/vendor/x\n@@ -1 +1 @@\n-Subproject commit {old}\n+Subproject commit {new}\n"
        )
    };
    let added = format!(
        "diff --git a/vendor/x b/vendor/x\nnew file mode 160000\nindex 0000000..2222222\n--- /dev/null\n+++ b/vendor/x\n@@ -0,0 +1 @@\n+Subproject commit {new}\n"
    );
    let plain = format!(
        "--- a/vendor/x\n+++ b/vendor/x\n@@ -1 +1 @@\n-Subproject commit {old}\n+Subproject commit {new}-dirty\n"
    );
    let log = "Submodule vendor/x 1111111..2222222:\n  > Add y\n  < Drop z\n".to_owned();
    for part in [moved(" 160000"), moved(""), added, plain, log] {
        for patch in
            [format!("{part}{CHANGE}"), format!("{CHANGE}{part}"), format!("{MAIL}\n---\n{CHANGE}{part}")]
        {
            let (report, folder) = ported(&[(b"x.c", b"int a;\nint c;\n")], patch.as_bytes());
            assert_eq!(read_name(&folder, b"x.c"), b"int a;\nint b;\nint c;\n", "{patch}");
            let shown = report.to_string();
            assert!(shown.contains("vendor/x") && shown.contains("a submodule"), "{patch}\n{shown}");
            assert!(!report.is_clean(), "{shown}");
        }
    }
}

#[test]
fn a_name_that_no_file_here_may_have_leaves_only_that_part_out() {
    let odd = "diff --git \"a/units/dev\\\\x2dx.mount\" \"b/units/dev\\\\x2dx.mount\"\n--- \"a/units/dev\\\\x2dx.mount\"\n+++ \"b/units/dev\\\\x2dx.mount\"\n@@ -1 +1 @@\n-a\n+b\n";
    let (report, folder) = ported(&[(b"x.c", b"int a;\nint c;\n")], format!("{odd}{CHANGE}").as_bytes());
    assert_eq!(read_name(&folder, b"x.c"), b"int a;\nint b;\nint c;\n");
    let shown = report.to_string();
    assert!(shown.contains("holds a backslash") && !report.is_clean(), "{shown}");
}

#[test]
fn a_part_that_is_no_text_is_left_out_alone() {
    let part = |line: &str| format!("--- a/y.c\n+++ b/y.c\n@@ -1 +1 @@\n-a\n+{line}\n");
    for (line, why) in [("b\0c".to_owned(), "a zero byte"), ("b".repeat(70_000), "this line has")] {
        for patch in [format!("{}{CHANGE}", part(&line)), format!("{CHANGE}{}", part(&line))] {
            let (report, folder) =
                ported(&[(b"x.c", b"int a;\nint c;\n"), (b"y.c", b"a\n")], patch.as_bytes());
            assert_eq!(read_name(&folder, b"x.c"), b"int a;\nint b;\nint c;\n");
            assert_eq!(read_name(&folder, b"y.c"), b"a\n");
            let shown = report.to_string();
            assert!(shown.contains("y.c") && shown.contains(why) && !report.is_clean(), "{shown}");
        }
    }
}

#[test]
fn the_message_of_a_mail_in_latin_1_is_text_and_its_diff_stays_bytes() {
    let head = b"From: Andr\xe9 <a@example.org>\nSubject: [PATCH] x: na\xefve\nContent-Type: text/plain; charset=\"ISO-8859-1\"\n\nVoil\xe0.\n---\n";
    let diff = b"--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,3 @@\n int a;\n+/* \xe9 */\n int c;\n";
    let series = load_text(&[&head[..], diff].concat());
    let patch = &series.patches[0];
    assert_eq!(patch.author.as_deref(), Some("Andr\u{e9} <a@example.org>"));
    assert_eq!((&*patch.subject, &*patch.message), ("x: na\u{ef}ve", "Voil\u{e0}."));
    let (_, folder) = ported(&[(b"x.c", b"int a;\nint c;\n")], &[&head[..], diff].concat());
    assert_eq!(read_name(&folder, b"x.c"), b"int a;\n/* \xe9 */\nint c;\n");
}
