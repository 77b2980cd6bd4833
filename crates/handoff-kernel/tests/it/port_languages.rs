//! Files that are not C: what encloses a line, which heading names it, and where lists and files end.

use handoff_kernel::port::{HunkOutcome, PortReport};

use crate::port_honest::{patch, quiet, read, run, tree};

/// A hunk: the line at which it starts, its heading, its lines.
type Lines<'a> = (usize, &'a str, &'a str);

/// Ports a hunk onto a file; gives the report and the file.
fn ported(path: &str, file: &str, hunk: Lines<'_>) -> (PortReport, String) {
    let folder = tree(&[(path, file)]);
    let report = run(&folder, &patch(&[hunk]).replace("/x.c\n", &format!("/{path}\n")), &quiet());
    let now = read(&folder, path);
    (report, now)
}

/// The change is made behind the only line with this text, with doubt or without.
fn goes_behind(path: &str, file: &str, hunk: Lines<'_>, line: &str, outcome: HunkOutcome) {
    let (report, now) = ported(path, file, hunk);
    assert_eq!(report.hunks().next().unwrap().outcome, outcome, "{report}");
    assert_eq!(file.matches(line).count(), 1, "{line}");
    let added: String =
        hunk.2.lines().filter_map(|line| line.strip_prefix('+')).map(|line| format!("{line}\n")).collect();
    assert_eq!(now, file.replace(line, &format!("{line}{added}")), "{report}");
}

const TESTS: &str = "\
import os

class First(Base):
    def test_add(self):
        self.value = add(1, 2)
        self.check(self.value)

class Second(Base):
    @decorated
    def test_add(self):
        self.value = add(1, 2)
        self.check(self.value)

    def test_remove(self):
        def check(value):
            return value
        self.value = remove(1, 2)
        self.check(self.value)
";

#[test]
fn a_class_tells_equal_methods_apart() {
    let hunk = (
        30,
        "class Second(Base):",
        "         self.value = add(1, 2)\n+        self.log(self.value)\n         self.check(self.value)\n",
    );
    let (report, now) = ported("t.py", TESTS, hunk);
    let hunk = report.hunks().next().unwrap();
    assert_ne!(hunk.outcome, HunkOutcome::Conflict, "{report}");
    assert_eq!(hunk.enclosing.as_ref().unwrap().name, "Second.test_add");
    assert_eq!(now.matches("self.log").count(), 1);
    assert!(now.find("self.log").unwrap() > now.find("@decorated").unwrap(), "{now}");
}

#[test]
fn a_driver_of_git_names_the_method() {
    let tests = TESTS.replace("self.check(self.value)\n\n    def", "self.check(self.value, 1)\n\n    def");
    let hunk = (
        60,
        "def test_remove(self):",
        "             return value\n+        self.log(self.value)\n         self.value = remove(2, 1)\n         self.check(self.value)\n",
    );
    goes_behind("t.py", &tests, hunk, "            return value\n", HunkOutcome::Fuzzy);
}

#[test]
fn methods_of_go_have_their_receiver() {
    let method = |of: &str| format!("func (s *{of}) Close() error {{\n\ts.done()\n\treturn s.err\n}}\n\n");
    let file = format!(
        "package x\n\n{}{}func last() {{\n}}\n",
        method("Server"),
        method("Client").replace("s.done()", "s.done() // now")
    );
    let hunk = (90, "func (s *Client) Close() error {", " \ts.done()\n+\ts.log()\n \treturn s.err\n }\n \n");
    goes_behind("x.go", &file, hunk, "\ts.done() // now\n", HunkOutcome::Fuzzy);
}

#[test]
fn what_has_no_heading_may_stand_anywhere() {
    let file = "{\n    \"GET\": {\n        \"since\": \"1.0\",\n        \"flags\": [\n            \"FAST\"\n        ],\n        \"tips\": [\n            \"NONE\"\n        ],\n        \"arguments\": []\n    }\n}\n";
    let hunk = (
        5,
        "",
        "             \"SLOW\"\n         ],\n-        \"tips\": [\n-            \"NONE\"\n-        ],\n         \"arguments\": []\n",
    );
    let (report, now) = ported("get.json", file, hunk);
    assert_eq!(report.counts.fuzzy, 1, "{report}");
    assert_eq!(now, file.replace("        \"tips\": [\n            \"NONE\"\n        ],\n", ""));
}

