//! What must never be said to be right when it is not: structure, places, names and files that only look alike.

use std::fs;

use handoff_kernel::patch::{Limits, parse};
use handoff_kernel::port::{FileAction, HunkOutcome, HunkReport, Options, PortReport, port};
use tempfile::TempDir;

pub(crate) fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

pub(crate) fn run(folder: &TempDir, patch: &str, options: &Options) -> PortReport {
    let series =
        parse(patch.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{error}\n{patch}"));
    port(&series, folder.path(), options).unwrap()
}

pub(crate) fn quiet() -> Options {
    Options { markers: false, ..Options::default() }
}

pub(crate) fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

pub(crate) fn hunk(report: &PortReport, number: usize) -> &HunkReport {
    report.hunks().nth(number - 1).unwrap()
}

/// A patch of `x.c`; each hunk is its header's start, its heading and its lines.
pub(crate) fn patch(hunks: &[(usize, &str, &str)]) -> String {
    let mut out = "--- a/x.c\n+++ b/x.c\n".to_owned();
    let mut shift = 0isize;
    for (start, heading, lines) in hunks {
        let count = |skip: char| lines.lines().filter(|line| !line.starts_with(skip)).count();
        let (old, new) = (count('+'), count('-'));
        let to = start.saturating_add_signed(shift);
        out.push_str(&format!("@@ -{start},{old} +{to},{new} @@ {heading}\n{lines}"));
        shift += new.cast_signed() - old.cast_signed();
    }
    out
}

fn conditions(text: &str) -> (usize, usize) {
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    (count("#if"), count("#endif"))
}

#[test]
fn a_lone_endif_is_not_already_there() {
    // The tree closes another conditional right where the patch closes its own.
    let file = "int show(void)\n{\n\tint a;\n\n\tlock();\n#ifdef CONFIG_SMP\n\tone();\n\ttwo();\n\tunlock();\n#endif\n\treturn 0;\n}\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[
        (4, "int show(void)", " \n \tlock();\n+#ifndef CONFIG_ALT\n \tone();\n \ttwo();\n"),
        (8, "int show(void)", " \ttwo();\n \tunlock();\n+#endif\n \treturn 0;\n }\n"),
    ]);
    let report = run(&folder, &change, &quiet());
    let after = read(&folder, "x.c");
    let (open, close) = conditions(&after);
    assert_eq!(open, close, "{report}\n{after}");
    assert_ne!(hunk(&report, 2).outcome, HunkOutcome::Present, "{report}");
}

#[test]
fn what_is_already_there_closes_what_it_opens() {
    // Without telling lines around it, the second hunk finds the `#endif` of another conditional.
    let file = "int a;\n#ifdef CONFIG_A\nint first(void);\nint second(void);\n#endif /* CONFIG_B */\nint third(void);\nint fourth(void);\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[
        (1, "", " int a;\n+#ifdef CONFIG_B\n #ifdef CONFIG_A\n int first(void);\n"),
        (
            4,
            "",
            " int first(void);\n int second(void);\n+#endif /* CONFIG_B */\n int third(void);\n int fourth(void);\n",
        ),
    ]);
    let report = run(&folder, &change, &quiet());
    let (open, close) = conditions(&read(&folder, "x.c"));
    assert!(open == close || !report.is_clean(), "{report}\n{}", read(&folder, "x.c"));
    assert_ne!(hunk(&report, 2).outcome, HunkOutcome::Present, "{report}");
}

#[test]
fn nothing_is_placed_across_another_else() {
    let file = "struct s {\n\tint first;\n#ifdef CONFIG_X\n\tint second;\n\tint third;\n#else\n\tint other;\n\tint fourth;\n#endif\n\tint fifth;\n\tint sixth;\n};\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[(
        2,
        "struct s {",
        " \tint first;\n+#ifdef CONFIG_BORE\n \tint second;\n \tint third;\n \tint fourth;\n+#else\n+\tint bore;\n+#endif\n \tint fifth;\n \tint sixth;\n",
    )]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}\n{}", read(&folder, "x.c"));
    assert_eq!(read(&folder, "x.c"), file);
}

#[test]
fn nothing_is_placed_in_the_middle_of_a_prototype() {
    let file = "int ip4_zero(struct sock *sk, struct net *net);\nint ip4_first(struct sock *sk, struct flowi *flow);\nint ip4_datagram_connect(struct sock *sk,\n\t\tstruct sockaddr *addr);\nint ip4_other(void);\nint third;\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[(
        20,
        "",
        " int ip4_zero(struct sock *sk, struct net *net);\n int ip4_first(struct sock *sk, struct flowi *flow);\n int ip4_datagram_connect(struct sock *sk, struct sockaddr *addr);\n+void ip4_release(struct sock *sk);\n int third;\n",
    )]);
    let report = run(&folder, &change, &quiet());
    let after = read(&folder, "x.c");
    assert!(after.contains("struct sock *sk,\n\t\tstruct sockaddr"), "{report}\n{after}");
}

