//! The layouts of kernel code that must be recognised.

use super::*;

fn names(text: &str) -> Vec<(ScopeKind, String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let scopes = Scopes::of_file(&lines, Language::C);
    scopes.all.into_iter().map(|s| (s.kind, s.name, s.start, s.end)).collect()
}

fn one(text: &str) -> (ScopeKind, String) {
    let all = names(text);
    assert_eq!(all.len(), 1, "{all:?}");
    (all[0].0, all[0].1.clone())
}

#[test]
fn definitions_have_their_kind_and_name() {
    use ScopeKind::*;
    for (text, kind, name) in [
        ("static int f(int a,\n\t     int b)\n{\n\treturn a;\n}\n", Function, "f"),
        ("static int\nf(void)\n{\n}\n", Function, "f"),
        ("static void __sched f(void)\n\t__acquires(rq->lock)\n{\n}\n", Function, "f"),
        ("SYSCALL_DEFINE3(sendto, int, fd,\n\t\tint, x)\n{\n}\n", Function, "sys_sendto"),
        ("static __attribute__((noinline)) int f(void)\n{\n}\n", Function, "f"),
        ("static int (*get(int a))(void)\n{\n}\n", Function, "get"),
        ("struct tcp_sock {\n\tint a;\n};\n", Type, "struct tcp_sock"),
        ("struct __packed hdr {\n\tint a;\n} __attribute__((packed));\n", Type, "struct hdr"),
        ("enum\n{\n\tA,\n};\n", Type, ""),
        ("static struct ctl_table ipv4_table[] = {\n\t{ .a = 1 },\n};\n", Table, "ipv4_table"),
        ("const struct file_operations f_ops __read_mostly = {\n\t.a = b,\n};\n", Table, "f_ops"),
        ("#define f(a) do {\t\\\n\tg(a);\t\\\n} while (0)\n", Macro, "f"),
        ("extern int f(int a,\n\t     int b);\n", Statement, "f"),
        (
            "TRACE_EVENT(sched_wakeup,\n\tTP_PROTO(int a),\n\tTP_ARGS(a)\n);\n",
            Statement,
            "TRACE_EVENT(sched_wakeup)",
        ),
        ("static inline void f(void) { }\n", Function, "f"),
    ] {
        assert_eq!(one(text), (kind, name.to_owned()), "{text}");
    }
}

#[test]
fn both_halves_of_a_condition_open_the_same_brace() {
    let text =
        "#ifdef A\nint f(int a)\n{\n#else\nint f(void)\n{\n#endif\n\treturn 0;\n}\nint g(void)\n{\n}\n";
    let all = names(text);
    assert_eq!(all.last().map(|s| (s.1.as_str(), s.2, s.3)), Some(("g", 9, 11)));
    assert!(all.iter().any(|s| s.1 == "f" && s.3 == 8), "{all:?}");
}

#[test]
fn a_macro_call_without_semicolon_is_not_the_next_function() {
    let all = names("module_init(start)\nstatic int f(void)\n{\n\treturn 0;\n}\n");
    assert_eq!(all.last().unwrap().1, "f");
    assert_eq!(all.last().unwrap().2, 1);
}

#[test]
fn braces_in_strings_and_comments_do_not_count() {
    let all = names("int f(void)\n{\n\tg('{', \"}\\\"{\"); /* { */ // {\n\t/* {\n\t{ */\n}\nint h;\n");
    assert_eq!((all.len(), all[0].3), (1, 5));
}

#[test]
fn an_unbalanced_brace_ends_with_the_first_column() {
    let all = names("int f(void)\n{\n\tFOO {\n}\nint g(void)\n{\n}\n");
    assert_eq!(all.iter().map(|s| s.1.as_str()).collect::<Vec<_>>(), ["f", "g"]);
}

fn hunk_names(lines: &[&str], heading: &str) -> Vec<Option<String>> {
    let scopes = Scopes::of_hunk(lines, heading, Language::C);
    (0..lines.len()).map(|line| scopes.at(line).map(|scope| scope.name.clone())).collect()
}

#[test]
fn a_hunk_starts_inside_what_its_heading_names() {
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(
        hunk_names(&["\t}", "\treturn 0;", "}", "", "int g(void)", "{", "\tx();"], "static int f(int a)"),
        [some("f"), some("f"), some("f"), None, some("g"), some("g"), some("g")]
    );
    assert_eq!(
        hunk_names(&["", "int g(int a)", "{", "\tx();"], "static int f(int a)"),
        [None, some("g"), some("g"), some("g")]
    );
    assert_eq!(
        hunk_names(&["\t{", "\t\t.a = 1,", "\t},"], "static struct ctl_table ipv4_table[] = {")[1],
        some("ipv4_table")
    );
    assert_eq!(hunk_names(&["\tx();"], "out:")[0], some(""));
    assert_eq!(hunk_names(&["\tint a;"], "struct tcp_sock {")[0], some("struct tcp_sock"));
    // GNU diff cuts headings after some characters.
    assert_eq!(
        hunk_names(&["\tx();"], "static void tcp_v4_send_reset(struct so")[0],
        some("tcp_v4_send_reset")
    );
}