#[test]
fn a_list_in_order_stays_in_order() {
    let file = "import sys\n\nfrom app import base\nfrom app.old import cache\nfrom app.old import units\nfrom app import view\n\nx = 1\n";
    let hunk = (
        30,
        "import sys",
        " \n from app import base\n+from app.old import loop\n from app import view\n \n x = 1\n",
    );
    goes_behind("x.py", file, hunk, "from app.old import cache\n", HunkOutcome::Fuzzy);
    // Lines that only happen to ascend are no list.
    let file = "def f():\n    a = 1\n    call(b)\n    done(c)\n    exit(d)\n";
    let hunk = (9, "def f():", "     a = 1\n+    zero = 0\n     done(c)\n     exit(d)\n");
    let (report, _) = ported("x.py", file, hunk);
    assert!(!report.to_string().contains("sorted in"), "{report}");
    // Nor are lines in order that belong on two sides of another.
    let file = "import a\nimport c\nimport e\n\nx = 1\n";
    let hunk = (1, "", " import a\n+import b\n+import d\n import e\n \n x = 1\n");
    let (report, _) = ported("x.py", file, hunk);
    assert!(report.to_string().contains("1 line more where lines are added; they were put"), "{report}");
}

#[test]
fn the_first_of_a_block_stays_the_first() {
    let file = "jobs:\n  check:\n    uses: ./check.yml\n\n  run:\n    needs:\n      - check\n    uses: ./run.yml\n    secrets: inherit\n";
    let hunk = (
        30,
        "jobs:",
        "     uses: ./check.yml\n \n   run:\n+    if: ${{ true }}\n     uses: ./run.yml\n     secrets: inherit\n",
    );
    goes_behind("w.yml", file, hunk, "  run:\n", HunkOutcome::Fuzzy);
}

#[test]
fn the_last_of_a_file_stays_the_last() {
    let part = |name: &str| format!("SETUP([{name}])\nCHECK([{name}])\nCLEANUP\n");
    let file = format!("{}\n{}", part("one"), part("two"));
    let hunk = (
        8,
        "STOP",
        " SETUP([one])\n CHECK([one])\n CLEANUP\n+\n+SETUP([three])\n+CHECK([three])\n+CLEANUP\n",
    );
    let (report, now) = ported("x.at", &file, hunk);
    assert_eq!(report.counts.fuzzy, 1, "{report}");
    assert_eq!(now, format!("{file}\n{}", part("three")));
    // Where the same lines stand at the end and above it, too, the end is meant.
    let file = format!("{}DONE\n\nSTART\nCHECK([two])\nCLEANUP\nDONE\n", part("one"));
    let hunk = (30, "SETUP([one])", " CLEANUP\n DONE\n+\n+SETUP([three])\n+CLEANUP\n");
    let (report, now) = ported("x.at", &file, hunk);
    assert_eq!(report.counts.moved, 1, "{report}");
    assert_eq!(now, format!("{file}\nSETUP([three])\nCLEANUP\n"));
}

#[test]
fn an_entry_that_is_there_is_not_added_at_the_end_again() {
    let part = |name: &str| format!("def test_{name}():\n    check({name})\n");
    let file = [part("a"), part("x"), part("b")].join("\n\n");
    let hunk = (1, "", " def test_a():\n     check(a)\n+\n+\n+def test_b():\n+    check(b)\n");
    let (report, now) = ported("t.py", &file, hunk);
    assert_eq!(report.hunks().next().unwrap().outcome, HunkOutcome::Present, "{report}");
    assert_eq!(now, file);
}

#[test]
fn the_method_of_another_class_is_not_changed_instead() {
    let file = "\
class A:
    def close(self):
        self.flush(1)
        self.stop(self.socket)
        self.log(self.name)
        self.mark(self.time)
        self.count(self.all)
        self.free(self.buffer)

class B:
    def close(self):
        self.flush(1)
        self.stop(self.socket)
        self.free(self.buffer)
";
    let hunk = (
        3,
        "class A:",
        "         self.flush(1)\n+        self.log(self.name)\n+        self.mark(self.time)\n+        self.count(self.all)\n         self.stop(self.socket)\n         self.free(self.buffer)\n",
    );
    let (report, now) = ported("x.py", file, hunk);
    assert_eq!(report.hunks().next().unwrap().outcome, HunkOutcome::Conflict, "{report}");
    let text = report.to_string();
    assert!(text.contains("`B.close`") && text.contains("`A`"), "{report}");
    assert_eq!(now, file);
}

#[test]
fn a_few_of_many_equal_places_are_named() {
    let file = "a = 1\n".repeat(2000);
    let hunk = (700, "", " a = 1\n a = 1\n+b = 2\n a = 1\n a = 1\n");
    let (report, _) = ported("t.conf", &file, hunk);
    let said = report.to_string();
    assert!(said.contains("and 1989 more"), "{said}");
    assert!(said.len() < 2000, "{} bytes", said.len());
}
