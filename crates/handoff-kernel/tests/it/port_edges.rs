//! Where lists, logs and files begin and end, when nothing that stood beside an added line is here.

use handoff_kernel::port::{HunkOutcome, Options};
use handoff_testkit::{require, require_tool};

use crate::port_honest::{hunk, patch, quiet, read, run, tree};

/// Ports a hunk onto a file with doubt; gives the file.
fn with_doubt(path: &str, file: &str, (start, body): (usize, &str)) -> String {
    let folder = tree(&[(path, file)]);
    let change = patch(&[(start, "", body)]).replace("/x.c\n", &format!("/{path}\n"));
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    read(&folder, path)
}

#[test]
fn an_entry_goes_above_the_line_of_a_release() {
    let file = "\t--- 9.8.6 released ---\n\n3656.\t[bug]\t\tTreat a mask of zeros as wrong.\n\n3650.\t[func]\t\tAdd a rate limit.\n";
    let body = "+3693.\t[security]\tCopy what overlaps rightly.\n+\n 3692.\t[bug]\t\tCall it once.\n \t\t\tIt was fatal.\n \n";
    let now = with_doubt("CHANGES", file, (1, body));
    assert_eq!(now, format!("3693.\t[security]\tCopy what overlaps rightly.\n\n{file}"));
}

#[test]
fn an_entry_of_an_older_version_goes_below_newer_ones() {
    let file = "4965.\t[func]\t\tMark options.\n\n4949.\t[bug]\t\tPrint numbers.\n\n4939.\t[test]\t\tTest updates.\n";
    let body = "+4946.\t[bug]\t\tReturn all of it.\n+\n 4945.\t[func]\t\tBuild with it always.\n \t\t\tThat is new.\n \n";
    let now = with_doubt("CHANGES", file, (1, body));
    assert_eq!(now, file.replace("4939", "4946.\t[bug]\t\tReturn all of it.\n\n4939"));
    // A date is when its author wrote the entry: that goes to the top.
    let file = "2019-03-05  A  <a@example.org>\n\n\t* x.c: New.\n\n2019-01-01  B  <b@example.org>\n\n\t* y.c: New.\n";
    let body = "+2019-02-02  C  <c@example.org>\n+\n+\t* z.c: New.\n+\n 2019-02-01  D  <d@example.org>\n \n \t* w.c: New.\n";
    assert!(with_doubt("ChangeLog", file, (1, body)).starts_with("2019-02-02"));
}

#[test]
fn a_section_that_ended_its_file_ends_it_here() {
    let file = "Cells\n=====\n\nHow cells scale out\nis in another guide.\n";
    let body = " following path within the folder, the tool will\n automatically use it when the service is deployed or\n reconfigured.\n+\n+Failure handling\n+================\n";
    let now = with_doubt("guide.rst", file, (65, body));
    assert_eq!(now, format!("{file}\nFailure handling\n================\n"));
    // A method goes to the end of its class, if that ends the file.
    let file = "class First(Base):\n    def test_a(self):\n        self.check(1)\n\n\nclass Second(Base):\n    def test_b(self):\n        self.check(2)\n";
    let body = "         new_port.remove(address)\n         new_port.policy = make()\n         self.assertFalse(equal(new_port, old_port))\n+\n+    def test_c(self):\n+        self.check(3)\n";
    let in_class = |class: &str| {
        let folder = tree(&[("t.py", file)]);
        let change = patch(&[(170, class, body)]).replace("/x.c\n", "/t.py\n");
        (run(&folder, &change, &quiet()), read(&folder, "t.py"))
    };
    let (report, now) = in_class("class Second(Base):");
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    assert_eq!(now, format!("{file}\n    def test_c(self):\n        self.check(3)\n"));
    let (report, now) = in_class("class First(Base):");
    assert_eq!((hunk(&report, 1).outcome, &*now), (HunkOutcome::Conflict, file), "{report}");
    // What continues the block above is not put behind another one, unless that ends with the same line.
    let body = "   a: one\n   b: two\n   delegate_to: host\n+  all: true\n";
    let folder = tree(&[("x.yml", "- c: three\n  d: four\n")]);
    let change = patch(&[(19, "", body)]).replace("/x.c\n", "/x.yml\n");
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
    let same = "- c: three\n  d: four\n  delegate_to: host\n";
    assert_eq!(with_doubt("x.yml", same, (19, body)), format!("{same}  all: true\n"));
}