const MARKED: &str = "int f(void)\n{\n\tone(a);\n<<<<<<< tree\n\tother(a);\n||||||| the patch expects\n\ttwo(a);\n\tthree(a);\n=======\n\ttwo(a);\n\tmore(a);\n\tthree(a);\n>>>>>>> patch, hunk 1: look\n\treturn 0;\n}\n";

#[test]
fn nothing_is_changed_between_conflict_markers() {
    let folder = tree(&[("x.c", MARKED)]);
    let change = patch(&[(3, "int f(void)", " \ttwo(a);\n+\tmore(a);\n \tthree(a);\n")]);
    let report = run(&folder, &change, &Options::default());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
    assert_eq!(read(&folder, "x.c"), MARKED, "{report}");
    assert!(report.to_string().contains("conflict markers stand here already, at lines 4-13"), "{report}");
    assert!(read(&folder, "x.c.rej").contains("+\tmore(a);\n"));
    // What stands outside of them is placed as ever.
    let change = patch(&[(1, "", " int f(void)\n {\n+\tzero(a);\n \tone(a);\n")]);
    let report = run(&folder, &change, &Options::default());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Applied, "{report}");
    assert_eq!(read(&folder, "x.c"), MARKED.replace("{\n", "{\n\tzero(a);\n"));
}

#[test]
fn the_same_patch_twice_does_not_nest_markers() {
    let file = "int f(void)\n{\n\tone(a);\n\tother(b);\n\tanother(c);\n\tfour(d);\n\treturn 0;\n}\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[(
        3,
        "int f(void)",
        " \tone(a);\n-\ttwo(x, y);\n-\tthree(z, w);\n+\tdeux(x, y);\n \tfour(d);\n",
    )]);
    let report = run(&folder, &change, &Options::default());
    assert_eq!(report.counts.conflict, 1, "{report}");
    let once = read(&folder, "x.c");
    assert_eq!(once.matches("<<<<<<< ").count(), 1, "{once}");
    let report = run(&folder, &change, &Options::default());
    assert_eq!(report.counts.conflict, 1, "{report}");
    assert_eq!(read(&folder, "x.c"), once);
}

#[test]
fn markers_are_a_three_way_conflict() {
    let file = "int f(void)\n{\n\tone(a);\n\tother(b);\n\tanother(c);\n\tfour(d);\n\treturn 0;\n}\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[(
        3,
        "int f(void)",
        " \tone(a);\n-\ttwo(x, y);\n-\tthree(z, w);\n+\tdeux(x, y);\n \tfour(d);\n",
    )]);
    run(&folder, &change, &Options::default());
    let text = read(&folder, "x.c");
    // Each side is what the file would be; nothing around the block stands in it a second time.
    let side = |from: &str, to: &str| {
        let start = text.find(from).unwrap();
        let start = start + text[start..].find('\n').unwrap() + 1;
        text[start..start + text[start..].find(to).unwrap()].to_owned()
    };
    assert_eq!(side("<<<<<<< tree", "|||||||"), "\tother(b);\n\tanother(c);\n", "{text}");
    assert_eq!(side("||||||| ", "======="), "\ttwo(x, y);\n\tthree(z, w);\n", "{text}");
    assert_eq!(side("=======", ">>>>>>>"), "\tdeux(x, y);\n", "{text}");
    assert_eq!(text.matches("one(a)").count(), 1);
    assert_eq!(text.matches("four(d)").count(), 1);
}

const RENAME: &str = "diff --git a/a.txt b/b.txt\nsimilarity index 90%\nrename from a.txt\nrename to b.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1,2 +1,3 @@\n one\n+new\n two\n";

#[test]
fn a_rename_onto_a_file_is_a_conflict() {
    let folder = tree(&[("a.txt", "one\ntwo\n"), ("b.txt", "mine\n")]);
    let report = run(&folder, RENAME, &Options::default());
    assert_eq!(report.counts.conflict, 1, "{report}");
    assert_eq!(report.counts.total(), 1);
    assert_eq!((read(&folder, "a.txt").as_str(), read(&folder, "b.txt").as_str()), ("one\ntwo\n", "mine\n"));
    assert!(read(&folder, "b.txt.rej").contains("+new\n"), "{report}");
}

