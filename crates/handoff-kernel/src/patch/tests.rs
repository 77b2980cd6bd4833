//! What the parser takes and what it refuses.

use proptest::prelude::*;

use super::*;

fn series(text: &str) -> Series {
    parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> PatchError {
    parse(text.as_bytes(), &Limits::default()).expect_err(text)
}

const MAIL: &str = "\
From f54b311142a92ea2e42598e347b84e1655caf8e3 Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?Andr=C3=A9?= <a@example.org>
Date: Fri, 6 Dec 2013 22:36:05 -0800
Subject: [PATCH 1/2] tcp: auto
 corking

Why it is good.

Fixes: 1234567890ab (\"net: x\")
---
 net/a.c | 1 +
 1 file changed, 1 insertion(+)

diff --git a/net/a.c b/net/a.c
index 1234567..89abcde 100644
--- a/net/a.c
+++ b/net/a.c
@@ -1,2 +1,3 @@ int f(void)
 one
+two
 three
-- 
2.39.5

From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: B <b@example.org>
Subject: [PATCH 2/2] second

---
diff --git a/old.c b/new.c
similarity index 95%
rename from old.c
rename to new.c
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/made.c b/made.c
new file mode 100644
index 0000000..5626abf
--- /dev/null
+++ b/made.c
@@ -0,0 +1 @@
+one
\\ No newline at end of file
diff --git a/gone.c b/gone.c
deleted file mode 100644
--- a/gone.c
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-y
-- 
2.39.5
";

#[test]
fn a_mailbox_is_read_whole() {
    let series = series(MAIL);
    assert_eq!(series.patches.len(), 2);
    let first = &series.patches[0];
    assert_eq!(first.commit.as_deref(), Some("f54b311142a92ea2e42598e347b84e1655caf8e3"));
    assert_eq!(first.author.as_deref(), Some("André <a@example.org>"));
    assert_eq!(first.subject, "tcp: auto corking");
    assert_eq!(first.message, "Why it is good.\n\nFixes: 1234567890ab (\"net: x\")");
    assert_eq!(first.files[0].blobs, Some(("1234567".into(), "89abcde".into())));
    assert_eq!(first.files[0].hunks[0].heading, "int f(void)");
    let kinds: Vec<_> = series.patches[1].files.iter().map(|file| file.kind).collect();
    assert_eq!(kinds, [ChangeKind::Rename, ChangeKind::Modify, ChangeKind::Create, ChangeKind::Delete]);
    let rename = &series.patches[1].files[0];
    assert_eq!(rename.old_path.as_ref().unwrap().as_str(), "old.c");
    assert_eq!(rename.new_path.as_ref().unwrap().as_str(), "new.c");
    assert_eq!(series.patches[1].files[1].new_mode, Some(0o100_755));
    assert!(series.patches[1].files[2].hunks[0].lines[0].no_newline);
}

const PLAIN: &str = "--- linux-3.13/x.c\t2014-01-19 20:40:07\n+++ linux-3.14/x.c\t2014-03-30 20:40:15\n@@ -3,3 +3,2 @@\n a\n-b\n c\n";

#[test]
fn a_plain_diff_is_read() {
    let series = series(PLAIN);
    let file = &series.patches[0].files[0];
    assert_eq!((file.path().as_str(), file.hunks[0].old_start), ("x.c", 3));
    let git_log = format!(
        "commit {}\nAuthor: A <a@b>\nDate:   today\n\n    subject\n\n    why\n\n{PLAIN}",
        "a".repeat(40)
    );
    let patch = &super::parse(git_log.as_bytes(), &Limits::default()).unwrap().patches[0];
    assert_eq!((patch.subject.as_str(), patch.author.as_deref()), ("subject", Some("A <a@b>")));
}

#[test]
fn new_and_deleted_files_of_plain_diffs_are_recognised() {
    let made = series("--- a/x.c\t1970-01-01 00:00:00\n+++ b/x.c\t2014\n@@ -0,0 +1,1 @@\n+a\n");
    assert_eq!(made.patches[0].files[0].kind, ChangeKind::Create);
    let gone = series("--- a/x.c\t2014\n+++ b/x.c\t1970\n@@ -1,1 +0,0 @@\n-a\n");
    assert_eq!(gone.patches[0].files[0].kind, ChangeKind::Delete);
}

/// Each hostile input, the line at which it must be refused, and the kind of reason.
#[test]
fn hostile_input_is_refused_with_its_line() {
    let file = |path: &str| format!("diff --git a/x b/x\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n");
    type Check = fn(&Problem) -> bool;
    let path: Check = |p| matches!(p, Problem::Path { .. });
    let cases: Vec<(String, usize, Check)> = vec![
        (file("../../etc/passwd"), 2, path),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n".into(), 1, path),
        ("--- a/x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n".into(), 2, path),
        ("--- a/.git/hooks/pre-commit\n+++ b/.git/hooks/pre-commit\n@@ -1 +1 @@\n-a\n+b\n".into(), 1, path),
        ("diff --git a/x b/x\nrename from x\nrename to ../y\n".into(), 3, path),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n".into(), 2, |p| {
            matches!(p, Problem::Mode(0o120_000))
        }),
        ("diff --git a/m b/m\nnew file mode 160000\n".into(), 2, |p| *p == Problem::Submodule),
        ("diff --git a/m b/m\nold mode 100644\nnew mode 104755\n".into(), 3, |p| matches!(p, Problem::Mode(_))),
        ("diff --git a/m b/m\nnew mode 9x\n".into(), 2, |p| matches!(p, Problem::BadMode(_))),
        ("diff --git a/i.png b/i.png\nindex 1234567..2345678 100644\nBinary files a/i.png and b/i.png differ\n".into(), 3, |p| {
            *p == Problem::Binary
        }),
        ("diff --git a/i b/i\nindex 1234567..2345678 100644\nGIT binary patch\nliteral 3\nabc\n".into(), 3, |p| {
            *p == Problem::Binary
        }),
        ("diff --cc x.c\nindex 1,2..3\n".into(), 1, |p| *p == Problem::Combined),
        (PLAIN.replace('\n', "\r\n"), 1, |p| *p == Problem::Crlf),
        (PLAIN.replace(" @@", " @@\r"), 3, |p| *p == Problem::Crlf),
        (PLAIN.replace("-3,3", "-3,4"), 6, |p| *p == Problem::Short { old: 1, new: 0 }),
        (PLAIN.replace("-3,3", "-3,2").replace("+3,2", "+3,1"), 6, |p| *p == Problem::Long),
        (PLAIN.replace("+3,2", "+3,1"), 6, |p| *p == Problem::Long),
        (PLAIN.replace(" c\n", ""), 5, |p| *p == Problem::Short { old: 1, new: 1 }),
        (PLAIN.replace(" c\n", "garbage\n"), 6, |p| *p == Problem::Short { old: 1, new: 1 }),
        (PLAIN.replace("-3,3", "-3,999999999"), 3, |p| matches!(p, Problem::HunkTooLong(..))),
        (PLAIN.replace("-3,3", "-3,99999999999999999999"), 3, |p| matches!(p, Problem::Header(_))),
        (PLAIN.replace("-3,3", "-0,3"), 3, |p| matches!(p, Problem::Header(_))),
        (PLAIN.replace("@@ -3,3 +3,2 @@", "@@ nonsense"), 3, |p| matches!(p, Problem::Header(_))),
        (PLAIN.replace("-b", " b").replace("+3,2", "+3,3"), 3, |p| *p == Problem::NoChange),
        (format!("{PLAIN}@@ -4,1 +4,2 @@\n z\n+y\n"), 7, |p| *p == Problem::Order(4)),
        ("@@ -1 +1 @@\n-a\n+b\n".into(), 1, |p| *p == Problem::NoFile),
        ("--- a/x.c\n+++ b/y.c\n@@ -1 +1 @@\n-a\n+b\n".into(), 1, |p| matches!(p, Problem::Mismatch(..))),
        ("diff --git a/x b/x\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".into(), 1, |p| matches!(p, Problem::Mismatch(..))),
        ("diff --git a/x b/x\n--- a/x\n@@ -1 +1 @@\n-a\n+b\n".into(), 2, |p| *p == Problem::NoPlus),
        ("diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -1 +1,2 @@\n a\n+b\n".into(), 5, |p| {
            *p == Problem::Impossible("new")
        }),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-c\n+b\n+d\n".into(), 5, |p| {
            *p == Problem::Newline
        }),
        ("Subject: x\nContent-Transfer-Encoding: quoted-printable\n\n".into(), 2, |p| matches!(p, Problem::Encoded(_))),
        ("".into(), 1, |p| *p == Problem::Empty),
        ("just a letter\n".into(), 1, |p| *p == Problem::Empty),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\0\n+b\n".into(), 4, |p| *p == Problem::ZeroByte),
        (format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{}\n+b\n", "a".repeat(70_000)), 4, |p| {
            matches!(p, Problem::LineTooLong(..))
        }),
    ];
    for (text, line, check) in cases {
        let error = refused(&text);
        let shown: String = text.chars().take(300).collect();
        assert!(check(&error.problem), "{error}\n{shown}");
        assert_eq!(error.line, line, "{error}\n{shown}");
    }
}