#[test]
fn a_hunk_may_start_inside_a_comment_or_macro() {
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(
        hunk_names(&[" * @a: text (of g", " */", "int g(int a)", "{", "\tx();"], "static int f(int a)"),
        [None, None, some("g"), some("g"), some("g")]
    );
    assert_eq!(hunk_names(&["/* in */", "\tint a;", "\tint b;"], "struct s {")[1], some("struct s"));
    assert_eq!(hunk_names(&["/* one", "   two */", "", "int g(void)", "{"], "int f(void)")[4], some("g"));
    assert_eq!(
        hunk_names(&["\t\tput_cpu(); \\", "\t} while (0)", "#define G(a) \\", "\tg(a)"], "struct s {"),
        [some(""), some(""), some("G"), some("G")]
    );
}

#[test]
fn a_heading_may_name_a_declaration() {
    let lines = ["\t\tconst char *name);", "static int g(int);", "static int h(int);"];
    assert_eq!(hunk_names(&lines, "static int f(struct a *t,"), [Some("f".to_owned()), None, None]);
    let scopes = Scopes::of_hunk(&lines, "static int f(struct a *t,", Language::C);
    assert_eq!(scopes.all[0].kind, ScopeKind::Statement);
}

#[test]
fn documents_have_entries() {
    let lines = ["tcp_abc - INTEGER", "\tText", "\tDefault: 1", "", "tcp_def - BOOLEAN", "\tMore"];
    let scopes = Scopes::of_file(&lines, Language::Indented);
    assert_eq!(scopes.at(1).unwrap().name, "tcp_abc");
    assert_eq!(scopes.at(5).unwrap().name, "tcp_def");
    let hunk = Scopes::of_hunk(
        &["\tText", "\tDefault: 1", "", "tcp_def - BOOLEAN", "\tx"],
        "tcp_abc - INTEGER",
        Language::Indented,
    );
    assert_eq!(hunk.at(0).unwrap().name, "tcp_abc");
    assert_eq!(hunk.at(4).unwrap().name, "tcp_def");
    let kconfig = Scopes::of_file(&["config NET", "\tbool"], Language::Indented);
    assert_eq!(kconfig.all[0].name, "config NET");
}

/// What encloses each line of a file that is laid out by indentation.
fn names_in(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let scopes = Scopes::of_file(&lines, Language::Indented);
    (0..lines.len()).map(|line| scopes.at(line).map_or(String::new(), |scope| scope.name.clone())).collect()
}

#[test]
fn methods_stand_in_their_class() {
    assert_eq!(
        names_in(
            "class A(B):\n    x = 1\n\n    def f(\n        self,\n    ):\n        def g():\n            pass\n        y()\n\n    @d\n    def h(self): pass\n\ndef i():\n    z()\n"
        ),
        ["A", "A", "A", "A.f", "A.f", "A.f", "A.f", "A.f", "A.f", "A", "A", "A.h", "", "i", "i"]
    );
    assert_eq!(
        names_in(
            "public class A {\n//  void old() {\n\n  /** Says f. */\n  public int f(int a)\n  {\n    if (a) {\n    }\n  }\n}\nint b;\n"
        ),
        ["A", "A", "A", "A", "A.f", "A.f", "A.f", "A.f", "A.f", "A", ""]
    );
    assert_eq!(
        names_in("impl<T> X for Y<T> {\n    fn f(&self) {\n        a();\n    }\n}\n")[2],
        "impl<T> X for Y<T>.f"
    );
    assert_eq!(names_in("func (s *Server) Run(a int) {\n\tgo f()\n}\n"), ["Server.Run"; 3]);
    assert_eq!(names_in("@test \"a b\" {\n    run x\n}\n"), ["@test \"a b\""; 3]);
}

#[test]
fn a_hunk_of_a_class_starts_inside_of_it() {
    let of = |lines: &[&str], heading: &str| -> Vec<String> {
        let scopes = Scopes::of_hunk(lines, heading, Language::Indented);
        (0..lines.len())
            .map(|line| scopes.at(line).map_or(String::new(), |scope| scope.name.clone()))
            .collect()
    };
    let lines = ["        x()", "", "    def g(self):", "        y()"];
    assert_eq!(of(&lines, "class A(B):"), ["A", "A", "A.g", "A.g"]);
    // Inside of a function, a definition is no scope; without a heading it may be one.
    assert_eq!(of(&["    x()", "    def g():", "        y()"], "def f():"), ["f", "f", "f"]);
    assert_eq!(of(&lines, ""), ["", "", "g", "g"]);
    // A bracket in the first column ends what the heading names, and a comment says nothing.
    assert_eq!(of(&["}", "", "// G", "func g() {"], "func f() {"), ["f", "", "", "g"]);
}