#[test]
fn a_header_is_sorted_in_among_those_of_its_folder() {
    let file = "#include <config.h>\n\n#include <inttypes.h>\n#include <stdlib.h>\n\n#include <isc/os.h>\n\n#include <dns/name.h>\n\nint f(void);\n";
    let body = " #include <isc/mem.h>\n #include <isc/print.h>\n+#include <isc/thread.h>\n #include <isc/util.h>\n \n #include <dns/compress.h>\n";
    let now = with_doubt("x.c", file, (31, body));
    assert_eq!(now, file.replace("<isc/os.h>\n", "<isc/os.h>\n#include <isc/thread.h>\n"));
    let body = " #include <config.h>\n \n+#include <stdbool.h>\n #include <stdint.h>\n #include <string.h>\n";
    let now = with_doubt("x.c", file, (1, body));
    assert_eq!(now, file.replace("<inttypes.h>\n", "<inttypes.h>\n#include <stdbool.h>\n"));
    // A block that is in order at its beginning only has a place there.
    let later = file.replace("<stdlib.h>\n", "<stdlib.h>\n#include <ctype.h>\n");
    let now = with_doubt("x.c", &later, (1, body));
    assert_eq!(now, later.replace("<inttypes.h>\n", "<inttypes.h>\n#include <stdbool.h>\n"));
    // So has a hunk that changes another line, too.
    let body =
        format!("{body} \n-#include <isc/os.h>\n+#include <isc/thread.h>\n \n #include <dns/name.h>\n");
    let now = with_doubt("x.c", file, (1, &body));
    let expect = file.replace("<inttypes.h>\n", "<inttypes.h>\n#include <stdbool.h>\n");
    assert_eq!(now, expect.replace("isc/os", "isc/thread"));
    // Headers in no order say nothing.
    let mixed = file.replace("<isc/os.h>\n", "<isc/zone.h>\n#include <isc/os.h>\n");
    let body =
        " #include <isc/mem.h>\n #include <isc/print.h>\n+#include <isc/thread.h>\n #include <isc/util.h>\n";
    let report = run(&tree(&[("x.c", &mixed)]), &patch(&[(31, "", body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
}

#[test]
fn the_first_of_a_sorted_list_stays_in_order() {
    let file = "jobs:\n  - one-centos-source\n  - one-debian-source\n  - one-ubuntu-source\n";
    let body = " jobs:\n+  - one-centos8s-source\n   - one-debian-source\n   - one-ubuntu-source\n   - one-ubuntu-upgrade\n";
    let now = with_doubt("x.yml", file, (9, body));
    assert_eq!(now, file.replace("centos-source\n", "centos-source\n  - one-centos8s-source\n"));
}

#[test]
fn the_file_that_a_patch_was_made_for_does_not_make_a_method_a_stranger() {
    require!(require_tool("git"));
    let text = |lock: &str| {
        format!(
            "import os\n\n\nclass Agent(Manager):\n\n    def refresh(self, network):\n        if network:\n            self.load(network)\n        else:\n            self.disable(network.id)\n\n    @{lock}\n    def create_end(self, context, payload):\n        self.refresh(payload)\n"
        )
    };
    let (source, here) =
        (tree(&[("x.py", &text("utils.synchronized('agent')"))]), text("lockutils.sync('a', 'd-')"));
    let body = "         else:\n             self.disable(network.id)\n \n+        if network.more:\n+            self.update(network)\n+\n     @utils.synchronized('agent')\n     def create_end(self, context, payload):\n         self.refresh(payload)\n";
    let change = patch(&[(9, "class Agent(Manager):", body)]).replace("/x.c\n", "/x.py\n");
    let folder = tree(&[("x.py", &here)]);
    let report = run(&folder, &change, &Options { source: Some(source.path().to_owned()), ..quiet() });
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    let more = "\n        if network.more:\n            self.update(network)\n\n    @lock";
    assert_eq!(read(&folder, "x.py"), here.replace("\n    @lock", more));
}

#[test]
fn a_hunk_that_lacks_its_edges_goes_where_the_rest_stands_once() {
    let file = "- hosts: all\n  vars:\n    logs_dir: \"/tmp/logs\"\n  tasks:\n    - name: Install\n      apt: name=dbus\n";
    let body = "   any_errors_fatal: true\n   vars:\n     logs_dir: \"/tmp/logs\"\n+  roles:\n+    - bindep\n   tasks:\n     # We have had cases where the address is not assigned,\n     # which causes errors later on.\n";
    let now = with_doubt("pre.yml", file, (3, body));
    assert_eq!(now, file.replace("  tasks:", "  roles:\n    - bindep\n  tasks:"));
    // Twice is once too often.
    let report = run(
        &tree(&[("pre.yml", &format!("{file}{file}"))]),
        &patch(&[(300, "", body)]).replace("/x.c\n", "/pre.yml\n"),
        &quiet(),
    );
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
}

#[test]
fn a_change_for_a_function_that_is_gone_says_where_its_lines_stand_in_others() {
    let of = |name: &str| format!("int {name}(void)\n{{\n\tstart();\n\tmiddle();\n\tend();\n}}\n\n");
    let body = " \tstart();\n-\tmiddle();\n+\tcentre();\n \tend();\n";
    let folder = tree(&[("x.c", &(of("g") + &of("h") + &of("i")))]);
    let report = run(&folder, &patch(&[(10, "int f(void)", body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Conflict, "{report}");
    let said = report.to_string();
    assert!(said.contains("the same lines stand at lines 10, 3, 17, but the change is for `f`"), "{said}");
}

#[test]
fn a_hunk_that_others_follow_is_not_at_the_end_of_its_file() {
    let of = |name: &str| format!("int {name}(void)\n{{\n\tone_{name}();\n\ttwo();\n\treturn 0;\n}}\n\n");
    let folder = tree(&[("x.c", &("/* new */\n".to_owned() + &of("f") + &of("g") + &of("h")))]);
    // Two lines of context below, as at the end of a file.
    let body = |name: &str| format!(" {{\n \tone_{name}();\n \ttwo();\n+\tthree();\n \treturn 0;\n }}\n");
    let hunks = [(2, "int f(void)", body("f")), (9, "int g(void)", body("g"))];
    let hunks = hunks.each_ref().map(|(line, heading, body)| (*line, *heading, body.as_str()));
    let report = run(&folder, &patch(&hunks), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Moved, "{report}");
    assert_eq!(hunk(&report, 2).outcome, HunkOutcome::Fuzzy, "that one may have been at the end: {report}");
}

#[test]
fn of_thousands_of_equal_places_the_one_that_the_patch_names_is_taken() {
    // Each place looks for the heading above it: that must not take a walk through the file.
    let file = "\t{ 0, 0 },\n".repeat(100_000);
    let body = " \t{ 0, 0 },\n".repeat(3) + "+\t{ 1, 0 },\n" + &" \t{ 0, 0 },\n".repeat(3);
    let folder = tree(&[("x.c", &format!("int a[] = {{\n{file}}};\n"))]);
    let report = run(&folder, &patch(&[(50_001, "int a[] = {", &body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
}
