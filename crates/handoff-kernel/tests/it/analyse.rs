//! Analyses a change that has one of each kind of interface change, and what the document says of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use handoff_kernel::analyse::{Analysis, Kind, Mark, Options, Relation, Rule, What, analyse};
use handoff_kernel::patch::{Limits, Series, parse};
use handoff_kernel::port::{Options as PortOptions, port};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

/// The files of the fixture: path, before, after.
const FILES: [(&str, &str, &str); 9] = [
    (
        "net/queue/queue.c",
        "#include <linux/queue.h>\n\nstatic int queue_xmit(struct queue *q, int flags)\n{\n\treturn dev_send(q, flags);\n}\n\n\
         int queue_push(struct queue *q, int flags)\n{\n\tif (!q)\n\t\treturn -EINVAL;\n\treturn queue_xmit(q, flags);\n}\n\n\
         static int queue_sendmsg(struct queue *q, int flags)\n{\n\treturn queue_push(q, flags);\n}\n\n\
         static void queue_old(struct queue *q)\n{\n\tq->head = 0;\n}\n\n\
         const struct queue_ops queue_ops = {\n\t.sendmsg = queue_sendmsg,\n};\n\n\
         static const struct of_device_id queue_ids[] = {\n\t{ .compatible = \"vendor,queue\" },\n\t{ }\n};\n\n\
         MODULE_LICENSE(\"GPL\");\n",
        "#include <linux/queue.h>\n\nstatic int queue_cork = 1;\nmodule_param(queue_cork, int, 0644);\n\n\
         static bool queue_should_cork(const struct queue *q, int goal)\n{\n\treturn queue_cork && q->corked < goal;\n}\n\n\
         static int queue_xmit(struct queue *q, int flags)\n{\n\treturn dev_send(q, flags);\n}\n\n\
         int queue_push(struct queue *q, int flags, int goal)\n{\n\tif (!q)\n\t\treturn -EINVAL;\n\tif (queue_should_cork(q, goal))\n\t\treturn 0;\n\treturn queue_xmit(q, flags);\n}\n\
         EXPORT_SYMBOL_GPL(queue_push);\n\n\
         static int queue_sendmsg(struct queue *q, int flags)\n{\n\treturn queue_push(q, flags, q->limit);\n}\n\n\
         SYSCALL_DEFINE2(queue_cork, int, fd, int, on)\n{\n\treturn 0;\n}\n\n\
         const struct queue_ops queue_ops = {\n\t.sendmsg = queue_sendmsg,\n};\n\n\
         static const struct of_device_id queue_ids[] = {\n\t{ .compatible = \"vendor,queue\" },\n\t{ .compatible = \"vendor,queue-v2\" },\n\t{ }\n};\n\n\
         MODULE_LICENSE(\"GPL\");\n",
    ),
    (
        "net/queue/sysctl.c",
        "static struct ctl_table queue_table[] = {\n\t{\n\t\t.procname = \"queue_max\",\n\t\t.mode = 0644,\n\t},\n\t{ }\n};\n",
        "static struct ctl_table queue_table[] = {\n\t{\n\t\t.procname = \"queue_max\",\n\t\t.mode = 0644,\n\t},\n\t{\n\t\t.procname = \"queue_cork\",\n\t\t.data = &sysctl_queue_cork,\n\t\t.mode = 0644,\n\t},\n\t{ }\n};\n",
    ),
    (
        "net/queue/proc.c",
        "static const struct snmp_mib list[] = {\n\tSNMP_MIB_ITEM(\"Sent\", MIB_SENT),\n\tSNMP_MIB_SENTINEL\n};\n",
        "static const struct snmp_mib list[] = {\n\tSNMP_MIB_ITEM(\"Sent\", MIB_SENT),\n\tSNMP_MIB_ITEM(\"Corked\", MIB_CORKED),\n\tSNMP_MIB_SENTINEL\n};\n",
    ),
    (
        "net/queue/Kconfig",
        "config QUEUE\n\tbool \"queues\"\n\thelp\n\t  Say Y.\n",
        "config QUEUE\n\tbool \"queues\"\n\thelp\n\t  Say Y.\n\nconfig QUEUE_CORK\n\tbool \"corking\"\n\tdepends on QUEUE\n",
    ),
    (
        "include/linux/queue.h",
        "struct queue {\n\tint head;\n\tint limit;\n};\n\nint queue_push(struct queue *q, int flags);\n",
        "struct queue {\n\tint head;\n\tint limit;\n\tint corked;\t/* small ones that wait */\n};\n\nint queue_push(struct queue *q, int flags, int goal);\n",
    ),
    (
        "include/uapi/linux/queue.h",
        "#define QUEUE_F_NONE 0\n",
        "#define QUEUE_F_NONE 0\n#define QUEUE_F_CORK 1\n",
    ),
    (
        "include/trace/events/queue.h",
        "TRACE_EVENT(queue_push,\n\tTP_PROTO(int len),\n\tTP_ARGS(len)\n);\n",
        "TRACE_EVENT(queue_push,\n\tTP_PROTO(int len),\n\tTP_ARGS(len)\n);\n\nTRACE_EVENT(queue_cork,\n\tTP_PROTO(int len),\n\tTP_ARGS(len)\n);\n",
    ),
    (
        "arch/x86/entry/syscalls/syscall_64.tbl",
        "0\tcommon\tread\tsys_read\n",
        "0\tcommon\tread\tsys_read\n1\tcommon\tqueue_cork\tsys_queue_cork\n",
    ),
    (
        "Documentation/devicetree/bindings/net/queue.yaml",
        "properties:\n  reg:\n    maxItems: 1\n",
        "properties:\n  reg:\n    maxItems: 1\n  vendor,cork-goal:\n    maxItems: 1\n",
    ),
];