#[test]
fn a_file_to_be_removed_is_found_where_it_is() {
    let content = "#ifndef TCP_H\n#define TCP_H\nint tcp_init(void);\n#endif\n";
    let patch = format!(
        "diff --git a/include/uapi/linux/tcp.h b/include/uapi/linux/tcp.h\ndeleted file mode 100644\n--- a/include/uapi/linux/tcp.h\n+++ /dev/null\n@@ -1,4 +0,0 @@\n{}",
        content.lines().map(|line| format!("-{line}\n")).collect::<String>()
    );
    let folder = tree(&[("include/linux/tcp.h", content)]);
    let report = run(&folder, &patch, &Options::default());
    assert_eq!(report.patches[0].files[0].action, FileAction::Delete, "{report}");
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    assert!(!folder.path().join("include/linux/tcp.h").exists());
    // With other content it is a person's.
    let folder = tree(&[("include/linux/tcp.h", &content.replace("tcp_init", "tcp_start"))]);
    let report = run(&folder, &patch, &Options::default());
    assert_eq!(report.counts.conflict, 1, "{report}");
    assert!(folder.path().join("include/linux/tcp.h.rej").exists());
}

#[test]
fn the_end_of_a_file_is_not_its_middle() {
    let file = "int first(void);\nint second(void);\n#ifdef CONFIG_MORE\nint third(void);\n#endif\nint fourth(void);\nint fifth(void);\n";
    let change = patch(&[(1, "", " int first(void);\n int second(void);\n+int added(void);\n")]);
    let folder = tree(&[("x.c", &format!("int zero(void);\n{file}"))]);
    let report = run(&folder, &change, &quiet());
    assert!(matches!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy | HunkOutcome::Conflict), "{report}");
    assert!(report.to_string().contains("end of the file"), "{report}");
    // At the end it is certain.
    let folder = tree(&[("x.c", "int zero(void);\nint first(void);\nint second(void);\n")]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Moved, "{report}");
}

#[test]
fn what_stands_there_is_not_put_in_twice() {
    let new = "\tset_up(queue, first);\n\tset_limit(queue, second);\n\tset_owner(queue, third);\n";
    let file = format!(
        "static int setup(struct queue *queue)\n{{\n\tint error = check(queue);\n\n\tprepare_other(queue, 1);\n{new}\tother_thing(queue);\n\tstart(queue, error);\n\treturn error;\n}}\n"
    );
    let change = patch(&[(
        3,
        "static int setup(struct queue *queue)",
        &format!(
            " \tint error = check(queue);\n \n \tprepare_first(queue);\n{} \tstart(queue, error);\n \treturn error;\n }}\n",
            new.lines().map(|line| format!("+{line}\n")).collect::<String>()
        ),
    )]);
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(read(&folder, "x.c"), file, "{report}");
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Present, "{report}");
}