#[test]
fn a_gigantic_patch_is_refused_before_it_is_read() {
    let limits = Limits { bytes: 100, ..Limits::default() };
    let error = parse(&[b'a'; 101], &limits).unwrap_err();
    assert!(matches!(error.problem, Problem::TooLarge(101, 100)));
}

#[test]
fn a_mail_body_may_speak_of_diffs() {
    let text = MAIL.replace("Why it is good.", "The hunk\n@@ -1 +1 @@\nis what the\nBinary files of it are.");
    assert_eq!(series(&text).patches.len(), 2);
}

#[test]
fn content_with_carriage_returns_is_content() {
    let series = series("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\r\n+b\r\n");
    assert_eq!(series.patches[0].files[0].hunks[0].lines[1].text, "b\r");
}

#[test]
fn removed_lines_that_look_like_headers_are_lines() {
    let series = series("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-+++ b/y\n+++ c\n++++ d\n");
    let hunk = &series.patches[0].files[0].hunks[0];
    assert_eq!((hunk.removed(), hunk.added()), (2, 2));
    assert_eq!(hunk.lines[0].text, "-- a/y");
}

#[test]
fn names_without_prefix_and_with_spaces_are_read() {
    let bare =
        series("diff --git kernel/x.c kernel/x.c\n--- kernel/x.c\n+++ kernel/x.c\n@@ -1 +1 @@\n-a\n+b\n");
    assert_eq!(bare.patches[0].files[0].path().as_str(), "kernel/x.c");
    let spaces = series("diff --git a/a b.c b/a b.c\nold mode 100644\nnew mode 100755\n");
    assert_eq!(spaces.patches[0].files[0].path().as_str(), "a b.c");
}