const MAINTAINERS: &str = "LIST\n\nQUEUES\nM:\tQ <q@example.org>\nL:\tqueues@example.org\nS:\tMaintained\nF:\tnet/queue/\n\
    F:\tinclude/linux/queue.h\n\nTHE REST\nM:\tL <l@example.org>\nS:\tBuried\nF:\t*\nF:\t*/\n";

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The tree before the change, and the change.
fn fixture() -> (TempDir, Series) {
    let (work, tree) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (name, before, after) in FILES {
        write(&work.path().join("a"), name, before);
        write(&work.path().join("b"), name, after);
        write(tree.path(), name, before);
    }
    write(tree.path(), "MAINTAINERS", MAINTAINERS);
    write(tree.path(), "net/queue/device.c", "int dev_send(struct queue *q, int flags)\n{\n\treturn 0;\n}\n");
    write(tree.path(), "net/queue/defaults.c", "int sysctl_queue_cork __read_mostly = 9;\n");
    write(tree.path(), "fs/user.c", "int user_write(struct queue *q)\n{\n\treturn queue_push(q, 0);\n}\n");
    let output = Command::new("git")
        .current_dir(work.path())
        .args(["diff", "--no-index", "--no-prefix", "--no-color", "a", "b"])
        .output()
        .unwrap();
    let head = "From f54b311142a92ea2e42598e347b84e1655caf8e3 Mon Sep 17 00:00:00 2001\nFrom: D <d@example.org>\n\
        Subject: [PATCH] queue: cork small packets\n\nSmall packets cost <more> than they should.\n\n\
        Link: https://example.org/cork\nFixes: 0123456789ab (\"queue: add\")\n---\n";
    let text = [head.as_bytes(), &output.stdout].concat();
    (tree, parse(&text, &Limits::default()).unwrap())
}

fn has(analysis: &Analysis, kind: Kind, what: What, name: &str) -> bool {
    analysis
        .interfaces
        .iter()
        .any(|change| (change.kind, change.what, change.name.as_str()) == (kind, what, name))
}

