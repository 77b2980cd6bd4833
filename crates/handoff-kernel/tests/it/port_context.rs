//! Hunks that say enough of their place although much around it is other: shapes that real fixes have.

use handoff_kernel::port::{HunkOutcome, Options};
use handoff_testkit::{require, require_tool};

use crate::port_honest::{hunk, patch, quiet, read, run, tree};

#[test]
fn what_cannot_be_a_file_fails_alone_and_nothing_is_half_written() {
    require!(require_tool("mkfifo"));
    let new = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
    let change = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@\n one\n+more\n");
    // A folder, a pipe (reading it waits for ever), a part of the path that is a file, and one that the series makes.
    for bad in [
        new("d"),
        change("d"),
        new("pipe"),
        change("pipe"),
        new("b.txt/y"),
        format!("{}{}", new("q"), new("q/r")),
        format!("{}{}", new("q/r"), new("q")),
    ] {
        for dry_run in [true, false] {
            let folder = tree(&[("a.txt", "one\n"), ("b.txt", "one\n"), ("d/x.txt", "one\n")]);
            let pipe = folder.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let options = Options { dry_run, ..Options::default() };
            let report = run(&folder, &format!("{bad}{}", change("a.txt")), &options);
            assert_eq!(report.counts.conflict, 1, "{bad}: {report}");
            let expect = if dry_run { "one\n" } else { "one\nmore\n" };
            assert_eq!(read(&folder, "a.txt"), expect, "{bad}: {report}");
            assert_eq!(read(&folder, "b.txt"), "one\n", "{bad}");
        }
    }
}