#[test]
fn a_change_is_not_made_twice_where_its_lines_repeat() {
    // The check that is added ends as the one above it does: its place looks the same behind it as in front of it.
    let check = |name: &str| format!("\tif ({name}(q)) {{\n\t\terr = -EINVAL;\n\t\tgoto out;\n\t}}\n\n");
    let tail = "\treturn 0;\n}\n";
    let head = "static int check_all(struct queue *q)\n{\n\tint err;\n\n";
    let before = format!("{head}{}{}{tail}", check("is_old"), check("is_last"));
    let after = format!("{head}{}{}{}{tail}", check("is_old"), check("is_new"), check("is_last"));
    let added: String = check("is_new").lines().map(|line| format!("+{line}\n")).collect();
    let change = patch(&[(
        7,
        "static int check_all(struct queue *q)",
        &format!(" \t\tgoto out;\n \t}}\n \n{added} \tif (is_last(q)) {{\n"),
    )]);
    let folder = tree(&[("x.c", &after)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(read(&folder, "x.c"), after, "{report}");
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Present, "{report}");
    assert!(report.is_doubtful(), "{report}");
    // Where it was not made, it is.
    let folder = tree(&[("x.c", &before)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(read(&folder, "x.c"), after, "{report}");
}

#[test]
fn what_another_hunk_takes_away_is_not_there_already() {
    // The patch moves three lines below a call, which reads otherwise in the tree.
    let moved = "\tset_up(queue, first);\n\tset_limit(queue, second);\n\tset_owner(queue, third);\n";
    let body: String = (1..9).map(|n| format!("\tfill_{n}(queue, error);\n")).collect();
    let file = format!(
        "static int setup(struct queue *queue)\n{{\n\tint error = check(queue);\n\n\topen_it(queue);\n{moved}\tprime(dev->queue, 4, error);\n{body}\treturn error;\n}}\n"
    );
    let lines = |op: char| moved.lines().map(|line| format!("{op}{line}\n")).collect::<String>();
    let heading = "static int setup(struct queue *queue)";
    let change = patch(&[
        (5, heading, &format!(" \topen_it(queue);\n{} \tlock_here(queue);\n", lines('-'))),
        (
            10,
            heading,
            &format!(
                " \tprime(queue, error);\n{} \tfill_1(queue, error);\n \tfill_2(queue, error);\n",
                lines('+')
            ),
        ),
    ]);
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &change, &quiet());
    let after = read(&folder, "x.c");
    assert_ne!(hunk(&report, 2).outcome, HunkOutcome::Present, "{report}");
    assert!(after.contains("set_owner") || !report.is_clean(), "{report}\n{after}");
}

#[test]
fn the_nearer_of_twins_is_not_taken() {
    let twin =
        |name: &str| format!("\tcase {name}:\n\t\tlock(q);\n\t\tpush(q, 1);\n\t\tunlock(q);\n\t\tbreak;\n");
    let body: String = (0..3).map(|n| format!("\tfill_{n}(q);\n")).collect();
    let file = format!(
        "int f(struct q *q)\n{{\n{}{}{}{}{}{}}}\n",
        twin("A"),
        body.repeat(3),
        twin("B"),
        body.repeat(6),
        twin("C"),
        body
    );
    let change = patch(&[(
        5,
        "int f(struct q *q)",
        " \t\tlock(q);\n \t\tpush(q, 1);\n+\t\tcount(q);\n \t\tunlock(q);\n \t\tbreak;\n",
    )]);
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
    assert_eq!(read(&folder, "x.c"), file);
}

/// A file whose lines `first` and `first + apart` (from 1) start the same block, and a hunk that has it at line 200.
fn with_twins(first: usize, apart: usize) -> (TempDir, PortReport) {
    const BLOCK: [&str; 3] = ["\t\tlock(q);", "\t\tpush(q, 1);", "\t\tunlock(q);"];
    let mut lines: Vec<String> = (1..1500).map(|line| format!("\tfill_{line}(q);")).collect();
    lines[0] = "int f(struct q *q)".to_owned();
    lines[1] = "{".to_owned();
    for start in [first, first + apart] {
        for (line, text) in BLOCK.into_iter().enumerate() {
            lines[start - 1 + line] = text.to_owned();
        }
    }
    let folder = tree(&[("x.c", &format!("{}\n}}\n", lines.join("\n")))]);
    let change = " \t\tlock(q);\n \t\tpush(q, 1);\n+\t\tcount(q);\n \t\tunlock(q);\n";
    let report = run(&folder, &patch(&[(200, "int f(struct q *q)", change)]), &quiet());
    (folder, report)
}

#[test]
fn the_nearer_of_twins_is_taken_where_the_other_is_far_away() {
    for (first, apart) in [(210, 100), (200 + 64, 6 * 64)] {
        let (folder, report) = with_twins(first, apart);
        assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{first} {apart}: {report}");
        assert_eq!(read(&folder, "x.c").lines().nth(first + 1), Some("\t\tcount(q);"));
    }
    // Not far enough, too far from where the patch has it, and too close to each other.
    for (first, apart) in [(220, 80), (200 + 65, 1000), (202, 30)] {
        let (_, report) = with_twins(first, apart);
        let hunk = hunk(&report, 1);
        assert_eq!(hunk.outcome, HunkOutcome::Conflict, "{first} {apart}: {report}");
        let both = format!("lines {first}, {}", first + apart);
        assert!(hunk.needs.as_ref().is_some_and(|needs| needs.contains(&both)), "{report}");
    }
}

#[test]
fn twins_are_told_apart_by_their_order() {
    let twin = "\tcase 0:\n\t\tlock(q);\n\t\tpush(q, 1);\n\t\tunlock(q);\n\t\tbreak;\n";
    let file = format!(
        "int more;\nint f(struct q *q)\n{{\n\tone(q);\n{twin}\ttwo(q);\n\tthree(q);\n{twin}\tfour(q);\n}}\n"
    );
    let lines = " \t\tlock(q);\n \t\tpush(q, 1);\n+\t\tcount(q);\n \t\tunlock(q);\n \t\tbreak;\n";
    let change = patch(&[(5, "int f(struct q *q)", lines), (12, "int f(struct q *q)", lines)]);
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(report.counts.fuzzy, 2, "{report}");
    assert_eq!(read(&folder, "x.c"), file.replace("push(q, 1);\n", "push(q, 1);\n\t\tcount(q);\n"));
}

#[test]
fn twins_are_told_apart_by_the_heading() {
    let part = |name: &str| format!("struct {name};\n\n#ifdef CONFIG_MIB\nint count(int a);\n#endif\n\n");
    let file = format!("{}{}{}", part("first"), part("second"), part("third"));
    let change = patch(&[(
        30,
        "struct second;",
        " #ifdef CONFIG_MIB\n-int count(int a);\n+int count(int a, int b);\n #endif\n \n",
    )]);
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Moved, "{report}");
    let want = file.replace(&part("second"), &part("second").replace("int a)", "int a, int b)"));
    assert_eq!(read(&folder, "x.c"), want);
}

#[test]
fn the_own_heading_of_the_place_outranks_what_lines_let_guess() {
    // Each of these stands in the file once, under the heading that git writes for it.
    for (name, before, heading, lines) in [
        // Behind a prototype of two lines.
        (
            "x.c",
            "extern void swsusp_show_speed(struct timeval *, struct timeval *,\n\t\t\t\tunsigned int, char *);\n\n#ifdef CONFIG_SUSPEND\n/* kernel/power/suspend.c */\nextern int suspend;\n#endif\n",
            "extern void swsusp_show_speed(struct timeval *, struct timeval *,",
            " \t\t\t\tunsigned int, char *);\n \n #ifdef CONFIG_SUSPEND\n+#define between 3\n /* kernel/power/suspend.c */\n extern int suspend;\n #endif\n",
        ),
        // In the variable behind the type that the heading names.
        (
            "x.c",
            "static struct addrconf_sysctl_table\n{\n\tint a;\n} addrconf_sysctl = {\n\t.first = one,\n\t.second = two,\n\t.third = three,\n\t.fourth = four,\n};\n",
            "static struct addrconf_sysctl_table",
            " \t.first = one,\n \t.second = two,\n+\t.between = more,\n \t.third = three,\n \t.fourth = four,\n",
        ),
        // A line of a Makefile.
        (
            "Makefile",
            "obj-y := core.o\nobj-$(CONFIG_A) += a.o\nobj-$(CONFIG_B) += b.o\nobj-$(CONFIG_D) += d.o\nobj-$(CONFIG_E) += e.o\n",
            "obj-y := core.o",
            " obj-$(CONFIG_A) += a.o\n obj-$(CONFIG_B) += b.o\n+obj-$(CONFIG_C) += c.o\n obj-$(CONFIG_D) += d.o\n obj-$(CONFIG_E) += e.o\n",
        ),
    ] {
        let folder = tree(&[(name, &format!("int more;\nint lines;\n{before}int last;\n"))]);
        let change = patch(&[(3, heading, lines)]).replace("x.c", name);
        let report = run(&folder, &change, &quiet());
        assert!(
            matches!(hunk(&report, 1).outcome, HunkOutcome::Moved | HunkOutcome::Applied),
            "{heading}: {report}"
        );
        assert!(hunk(&report, 1).confidence > 0.99, "{report}");
    }
}

/// A prototype and, a hundred lines below, the definition with the same lines.
fn prototype_and_definition() -> String {
    let arguments = "static void calc(\n\t\tstruct lib *lib,\n\t\tunsigned int a,\n\t\tunsigned int b,\n\t\tunsigned int c,\n\t\tunsigned int d,\n\t\tdouble e)";
    let between: String =
        (0..25).map(|n| format!("static int f{n}(void)\n{{\n\treturn {n};\n}}\n")).collect();
    format!("#include \"lib.h\"\n\n{arguments};\n\n{between}\n{arguments}\n{{\n\tuse(lib, a);\n}}\n")
}

const ARGUMENT: &str = " \t\tstruct lib *lib,\n \t\tunsigned int a,\n \t\tunsigned int b,\n-\t\tunsigned int c,\n+\t\tunsigned long c,\n \t\tunsigned int d,\n";
const BODY: &str = " \t\tdouble e)\n {\n-\tuse(lib, a);\n+\tuse(lib, a + 1);\n }\n";

#[test]
fn the_file_that_a_patch_was_made_for_is_not_searched() {
    let before = prototype_and_definition();
    let body = before.lines().position(|line| line == "\tuse(lib, a);").unwrap();
    let definition = body - 8 + 2;
    let hunks = [
        (4, "static void calc(", ARGUMENT),
        (definition, "static void calc(", ARGUMENT),
        (body - 1, "", BODY),
    ];
    let folder = tree(&[("x.c", &before)]);
    let report = run(&folder, &patch(&hunks), &quiet());
    for number in 1..=3 {
        assert_eq!(hunk(&report, number).outcome, HunkOutcome::Applied, "{report}");
    }
    assert_eq!(read(&folder, "x.c"), before.replace("int c,", "long c,").replace("lib, a)", "lib, a + 1)"));
}

#[test]
fn a_prototype_is_not_passed_over_in_silence_for_its_definition() {
    for more in [0, 12] {
        let before = format!("{}{}", "int more;\n".repeat(more), prototype_and_definition());
        let folder = tree(&[("x.c", &before)]);
        let report = run(&folder, &patch(&[(4, "static void calc(", ARGUMENT)]), &quiet());
        let (first, hunk) = (before.replacen("int c,", "long c,", 1), hunk(&report, 1));
        assert!(matches!(hunk.outcome, HunkOutcome::Fuzzy | HunkOutcome::Conflict), "{report}");
        assert!(hunk.outcome == HunkOutcome::Conflict || read(&folder, "x.c") == first, "{report}");
    }
}

#[test]
fn a_first_hunk_that_ends_in_half_a_signature_is_where_all_its_lines_stand() {
    let file = "#include \"a.h\"\n\nint state(struct link *link)\n{\n\treturn read_pin(link->pin);\n}\n\nstruct pin *find_pin(struct bios *bios,\n\t\tstruct id id)\n{\n\treturn bios->pin;\n}\n";
    let lines = " int state(struct link *link)\n {\n-\treturn read_pin(link->pin);\n+\treturn link->state;\n }\n \n struct pin *find_pin(struct bios *bios,\n";
    let folder = tree(&[("x.c", &format!("/* one */\n/* two */\n{file}"))]);
    let report = run(&folder, &patch(&[(3, "", lines)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Moved, "{report}");
}

#[test]
fn a_function_is_not_defined_a_second_time() {
    let file = "#include \"a.h\"\n\nstatic int wide(int a)\n{\n\treturn a > 7;\n}\n\nstatic int affine(int a)\n{\n\treturn a;\n}\n";
    let added = "+static int wide(int a)\n+{\n+\treturn a > size;\n+}\n+\n";
    let lines = format!(" \n{added} static int affine(int a)\n {{\n \treturn a;\n");
    let placed = |file: &str, hunks: &[(usize, &str, &str)]| {
        let folder = tree(&[("x.c", file)]);
        let report = run(&folder, &patch(hunks), &quiet());
        (hunk(&report, hunks.len()).clone(), report.to_string())
    };
    let (second, report) = placed(file, &[(7, "", &lines)]);
    assert_eq!(second.outcome, HunkOutcome::Conflict, "{report}");
    assert!(
        second.needs.is_some_and(|needs| needs.contains("`wide`, which is defined here already (line 3)"))
    );
    // What begins inside of a comment does not define what the comment names.
    let noted = file.replace("static int affine", "/**\n * affine() is next\n */\nstatic int affine");
    let inside = " /**\n+ * both() asks wide() twice\n+ */\n+static int both(int a)\n+{\n+\treturn wide(a) + wide(a);\n+}\n+\n+/**\n  * affine() is next\n  */\n static int affine(int a)\n";
    assert_eq!(placed(&noted, &[(8, "", inside)]).0.outcome, HunkOutcome::Applied);
    // In another half of a conditional it is another one, and one that the patch moves is not a second one.
    let half = file.replace(
        "static int wide(int a)\n{\n\treturn a > 7;\n}\n",
        "#ifdef B\nstatic int wide(int a)\n{\n\treturn a > 7;\n}\n#endif\n",
    );
    assert_eq!(placed(&half, &[(9, "", &lines)]).0.outcome, HunkOutcome::Applied);
    let gone = " #include \"a.h\"\n \n-static int wide(int a)\n-{\n-\treturn a > 7;\n-}\n-\n static int affine(int a)\n {\n";
    let behind = format!(" \treturn a;\n }}\n+\n{}", added.trim_end_matches("+\n"));
    assert_eq!(
        placed(file, &[(1, "", gone), (10, "static int affine(int a)", &behind)]).0.outcome,
        HunkOutcome::Applied
    );
}

#[test]
fn definitions_stay_in_the_first_column() {
    let file = "int first(struct sock *sk,\n\t\t\tstruct sk_buff *skb);\nint second(void);\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[(
        20,
        "",
        " int first(struct sock *sk,\n \t\tstruct sk_buff *skb);\n+void v4_mtu_reduced(struct sock *sk);\n long entirely_new(struct net *net, int a);\n",
    )]);
    let report = run(&folder, &change, &quiet());
    let after = read(&folder, "x.c");
    assert!(
        report.is_clean() && after.contains("\nvoid v4_mtu_reduced(struct sock *sk);\n"),
        "{report}\n{after}"
    );
}