#[test]
fn every_kind_of_interface_change_is_found() {
    require!(require_tool("git"));
    let (tree, series) = fixture();
    let analysis = analyse(&series, tree.path(), &Options::default()).unwrap();
    for (kind, what, name) in [
        (Kind::Member, What::Added, "struct queue.corked"),
        (Kind::Function, What::Added, "queue_should_cork"),
        (Kind::Function, What::Changed, "queue_push"),
        (Kind::Function, What::Removed, "queue_old"),
        (Kind::Export, What::Added, "queue_push"),
        (Kind::Sysctl, What::Added, "queue_cork"),
        (Kind::Counter, What::Added, "Corked"),
        (Kind::Kconfig, What::Added, "CONFIG_QUEUE_CORK"),
        (Kind::Syscall, What::Added, "queue_cork"),
        (Kind::Syscall, What::Added, "queue_cork (table)"),
        (Kind::Uapi, What::Added, "QUEUE_F_CORK"),
        (Kind::Tracepoint, What::Added, "queue_cork"),
        (Kind::Parameter, What::Added, "queue_cork"),
        (Kind::DeviceTree, What::Added, "vendor,queue-v2"),
        (Kind::DeviceTree, What::Added, "vendor,cork-goal"),
    ] {
        assert!(has(&analysis, kind, what, name), "{kind:?} {what:?} {name}: {:#?}", analysis.interfaces);
    }
    // The variable of the sysctl is defined in another file of the folder.
    let sysctl = analysis.interfaces.iter().find(|one| one.kind == Kind::Sysctl).unwrap();
    assert!(sysctl.after.as_ref().unwrap().ends_with("; starts as 9"), "{sysctl:?}");
    // Nothing that stayed is called a change.
    assert!(
        !analysis
            .interfaces
            .iter()
            .any(|change| ["queue_max", "Sent", "vendor,queue", "QUEUE_F_NONE"].contains(&&*change.name))
    );
    let push = analysis
        .interfaces
        .iter()
        .find(|change| change.name == "queue_push" && change.kind == Kind::Function)
        .unwrap();
    assert!(
        push.before.as_ref().unwrap().ends_with("int flags)")
            && push.after.as_ref().unwrap().ends_with("int goal)")
    );
}

#[test]
fn functions_flow_and_keys_are_found() {
    require!(require_tool("git"));
    let (tree, series) = fixture();
    let options = Options { also: vec!["fs".to_owned()], ..Options::default() };
    let analysis = analyse(&series, tree.path(), &options).unwrap();
    let mark = |name: &str| {
        analysis.functions.iter().find(|function| function.name == name).map(|function| function.mark)
    };
    assert_eq!(mark("queue_should_cork"), Some(Mark::Added));
    assert_eq!(mark("queue_push"), Some(Mark::Changed));
    assert_eq!(mark("queue_old"), Some(Mark::Removed));
    assert_eq!(mark("queue_xmit"), None);
    let edge = |from: &str, to: &str| {
        analysis.graph.edges.iter().find(|edge| edge.from == from && edge.to == to).map(|edge| edge.mark)
    };
    assert_eq!(edge("queue_push", "queue_should_cork"), Some(Mark::Added));
    assert_eq!(edge("queue_push", "queue_xmit"), Some(Mark::Same));
    assert_eq!(edge("queue_sendmsg", "queue_push"), Some(Mark::Same));
    let layer = |name: &str| analysis.graph.vertices.iter().find(|vertex| vertex.name == name).unwrap().layer;
    assert!(layer("queue_sendmsg") < layer("queue_push") && layer("queue_push") < layer("queue_should_cork"));
    let rules = |name: &str| -> Vec<Rule> {
        let key = analysis.key_functions.iter().find(|key| key.name == name).unwrap();
        key.reasons.iter().map(|(rule, _)| *rule).collect()
    };
    assert!(rules("queue_sendmsg").contains(&Rule::Entry));
    assert!(rules("queue_should_cork").contains(&Rule::Core));
    assert!(rules("queue_push").contains(&Rule::Interaction), "{:?}", analysis.key_functions);
    assert_eq!(analysis.subsystems[0].name, "QUEUES");
    assert_eq!(analysis.related[0].relation, Relation::Fixed);
}