#[test]
fn an_argument_goes_into_its_call() {
    let folder = tree(&[(
        "x.c",
        "static int start(struct login *login)\n{\n\tint ret;\n\n\tret = decode(login->req,\n\t\tSENDER,\n\t\tlogin->reply,\n\t\t&login->length,\n\t\tlogin->list);\n\tif (ret < 0)\n\t\treturn -1;\n\n\tif (!negotiated(login->list)) {\n\t\tif (login->group->needs_it)\n\t\t\treturn 0;\n\t}\n\treturn 1;\n}\n",
    )]);
    // The hunk starts behind the opening parenthesis, and its last line is other here.
    let body = " \t\tSENDER,\n \t\tlogin->reply,\n \t\t&login->length,\n+\t\tPAIRS,\n \t\tlogin->list);\n-\tif (ret < 0)\n+\tif (ret < 0) {\n+\t\treport(login);\n \t\treturn -1;\n+\t}\n \n \tif (!negotiated(login->list)) {\n \t\tbool needed = is_needed(login);\n";
    let report = run(&folder, &patch(&[(26, "static int start(struct login *login)", body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    let now = read(&folder, "x.c");
    assert!(now.contains("&login->length,\n\t\tPAIRS,\n\t\tlogin->list);\n\tif (ret < 0) {\n"), "{now}");
}

#[test]
fn the_rows_of_a_macro_hold_a_hunk_that_has_none_of_its_ends() {
    let rows =
        |names: &str| names.split(' ').map(|name| format!("\tROW({name}, ERROR) \\\n")).collect::<String>();
    let file = format!(
        "enum level {{\n\tERROR,\n}};\n\n#define ROWS(ROW) \\\n{}\t/* warnings */ \\\n{}\n",
        rows("FIRST OTHER URL PATH UPDATE"),
        rows("EMPTY SHORT LONG") + "\t/* end */\n"
    );
    let folder = tree(&[("x.h", &file)]);
    let hunk = "--- a/x.h\n+++ b/x.h\n@@ -16,6 +16,7 @@ enum level {\n \tROW(URL, ERROR) \\\n \tROW(PATH, ERROR) \\\n \tROW(UPDATE, ERROR) \\\n+\tROW(LARGE, ERROR) \\\n \t/* warnings */ \\\n \tROW(MODE, ERROR) \\\n \tROW(EMPTY, ERROR) \\\n";
    let report = run(&folder, hunk, &quiet());
    assert_eq!(report.counts.conflict, 0, "{report}");
    let now = read(&folder, "x.h");
    assert!(now.contains("ROW(UPDATE, ERROR) \\\n\tROW(LARGE, ERROR) \\\n\t/* warnings */"), "{now}");
}

#[test]
fn what_was_added_before_the_last_line_of_a_file_stays_there() {
    let case =
        |name: &str| format!("check '{name}' '\n\trun {name} >out &&\n\tgrep \"{name}\" errors\n'\n\n");
    let folder = tree(&[("x.sh", &format!("{}{}{}finish\n", case("one"), case("index"), case("more")))]);
    let hunk = "--- a/x.sh\n+++ b/x.sh\n@@ -16,4 +16,8 @@ check 'index' '\n \tgrep \"index\" errors\n '\n \n+check 'size' '\n+\trun size\n+'\n+\n finish\n";
    let report = run(&folder, hunk, &quiet());
    assert_eq!(report.counts.conflict, 0, "{report}");
    let now = read(&folder, "x.sh");
    assert!(now.ends_with("\tgrep \"more\" errors\n'\n\ncheck 'size' '\n\trun size\n'\n\nfinish\n"), "{now}");
}

#[test]
fn twins_are_told_apart_by_a_line_that_only_one_has() {
    let function = |name: &str| {
        format!(
            "static int\n{name}_object(struct object *obj,\n\t\t   const struct args_{name} *args)\n{{\n\tvoid *vaddr = page(obj->pages->list) + args->offset;\n\tchar *user = pointer(args->data);\n\tint err;\n\n\terr = {name}(vaddr, user);\n\treturn err;\n}}\n\n"
        )
    };
    let file = format!("{}{}", function("write"), function("read"));
    let body = " int gem_object_read_phys(struct object *obj,\n \t\t   const struct args_read *args)\n {\n-\tvoid *vaddr = page(obj->pages->list) + args->offset;\n+\tvoid *vaddr = address(obj->pages->list) + args->offset;\n \tchar *user = pointer(args->data);\n \tint err;\n \n";
    let folder = tree(&[("x.c", &file)]);
    let report =
        run(&folder, &patch(&[(40, "int gem_object_write_phys(struct object *obj,", body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    let changed = file.find("args_read").unwrap();
    assert!(read(&folder, "x.c")[changed..].contains("address("), "{report}");
    // Without that line nothing says which is meant.
    let folder = tree(&[("x.c", &file)]);
    let body = body.replace("args_read", "args_other");
    let report =
        run(&folder, &patch(&[(40, "int gem_object_write_phys(struct object *obj,", &body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
}

#[test]
fn a_comment_that_is_added_in_front_of_another_stays_whole() {
    let second = "\t/*\n\t * The second comment says other things.\n\t */\n\tsecond(disk);\n";
    let folder = tree(&[(
        "x.c",
        &format!(
            "int add(struct disk *disk)\n{{\n\t/*\n\t * Elevators.\n\t */\n\tinit(disk->queue);\n\n{second}\treturn 0;\n}}\n"
        ),
    )]);
    let body = " \tif (disk->submit)\n \t\tset_flag(disk->part);\n \n+\t/*\n+\t * The first.\n+\t */\n+\tfirst(disk);\n+\n \t/*\n \t * The second comment says other things.\n \t */\n";
    let report = run(&folder, &patch(&[(20, "int add(struct disk *disk)", body)]), &quiet());
    let now = read(&folder, "x.c");
    let first = "\n\n\t/*\n\t * The first.\n\t */\n\tfirst(disk);\n\n";
    assert!(now.contains(&format!("init(disk->queue);{first}{second}")), "{report}{now}");
}

#[test]
fn a_removed_line_that_stands_once_needs_no_other() {
    let include = |name: &str| format!("#include <crypto/{name}.h>\n");
    let all = ["aes", "rng", "hash", "cipher", "random", "engine"].map(include).concat();
    let folder = tree(&[("x.c", &format!("/* x */\n{all}\nint x;\n"))]);
    let body = " \n #include <linux/engine.h>\n-#include <crypto/rng.h>\n #include <crypto/cipher.h>\n #include <linux/clock.h>\n #include <linux/delay.h>\n";
    let report = run(&folder, &patch(&[(12, "", body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    assert_eq!(read(&folder, "x.c"), format!("/* x */\n{}\nint x;\n", all.replace(&include("rng"), "")));
}

#[test]
fn a_blank_line_goes_with_the_lines_below_it() {
    let folder = tree(&[(
        "x.c",
        "static void plug(struct matrix *matrix)\n{\n\tif (changed(matrix))\n\t\tupdate_guest(matrix);\n\n\tunlock(&matrix->devices);\n\tunlock(&matrix->guest->lock);\n}\n\nvoid scan(void)\n{\n}\n",
    )]);
    // Here is no reset between the two blank lines of the hunk, and one blank line.
    let body = " \t\tupdate_guest(matrix);\n \n \treset_queues(matrix, filtered);\n-\n-\tunlock(&matrix->devices);\n-\tunlock(&matrix->guest->lock);\n }\n \n void scan(void)\n";
    let report = run(&folder, &patch(&[(92, "static void plug(struct matrix *matrix)", body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    let now = read(&folder, "x.c");
    assert!(now.contains("\t\tupdate_guest(matrix);\n}\n\nvoid scan"), "{now}");
}

#[test]
fn the_end_of_the_last_line_is_a_change_of_its_own() {
    let hunk = |lines: &str| format!("--- a/q\n+++ b/q\n@@ -1,2 +1,2 @@\n{lines}");
    let lacks = "\\ No newline at end of file\n";
    let goes = hunk(&format!(" one\n-two\n+two\n{lacks}"));
    let comes = hunk(&format!(" one\n-two\n{lacks}+two\n"));
    for (text, before, after) in [
        (&goes, "one\ntwo\n", "one\ntwo"),
        (&goes, "one\ntwo", "one\ntwo"),
        (&comes, "one\ntwo", "one\ntwo\n"),
        (&comes, "one\ntwo\n", "one\ntwo\n"),
    ] {
        let folder = tree(&[("q", before)]);
        let report = run(&folder, text, &Options::default());
        assert_eq!(report.counts.present == 1, before == after, "{report}");
        assert_eq!(read(&folder, "q"), after, "{text}");
    }
    // More lines follow here, and the last of them keeps its end.
    let folder = tree(&[("q", "one\ntwo\nfour\n")]);
    let text = format!("--- a/q\n+++ b/q\n@@ -1,2 +1,3 @@\n one\n-two\n{lacks}+two\n+three\n{lacks}");
    let report = run(&folder, &text, &Options::default());
    assert_eq!(read(&folder, "q"), "one\ntwo\nthree\nfour\n", "{report}");
}

#[test]
fn what_an_earlier_patch_left_in_a_rej_file_stays() {
    let change = |old: &str| format!("--- a/q\n+++ b/q\n@@ -1 +1 @@\n-{old}\n+new\n");
    let folder = tree(&[("q", "one\n")]);
    let rejects = |text: &str| {
        run(&folder, text, &Options::default());
        read(&folder, "q.rej")
    };
    let first = rejects(&change("first"));
    let both = rejects(&change("second"));
    assert!(both.starts_with(&first) && both.contains("-second\n"), "{both}");
    assert_eq!(rejects(&change("second")), both, "nothing is added twice");
    // A new file without lines has no hunk that could stand there: the report says why it was left out.
    let empty = "diff --git a/q b/q\nnew file mode 100644\nindex 0000000..e69de29\n";
    let report = run(&folder, empty, &Options::default());
    assert!(report.to_string().contains("another file of this name"), "{report}");
}

#[test]
fn an_entry_that_comes_first_stays_first() {
    let log = |entries: &[&str]| entries.iter().map(|entry| format!("{entry}\n\n")).collect::<String>();
    let [own, below, newer, older] = [
        "2018-11-27  A. Author  <a@example.org>\n\n\t* a.c (one): New.",
        "2018-11-20  B. Author  <b@example.org>\n\n\t* b.c (two): Likewise.",
        "2019-02-01  C. Author  <c@example.org>\n\n\t* c.c (three): Mended.",
        "2018-10-02  D. Author  <d@example.org>\n\n\t* d.c (four): Renamed.",
    ];
    let patch = format!(
        "--- a/ChangeLog\n+++ b/ChangeLog\n@@ -1,3 +1,7 @@\n{}\n+\n {}\n",
        own.lines().map(|line| format!("+{line}")).collect::<Vec<_>>().join("\n"),
        below.lines().map(|line| line.to_owned()).collect::<Vec<_>>().join("\n "),
    );
    for (entries, expect, outcome) in [
        // As it was there; below an entry of the older line's own; where the entry below is not at all.
        (&[below, older][..], &[own, below, older][..], HunkOutcome::Applied),
        (&[newer, below, older], &[own, newer, below, older], HunkOutcome::Fuzzy),
        (&[newer, older], &[own, newer, older], HunkOutcome::Fuzzy),
        // It is there, and other entries came since.
        (&[newer, own, older], &[newer, own, older], HunkOutcome::Present),
    ] {
        let folder = tree(&[("ChangeLog", &log(entries))]);
        let report = run(&folder, &patch, &quiet());
        assert_eq!(hunk(&report, 1).outcome, outcome, "{report}");
        assert_eq!(read(&folder, "ChangeLog"), log(expect), "{report}");
    }
}

#[test]
fn an_entry_of_lines_that_repeat_is_not_already_there() {
    let file = "Notes\n- Faults mended.\n\nNotes\n- Faults mended.\n\nNotes\n- Faster.\n";
    let entry = "Notes\n- Faults mended.\n\n";
    let patch =
        "--- a/NEWS\n+++ b/NEWS\n@@ -1,3 +1,6 @@\n+Notes\n+- Faults mended.\n+\n Notes\n - Smaller.\n \n";
    let folder = tree(&[("NEWS", file)]);
    let report = run(&folder, patch, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    assert_eq!(read(&folder, "NEWS"), format!("{entry}{file}"), "{report}");
}

#[test]
fn what_was_for_the_beginning_of_a_file_is_doubted_elsewhere() {
    let patch =
        "--- a/x.sh\n+++ b/x.sh\n@@ -1,3 +1,4 @@\n+set -e\n name=value\n other=$name\n third=$other\n";
    let folder = tree(&[("x.sh", "#!/bin/sh\n# Of another kind.\nname=value\nother=$name\nthird=$other\n")]);
    let report = run(&folder, patch, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    assert!(read(&folder, "x.sh").contains("kind.\nset -e\nname"), "{report}");
}

#[test]
fn a_line_among_its_like_is_not_already_there() {
    // The tree has one conditional more than the hunk shows lines that end one.
    let endifs = "endif\n".repeat(4);
    let file = format!("ifeq (a,b)\nX=1\n{endifs}# Include paths\nFLAGS+= -Ione -Itwo\n\nCC=gcc\n");
    let folder = tree(&[("Makefile", &file)]);
    let patch = "--- a/Makefile\n+++ b/Makefile\n@@ -16,6 +16,7 @@ endif\n endif\n endif\n endif\n+endif\n # Include paths\n FLAGS+= -Ione -Itwo -Ithree\n \n";
    let report = run(&folder, patch, &quiet());
    assert!(matches!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy | HunkOutcome::Conflict), "{report}");
}