#[test]
fn line_ends_are_those_of_the_file() {
    let file = "int a;\r\nint b;\r\nint c;\r\nint d;\r\n";
    let folder = tree(&[("x.c", file)]);
    let change = patch(&[(1, "", " int a;\n int b;\n+int new;\n int c;\n int d;\n")]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Applied, "{report}");
    assert_eq!(read(&folder, "x.c"), file.replace("int c", "int new;\r\nint c"));
}

#[test]
fn every_hunk_that_is_not_placed_is_in_a_reject_file() {
    let folder = tree(&[("gone.c", "x\nz\n"), ("made.c", "mine\n")]);
    let missing = patch(&[(1, "", " int a;\n+int b;\n")]).replace("x.c", "sub/missing.c");
    let text = format!(
        "--- a/gone.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n--- /dev/null\n+++ b/made.c\n@@ -0,0 +1 @@\n+theirs\n{missing}"
    );
    let report = run(&folder, &text, &Options::default());
    assert_eq!(report.counts.conflict, 3, "{report}");
    for (name, line) in
        [("gone.c.rej", "-y\n"), ("made.c.rej", "+theirs\n"), ("sub/missing.c.rej", "+int b;\n")]
    {
        assert!(read(&folder, name).contains(line), "{name}");
    }
}