#[test]
fn the_document_has_the_outline_and_invents_nothing() {
    require!(require_tool("git"));
    let (tree, series) = fixture();
    let analysis = analyse(&series, tree.path(), &Options::default()).unwrap();
    let (markdown, html) = (analysis.markdown(), analysis.html());
    // A terminal shows no pictures.
    assert!(markdown.contains("<svg") && !analysis.text().contains("<svg"));
    assert!(analysis.text().contains("--html FILE"));
    let mut at = 0;
    for heading in [
        "## 1 The feature",
        "## 2 History",
        "## 3 Differences",
        "### 3.1 Interface",
        "### 3.2 Code",
        "### 3.3 Call flow",
        "### 3.4 Key functions",
        "### 3.5 Modules",
        "## 4 Summary",
        "## References",
    ] {
        at +=
            markdown[at..].find(heading).unwrap_or_else(|| panic!("no `{heading}` in its place\n{markdown}"));
    }
    assert!(markdown.contains("> Small packets cost &lt;more> than they should."));
    assert!(html.contains("Small packets cost &lt;more&gt; than they should."));
    assert!(markdown.matches("To be written by a person:").count() >= 5);
    assert!(
        html.contains("<svg ")
            && html.contains("queue_should_cork()")
            && html.contains(">before<")
            && html.contains(">after<")
    );
    assert!(!html.contains("<script") && !html.contains("src="));
    assert!(markdown.contains("https://example.org/cork"));
}