#[test]
fn taking_back_twice_is_the_series() {
    let series = series(MAIL);
    let back = series.reversed();
    assert_eq!(back.patches[0].subject, "second");
    assert_eq!(back.patches[1].files[0].hunks[0].removed(), 1);
    let kinds: Vec<_> = back.patches[0].files.iter().map(|file| file.kind).collect();
    assert_eq!(kinds, [ChangeKind::Create, ChangeKind::Delete, ChangeKind::Modify, ChangeKind::Rename]);
    let again = back.reversed();
    assert_eq!(format!("{:?}", again.patches), format!("{:?}", series.patches));
}

/// Lines out of which patches and rubbish are made.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("diff --git a/x b/x\n".to_owned()),
        Just("--- a/x\n".to_owned()),
        Just("+++ b/x\n".to_owned()),
        Just("--- /dev/null\n".to_owned()),
        Just("rename from x\n".to_owned()),
        Just("rename to y\n".to_owned()),
        Just("new file mode 100644\n".to_owned()),
        Just("index 1234567..7654321\n".to_owned()),
        Just("\\ No newline at end of file\n".to_owned()),
        Just("From a@b Mon Sep 17 00:00:00 2001\n".to_owned()),
        Just("Subject: =?utf-8?q?=C3?=\n".to_owned()),
        Just("\n".to_owned()),
        Just("---\n".to_owned()),
        Just("-- \n".to_owned()),
        (0usize..4, 0usize..4, 0usize..4, 0usize..4)
            .prop_map(|(a, b, c, d)| format!("@@ -{a},{b} +{c},{d} @@ f(\n")),
        "[ +\\-@\\\\]?[a-z/\"\\\\ .\r\u{e9}]{0,9}\n",
    ]
}

proptest! {
    #[test]
    fn no_input_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes, &Limits::default());
    }

    #[test]
    fn shuffled_pieces_give_a_patch_or_an_existing_line(pieces in proptest::collection::vec(piece(), 0..30)) {
        let text = pieces.concat();
        match parse(text.as_bytes(), &Limits::default()) {
            Ok(series) => for file in series.patches.iter().flat_map(|patch| &patch.files) {
                prop_assert!(!file.path().as_str().contains(".."));
                prop_assert!(!file.path().as_str().starts_with('/'));
                prop_assert!(file.hunks.iter().all(|hunk| hunk.added() + hunk.removed() > 0));
            },
            Err(error) => {
                prop_assert!(error.line >= 1);
                prop_assert!(error.line <= text.lines().count().max(1));
            }
        }
    }

    #[test]
    fn no_path_leaves_the_tree(path in "(\\.\\.|\\.|/|a|\\.git|\\\\|\"|b c){1,6}") {
        let text = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n");
        if let Ok(series) = parse(text.as_bytes(), &Limits::default()) {
            let path = std::path::Path::new(series.patches[0].files[0].path().as_str()).to_owned();
            prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    }

    #[test]
    fn a_cut_patch_is_refused_or_whole(cut in 0..MAIL.len()) {
        prop_assume!(MAIL.is_char_boundary(cut));
        if let Ok(series) = parse(&MAIL.as_bytes()[..cut], &Limits::default()) {
            let whole = parse(MAIL.as_bytes(), &Limits::default()).unwrap();
            for (patch, full) in series.patches.iter().zip(&whole.patches) {
                for (file, full) in patch.files.iter().zip(&full.files) {
                    for (hunk, full) in file.hunks.iter().zip(&full.hunks) {
                        prop_assert_eq!(hunk.lines.len(), full.lines.len());
                    }
                }
            }
        }
    }
}