#[test]
fn a_header_that_left_the_user_api_is_found() {
    // Most of the lines differ, but no other file has the path.
    let file = "enum\n{\n\tLINUX_MIB_NUM = 0,\n\tLINUX_MIB_SYNCOOKIESSENT,\n\tLINUX_MIB_TCPOLD,\n\t__LINUX_MIB_MAX\n};\n";
    let change = patch(&[(
        40,
        "enum",
        " \tLINUX_MIB_TCPFASTOPENPASSIVE,\n \tLINUX_MIB_TCPSPURIOUSRTXHOSTQUEUES,\n \tLINUX_MIB_BUSYPOLLRXPACKETS,\n+\tLINUX_MIB_TCPAUTOCORKING,\n \t__LINUX_MIB_MAX\n };\n \n",
    )])
    .replace("x.c", "include/uapi/linux/snmp.h");
    let folder = tree(&[("include/linux/snmp.h", file), ("net/snmp.h", "int other;\n")]);
    let report = run(&folder, &change, &quiet());
    let into = report.patches[0].files[0].onto.as_deref();
    assert_eq!(into, Some("include/linux/snmp.h"), "{report}");
}

#[test]
fn files_that_may_be_meant_are_named() {
    let folder = tree(&[("a/deep/x.c", "int a;\nint z;\n"), ("b/x.c", "int a;\nint y;\n")]);
    let change = patch(&[(1, "", " int a;\n int b;\n int c;\n+int d;\n int e;\n int f;\n")])
        .replace("/x.c", "/old/x.c");
    let report = run(&folder, &change, &quiet());
    assert!(report.to_string().contains("files that may be meant: `a/deep/x.c`, `b/x.c`"), "{report}");
}