#[test]
fn a_tree_that_holds_the_change_gives_the_same() {
    require!(require_tool("git"));
    let (tree, series) = fixture();
    let before = analyse(&series, tree.path(), &Options::default()).unwrap();
    let report = port(&series, tree.path(), &PortOptions::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    let after = analyse(&series, tree.path(), &Options::default()).unwrap();
    assert!(after.present && !before.present);
    assert_eq!(after.interfaces, before.interfaces);
    assert_eq!(after.graph, before.graph);
}

#[test]
fn the_cache_changes_nothing_and_survives_damage() {
    require!(require_tool("git"));
    let (tree, series) = fixture();
    let cache = TempDir::new().unwrap();
    let options = Options { cache: Some(cache.path().to_owned()), ..Options::default() };
    let json = |analysis: &Analysis| serde_json::to_string(analysis).unwrap();
    let first = json(&analyse(&series, tree.path(), &options).unwrap());
    let file = fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(json(&analyse(&series, tree.path(), &options).unwrap()), first);
    fs::write(&file, "{ damaged").unwrap();
    assert_eq!(json(&analyse(&series, tree.path(), &options).unwrap()), first);
    assert!(fs::read(&file).unwrap().len() > 100);
}

#[test]
fn hunks_that_do_not_fit_are_counted() {
    require!(require_tool("git"));
    let (tree, series) = fixture();
    write(tree.path(), "net/queue/proc.c", "int nothing_of_it;\n");
    let analysis = analyse(&series, tree.path(), &Options::default()).unwrap();
    let stat = analysis.stats.iter().find(|stat| stat.file == "net/queue/proc.c").unwrap();
    assert_eq!(stat.unfit, 1);
    assert!(analysis.markdown().contains("1 hunk does not fit this tree"));
}

fn tree_of(files: &[(&str, &str)]) -> TempDir {
    let tree = TempDir::new().unwrap();
    files.iter().for_each(|(path, content)| write(tree.path(), path, content));
    tree
}

/// Analyses the change of one file in a tree that has nothing else.
fn of_file(path: &str, before: &str, after: &str) -> Analysis {
    let (work, tree) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(&work.path().join("a"), path, before);
    write(&work.path().join("b"), path, after);
    write(tree.path(), path, before);
    let output = Command::new("git")
        .current_dir(work.path())
        .args(["diff", "--no-index", "--no-prefix", "--no-color", "a", "b"])
        .output()
        .unwrap();
    let series = parse(&output.stdout, &Limits::default()).unwrap();
    analyse(&series, tree.path(), &Options::default()).unwrap()
}

#[test]
fn variables_are_no_functions() {
    require!(require_tool("git"));
    let before = "#include <linux/q.h>\n\nint q_run(void)\n{\n\treturn 0;\n}\n";
    let added = "int sysctl_q_cork __read_mostly = 1;\nEXPORT_SYMBOL(sysctl_q_cork);\nDEFINE_PER_CPU(int, q_size);\nstatic int q_own;\n\
        static int (*q_hook)(void);\n\n";
    let analysis = of_file("kernel/q.c", before, &before.replace("int q_run", &format!("{added}int q_run")));
    assert!(has(&analysis, Kind::Variable, What::Added, "sysctl_q_cork"), "{:#?}", analysis.interfaces);
    assert!(has(&analysis, Kind::Variable, What::Added, "q_size"), "{:#?}", analysis.interfaces);
    assert!(analysis.interfaces.iter().all(|one| one.kind != Kind::Function && one.name != "q_own"));
    let header = "int q_run(void);\n";
    let analysis = of_file(
        "include/linux/q.h",
        header,
        &format!("{header}extern int sysctl_q_cork;\nextern int q_stop(void);\n"),
    );
    assert!(has(&analysis, Kind::Variable, What::Added, "sysctl_q_cork"), "{:#?}", analysis.interfaces);
    assert!(has(&analysis, Kind::Function, What::Added, "q_stop"), "{:#?}", analysis.interfaces);
    assert_eq!(analysis.interfaces.len(), 2);
}

#[test]
fn code_that_comes_under_an_else_is_not_removed() {
    require!(require_tool("git"));
    let old = "static int q_scale(int n)\n{\n\treturn n * 2;\n}\n\nstatic int q_show(int n)\n{\n\treturn q_scale(n);\n}\n";
    let new = format!(
        "#ifdef CONFIG_Q_NEW\nstatic int q_burst(int n)\n{{\n\treturn n;\n}}\n#else /* !CONFIG_Q_NEW */\n{old}#endif /* CONFIG_Q_NEW */\n"
    );
    let analysis = of_file("kernel/q.c", old, &new);
    let marks: Vec<(&str, Mark)> = analysis.functions.iter().map(|one| (&*one.name, one.mark)).collect();
    assert_eq!(marks, [("q_burst", Mark::Added)], "{:#?}", analysis.interfaces);
    assert!(analysis.interfaces.iter().all(|one| one.what == What::Added), "{:#?}", analysis.interfaces);
}

#[test]
fn a_call_behind_a_label_is_no_function() {
    require!(require_tool("git"));
    let before = "int scan(struct q *q)\n{\n\tif (!q)\n\t\treturn 0;\n\tmemset(q->rows, 0, q->size);\n\treturn 1;\n}\n";
    let after = before.replace("\tmemset", "out:\n\tmemset").replace("return 0", "goto out");
    let analysis = of_file("kernel/q.c", before, &after);
    assert!(analysis.interfaces.is_empty(), "{:#?}", analysis.interfaces);
    assert_eq!(analysis.functions.len(), 1, "{:#?}", analysis.functions);
}

#[test]
fn each_definition_of_a_function_is_compared_with_its_own() {
    require!(require_tool("git"));
    let file = |stub: &str, value: &str| {
        format!(
            "#ifdef CONFIG_TICK\nstatic void tick(int a)\n{{\n\tstop(a);\n}}\n#endif\n\nint other(int a)\n{{\n\ttick(a);\n\treturn {value};\n}}\n\n#ifndef CONFIG_TICK\nstatic inline void tick(int a)\n{{\n{stub}}}\n#endif\n"
        )
    };
    let changed = |stub: &str, value: &str| -> Vec<(String, usize)> {
        let analysis = of_file("kernel/tick.c", &file("", "a"), &file(stub, value));
        analysis.functions.iter().map(|function| (function.name.clone(), function.lines)).collect()
    };
    assert_eq!(changed("", "a + 1"), [("other".to_owned(), 2)]);
    assert_eq!(changed("\twarn(a);\n", "a"), [("tick".to_owned(), 1)]);
}

#[test]
fn lines_are_counted_where_they_stand() {
    require!(require_tool("git"));
    // The heading of the second hunk is a label, that of the third names the function above.
    let body: String = (0..12).map(|n| format!("\tstep_{n}(q);\n")).collect();
    let file = format!(
        "int __sched q_send(struct q *q)\n\t__acquires(&q->lock)\n{{\n{body}out_err:\n{body}\treturn 0;\n}}\n\nstatic int q_next(struct q *q)\n{{\n\tone(q);\n\treturn 1;\n}}\n\nstatic struct row rows[] = {{\n\t{{ 1 }},\n\t{{ 2 }},\n}};\n"
    );
    let mut parts = file.splitn(3, "\tstep_5(q);\n");
    let (a, b, c) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let after =
        format!("{a}\tstep_5(q, q->limit);\n{b}\tstep_5(q);\n\tq->sent++;\n\tq->left = q->limit;\n{c}");
    let after = after.replace("\tone(q);\n", "").replace("\t{ 2 },\n", "\t{ 2 },\n\t{ 3 },\n\t{ 4 },\n");
    let analysis = of_file("net/q.c", &file, &after);
    let lines: Vec<(&str, usize)> = analysis.functions.iter().map(|one| (&*one.name, one.lines)).collect();
    assert_eq!(lines, [("q_send", 4), ("q_next", 1)]);
    let key = analysis.key_functions.iter().find(|key| key.name == "q_send").unwrap();
    assert_eq!(key.members.0, ["limit"]);
    assert_eq!(key.members.1, ["sent", "left"]);
    assert!(
        key.diff.contains(&"+\tq->sent++;".to_owned()) && !key.diff.join("").contains("{ 3 }"),
        "{:?}",
        key.diff
    );
    assert!(analysis.html().contains("<span class=\"line more\">+\tq-&gt;sent++;</span>"));
    assert!(analysis.markdown().contains("```diff\n"));
}

#[test]
fn files_of_debugfs_and_sysctls_have_their_path() {
    require!(require_tool("git"));
    let before = "static struct ctl_table q_table[] = {\n\t{\n\t\t.procname = \"q_max\",\n\t\t.mode = 0644,\n\t},\n};\n\n\
        void q_init(void)\n{\n\tregister_net_sysctl(&init_net, \"net/q\", q_table);\n\tdebugfs_create_u32(\"slice_ns\", 0644, dir, &q_slice);\n}\n";
    let row = "\t{\n\t\t.procname = \"q_cork\",\n\t\t.data = &q_cork,\n\t\t.mode = 0644,\n\t},\n};\n";
    let after = format!(
        "static int q_cork = 4;\n{}",
        before.replacen("};\n", row, 1).replace("0644, dir", "0444, dir")
    );
    let analysis = of_file("net/q/sysctl.c", before, &after);
    let sysctl = analysis.interfaces.iter().find(|one| one.kind == Kind::Sysctl).unwrap();
    assert_eq!((sysctl.what, &*sysctl.name), (What::Added, "net.q.q_cork"));
    assert!(sysctl.after.as_ref().unwrap().ends_with("; starts as 4"), "{sysctl:?}");
    let debugfs = analysis.interfaces.iter().find(|one| one.kind == Kind::Debugfs).unwrap();
    assert_eq!((debugfs.what, &*debugfs.name), (What::Changed, "slice_ns"));
    assert!(debugfs.after.as_ref().unwrap().contains("0444"), "{debugfs:?}");
}

#[test]
fn a_function_of_two_tables_is_said_to_be_of_both() {
    require!(require_tool("git"));
    let before = "int q_send(int n)\n{\n\treturn n;\n}\n\nconst struct ops dgram_ops = {\n\t.send = q_send,\n};\nconst struct ops stream_ops = {\n\t.send = q_send,\n};\n";
    let analysis = of_file("net/q.c", before, &before.replace("return n;", "return n + 1;"));
    let reasons = &analysis.key_functions[0].reasons;
    assert!(
        reasons.iter().any(|(_, why)| why.contains("`.send` of `dgram_ops`, `stream_ops`")),
        "{reasons:?}"
    );
}

#[test]
fn a_call_through_a_table_is_no_call_of_the_one_function_that_stands_in_it() {
    require!(require_tool("git"));
    let before = "int q_send(struct sock *sk)\n{\n\treturn 0;\n}\n\nconst struct ops q_ops = {\n\t.send = q_send,\n};\n";
    let after = before.replace("return 0;", "return sk->ops->send(sk);");
    let analysis = of_file("net/q.c", before, &after);
    assert!(analysis.key_functions[0].calls.is_empty(), "{:?}", analysis.key_functions[0].calls);
    let text = analysis.markdown();
    assert!(text.contains("`q_send` now calls through `.send`, which may be `q_send`"), "{text}");
    assert!(!text.contains("now calls `q_send`"), "{text}");
}

#[test]
fn a_large_picture_shows_what_changes_and_the_ways_to_it() {
    require!(require_tool("git"));
    let mut before = String::new();
    for n in 0..60 {
        before.push_str(&format!("static void leaf_{n}(int a)\n{{\n\tuse(a);\n}}\n\n"));
    }
    let calls: String = (0..60).map(|n| format!("\tleaf_{n}(a);\n")).collect();
    before.push_str(&format!("static int deep(int a)\n{{\n{calls}\treturn a;\n}}\n\n"));
    before.push_str("static int middle(int a)\n{\n\treturn deep(a);\n}\n\nint top(int a)\n{\n\treturn middle(a);\n}\nEXPORT_SYMBOL(top);\n");
    let analysis = of_file("net/q.c", &before, &before.replace("\treturn a;", "\treturn a + 1;"));
    let names: Vec<&str> = analysis.graph.vertices.iter().map(|vertex| &*vertex.name).collect();
    assert_eq!(names, ["top", "middle", "deep"]);
    assert_eq!((analysis.graph.by_file, analysis.graph.folded), (false, 60));
    assert!(analysis.markdown().contains("60 functions beside these ways"));
}

#[test]
fn documents_of_the_change_are_quoted() {
    require!(require_tool("git"));
    let before = "q_max - INTEGER\n\tHow many.\n";
    let analysis = of_file(
        "Documentation/networking/q.txt",
        before,
        &format!("{before}\nq_cork - BOOLEAN\n\tWait <a bit>.\n"),
    );
    assert!(analysis.html().contains("Wait &lt;a bit&gt;."));
    assert!(analysis.markdown().contains("What it adds to `Documentation/networking/q.txt`"));
}

#[test]
fn a_debugfs_file_that_is_another_one_under_a_condition_has_changed() {
    require!(require_tool("git"));
    let call = |mode: &str| format!("\tdebugfs_create_u32(\"slice_ns\", {mode}, dir, &q_slice);\n");
    let before = format!("static int q_init(void)\n{{\n{}\treturn 0;\n}}\n", call("0644"));
    let both = format!("#ifdef CONFIG_CORK\n{}#else\n{}#endif\n", call("0444"), call("0644"));
    let analysis = of_file("kernel/q.c", &before, &before.replace(&call("0644"), &both));
    let debugfs = analysis.interfaces.iter().find(|one| one.kind == Kind::Debugfs).unwrap();
    assert_eq!((debugfs.what, &*debugfs.name), (What::Changed, "slice_ns"));
    let after = debugfs.after.as_ref().unwrap();
    assert!(after.starts_with("mode 0444, ") && after.contains(" or mode 0644, "), "{after}");
}

#[test]
fn a_function_and_a_variable_are_listed_once_by_their_definition() {
    require!(require_tool("git"));
    let tree = tree_of(&[
        ("include/linux/q.h", "int q_old(void);\n"),
        ("kernel/q.c", "int q_old(void)\n{\n\treturn 0;\n}\n"),
    ]);
    let patch = "--- a/include/linux/q.h\n+++ b/include/linux/q.h\n@@ -1 +1,3 @@\n int q_old(void);\n+extern int q_limit;\n+int q_new(int n);\n\
        --- a/kernel/q.c\n+++ b/kernel/q.c\n@@ -1,4 +1,11 @@\n+int q_limit = 3;\n+\n int q_old(void)\n {\n \treturn 0;\n }\n+\n+int q_new(int n)\n+{\n+\treturn n;\n+}\n";
    let analysis =
        analyse(&parse(patch.as_bytes(), &Limits::default()).unwrap(), tree.path(), &Options::default())
            .unwrap();
    let rows: Vec<(Kind, &str, &str)> =
        analysis.interfaces.iter().map(|one| (one.kind, &*one.name, &*one.file)).collect();
    assert_eq!(rows, [(Kind::Function, "q_new", "kernel/q.c"), (Kind::Variable, "q_limit", "kernel/q.c")]);
    assert_eq!(analysis.interfaces[1].after.as_deref(), Some("int q_limit = 3"));
    // A function that only gets a prototype is not a new one.
    let patch = "--- a/include/linux/q.h\n+++ b/include/linux/q.h\n@@ -1 +1,2 @@\n int q_old(void);\n+int q_other(void);\n\
        --- a/kernel/q.c\n+++ b/kernel/q.c\n@@ -1,2 +1,2 @@\n-static int q_other(void)\n+int q_other(void)\n {\n";
    let tree = tree_of(&[
        ("include/linux/q.h", "int q_old(void);\n"),
        ("kernel/q.c", "static int q_other(void)\n{\n\treturn 0;\n}\n"),
    ]);
    let series = parse(patch.as_bytes(), &Limits::default()).unwrap();
    let analysis = analyse(&series, tree.path(), &Options::default()).unwrap();
    let rows: Vec<(What, &str)> = analysis.interfaces.iter().map(|one| (one.what, &*one.file)).collect();
    assert_eq!(rows, [(What::Changed, "kernel/q.c")]);
}

#[test]
fn what_is_not_read_is_named() {
    require!(require_tool("git"));
    // Only the first and the last half of a condition are read.
    let hidden = "#if A\nint q_one(void)\n{\n\treturn 1;\n}\n#elif B\nint q_two(void)\n{\n\treturn 2;\n}\n#else\nint q_three(void)\n{\n\treturn 3;\n}\n#endif\n";
    let tree = tree_of(&[("kernel/q.c", hidden), ("kernel/entry.S", "\tret\n"), ("kernel/x.bin", "x\n")]);
    let patch = "diff --git a/kernel/x.bin b/kernel/x.bin\nindex 1234567..2345678 100644\nBinary files a/kernel/x.bin and b/kernel/x.bin differ\n\
        diff --git a/kernel/entry.S b/kernel/entry.S\n--- a/kernel/entry.S\n+++ b/kernel/entry.S\n@@ -1 +1,2 @@\n+\tnop\n \tret\n\
        diff --git a/kernel/q.c b/kernel/q.c\n--- a/kernel/q.c\n+++ b/kernel/q.c\n@@ -1,5 +1,5 @@\n #if A\n int q_one(void)\n {\n-\treturn 1;\n+\treturn 4;\n }\n";
    let limits = Limits { keep_going: true, ..Limits::default() };
    let series = parse(patch.as_bytes(), &limits).unwrap();
    let options = Options { also: vec!["drivers/none".to_owned()], ..Options::default() };
    let analysis = analyse(&series, tree.path(), &options).unwrap();
    let named = |file: &str| {
        let found = analysis.unread.iter().find(|one| one.file == file);
        found.unwrap_or_else(|| panic!("{file} is not in {:#?}", analysis.unread))
    };
    assert!(named("kernel/x.bin").why.contains("binary"));
    assert!(named("kernel/entry.S").why.contains("not C"));
    assert_eq!(named("kernel/q.c").functions, [("q_two".to_owned(), 7)]);
    assert!(named("drivers/none").functions.is_empty());
    let text = analysis.text();
    assert!(text.contains("`q_two` (7)") && text.contains("kernel/entry.S"), "{text}");
}