#[test]
fn rows_of_a_table_are_known_by_their_numbers() {
    let row = |id: &str| format!("\t{{ USB_DEVICE(0x046d, {id}), .driver_info = USB_QUIRK_RESET }},\n");
    let rows = |ids: &[&str]| ids.iter().map(|id| row(id)).collect::<String>();
    let head = "static const struct usb_device_id list[] = {\n";
    let file = format!("{head}{}}};\n", rows(&["0x0825", "0x08c1", "0x08c2", "0x08c3"]));
    // The new row stands between two that are here and one that is not.
    let lines = format!(" {}+{} {} {}", row("0x0825"), row("0x0847"), row("0x08c1"), row("0x08c2"));
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &patch(&[(40, head.trim_end(), &lines)]), &quiet());
    let want = format!("{head}{}}};\n", rows(&["0x0825", "0x0847", "0x08c1", "0x08c2", "0x08c3"]));
    assert_eq!(read(&folder, "x.c"), want, "{report}");
    // Rows that all are others are no place.
    let other = format!(" {} {}+{} {}", row("0x1111"), row("0x1112"), row("0x1113"), row("0x1114"));
    let folder = tree(&[("x.c", &file)]);
    let report = run(&folder, &patch(&[(40, head.trim_end(), &other)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
}

#[test]
fn one_line_does_not_rename_a_flag() {
    let file = "void f(struct x *x)\n{\n\tif (is_new(x)) {\n\t\tx->quirks |= X_OTHER_FLAG;\n\t\tx->quirks |= X_REBOOT;\n\t}\n\tstart(x);\n}\n";
    let lines = " \t\tx->quirks |= X_WAKEUP;\n \t\tx->quirks |= X_REBOOT;\n+\t\tif (late(x))\n+\t\t\tx->quirks |= X_WAKEUP;\n \t}\n \tstart(x);\n }\n";
    let folder = tree(&[("x.c", file)]);
    let report = run(&folder, &patch(&[(4, "void f(struct x *x)", lines)]), &quiet());
    assert!(read(&folder, "x.c").contains("\t\tif (late(x))\n\t\t\tx->quirks |= X_WAKEUP;\n"), "{report}");
}

#[test]
fn a_heading_may_lack_its_parentheses() {
    let file = "static int wdm_write\n(struct file *file, int count)\n{\n\tint rv;\n\n\trv = submit(file, count);\n\tif (rv < 0)\n\t\tgoto out;\n\tnote(file, \"sent %d\",\n\t\tfile->index);\nout:\n\treturn rv;\n}\n";
    let lines = " \tif (rv < 0) {\n \t\tgoto out;\n \tnote(file, \"sent %d\",\n-\t\tfile->index);\n+\t\tle16_to_cpu(file->index));\n out:\n \treturn rv;\n }\n";
    let folder = tree(&[("x.c", file)]);
    let report = run(&folder, &patch(&[(107, "static int wdm_write", lines)]), &quiet());
    assert!(read(&folder, "x.c").contains("\t\tle16_to_cpu(file->index));\n"), "{report}");
}

#[test]
fn what_a_hunk_moves_is_not_there_already() {
    let file = "void f(void)\n{\n\tfirst_step(a, b);\n\tsecond_step(c, d);\n\tthird_step(e, f);\n\tfourth_step(g, other);\n}\n";
    let lines = " \tfirst_step(a, b);\n-\tsecond_step(c, d);\n \tthird_step(e, f);\n+\tsecond_step(c, d);\n \tfourth_step(g, h);\n }\n";
    let folder = tree(&[("x.c", file)]);
    let report = run(&folder, &patch(&[(3, "void f(void)", lines)]), &quiet());
    let want = "void f(void)\n{\n\tfirst_step(a, b);\n\tthird_step(e, f);\n\tsecond_step(c, d);\n\tfourth_step(g, other);\n}\n";
    let all_or_nothing = [want, file];
    assert!(all_or_nothing.contains(&read(&folder, "x.c").as_str()), "{report}\n{}", read(&folder, "x.c"));
}

#[test]
fn a_row_goes_in_front_of_the_one_that_ends_its_table() {
    let file = "static struct ctl_table t[] = {\n\t{\n\t\t.procname = \"a_name\",\n\t\t.data = &a_limit,\n\t},\n\t{ }\n};\n";
    let lines = " \t\t.procname = \"a_name\",\n \t\t.data = &a_limit,\n \t},\n+\t{\n+\t\t.procname = \"b_name\",\n+\t\t.data = &b_limit,\n+\t},\n };\n";
    let folder = tree(&[("x.c", file)]);
    let report = run(&folder, &patch(&[(33, "static struct ctl_table t[] = {", lines)]), &quiet());
    assert!(read(&folder, "x.c").ends_with("\t\t.data = &b_limit,\n\t},\n\t{ }\n};\n"), "{report}");
}

#[test]
fn a_line_of_a_makefile_stands_outside_of_the_entry_in_its_heading() {
    let file = "obj-y := usb.o\n\nusbcore-$(CONFIG_OF) += of.o\nusbcore-$(CONFIG_PCI) += hcd-pci.o\nusbcore-$(CONFIG_ACPI) += usb-acpi.o\n\nobj-$(CONFIG_USB) += usbcore.o\n";
    let change = "--- a/Makefile\n+++ b/Makefile\n@@ -15,5 +15,6 @@ usbcore-$(CONFIG_LEDS) += leds.o\n usbcore-$(CONFIG_SIDEBAND) += offload.o\n usbcore-$(CONFIG_PCI) += hcd-pci.o\n usbcore-$(CONFIG_ACPI) += usb-acpi.o\n+usbcore-$(CONFIG_SYSCTL) += sysctl.o\n \n ifdef CONFIG_ONBOARD\n";
    let folder = tree(&[("Makefile", file)]);
    let report = run(&folder, change, &quiet());
    assert!(
        read(&folder, "Makefile").contains("usb-acpi.o\nusbcore-$(CONFIG_SYSCTL) += sysctl.o\n"),
        "{report}"
    );
}

#[test]
fn lines_between_markers_are_not_gone() {
    let file = "int f(void)\n{\n\tone(a);\n<<<<<<< HEAD\n=======\n\textra(b);\n>>>>>>> other\n\ttwo(c);\n\tthree(d);\n\treturn 0;\n}\n";
    let folder = tree(&[("x.c", file)]);
    let lines = " \tone(a);\n-\textra(b);\n \ttwo(c);\n \tthree(d);\n \treturn 0;\n";
    let report = run(&folder, &patch(&[(3, "int f(void)", lines)]), &quiet());
    assert_eq!(report.counts.conflict, 1, "{report}");
    assert_eq!(read(&folder, "x.c"), file);
}
