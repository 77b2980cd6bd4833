//! Finds in a history what a change builds on, and explains what a compiler misses without it.

use std::fs;
use std::path::Path;
use std::process::Command;

use handoff_kernel::build::{BuildLog, Diagnostic};
use handoff_kernel::patch::{Input, Limits as PatchLimits, Series, load};
use handoff_kernel::port::{Options, port};
use handoff_kernel::prerequisite::{Advice, Limits, Missing, choose, explain};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

const HEADER: &str = "struct queue {\n\tint head;\n\tint limit;\n};\n\nint queue_send(struct queue *q);\n";
const CODE: &str = "#include <linux/queue.h>\n\nint queue_push(struct queue *q)\n{\n\tif (!q)\n\t\treturn -1;\n\tq->head++;\n\
    \treturn queue_send(q);\n}\n\nint queue_pop(struct queue *q)\n{\n\treturn q->head--;\n}\n";

/// A repository in which a feature builds on two of the commits before it.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(TempDir::new().expect("a folder"));
        repository.git(&["init", "-q"]);
        repository.write("include/linux/queue.h", HEADER);
        repository.write("net/queue.c", CODE);
        repository.commit("import");
        let code = CODE.replace("\treturn q->head--;\n", "\tq->limit = 3;\n\treturn q->head--;\n");
        repository.write("net/queue.c", &code);
        repository.commit("queue: forget the limit");
        let header = HEADER.replace("int limit;\n", "int limit;\n\tint corked;\n");
        repository.write("include/linux/queue.h", &header);
        repository.commit("queue: count what waits");
        let code = code.replace("\tq->head++;\n", "\tqueue_lock(q);\n\tq->head += 1;\n\tqueue_unlock(q);\n");
        repository.write("net/queue.c", &code);
        repository.commit("queue: lock");
        let code = code.replace("\tq->head += 1;\n", "\tif (q->corked)\n\t\treturn 0;\n\tq->head += 1;\n");
        repository.write("net/queue.c", &code);
        repository.commit("queue: cork");
        repository
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, content).expect("written");
    }

    fn git(&self, arguments: &[&str]) {
        let status = Command::new("git")
            .current_dir(self.0.path())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .status();
        assert!(status.expect("git runs").success());
    }

    fn commit(&self, subject: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", subject]);
    }

    fn feature(&self) -> Series {
        let input = Input::Range { repository: self.0.path().to_owned(), range: "HEAD^!".to_owned() };
        load(&input, &PatchLimits::default()).expect("a commit")
    }
}

/// The tree as it was imported.
fn old_tree() -> TempDir {
    let tree = TempDir::new().expect("a folder");
    for (name, content) in [("include/linux/queue.h", HEADER), ("net/queue.c", CODE)] {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, content).expect("written");
    }
    tree
}

#[test]
fn only_the_commits_that_a_hunk_needs_are_chosen() {
    require!(require_tool("git"));
    let (repository, tree) = (Repository::new(), old_tree());
    let series = repository.feature();
    // Alike is not enough here: a hunk without its lines is in conflict.
    let options = Options { dry_run: true, confidence: 0.95, ..Options::default() };
    let alone = port(&series, tree.path(), &options).expect("it can be read");
    assert_eq!(alone.counts.conflict, 1, "{alone}");
    let found =
        choose(&series, repository.0.path(), tree.path(), &options, Limits::default()).expect("chosen");
    let subjects: Vec<&str> = found.chosen.iter().map(|one| one.commit.subject.as_str()).collect();
    assert_eq!(subjects, ["queue: lock"], "not the one beside it, nor the import");
    assert_eq!(found.conflicts, (1, 0));
    assert!(found.chosen[0].because.contains("hunk 1 of `net/queue.c` expects"), "{:?}", found.chosen);
    let report = port(&found.series, tree.path(), &Options::default()).expect("ported");
    assert!(report.is_clean(), "{report}");
    let text = fs::read_to_string(tree.path().join("net/queue.c")).expect("there");
    assert!(text.contains("queue_lock(q);\n\tif (q->corked)") && !text.contains("limit = 3"), "{text}");

    let fits = choose(&series, repository.0.path(), repository.0.path(), &options, Limits::default());
    assert!(fits.expect("nothing lacks").chosen.is_empty());
    let none = choose(&series, Path::new("/no/such"), tree.path(), &options, Limits::default());
    assert!(none.is_err_and(|why| why.to_string().contains("history")));
}

fn error(text: &str) -> Diagnostic {
    BuildLog::parse(text).errors.remove(0)
}

#[test]
fn an_error_names_the_commit_or_the_lines_that_may_go() {
    require!(require_tool("git"));
    let (repository, tree) = (Repository::new(), old_tree());
    let series = repository.feature();
    let source = Some(repository.0.path());
    let member = error("net/queue.c:8:8: error: 'struct queue' has no member named 'corked'\n");
    let explained = explain(&member, &series, source, tree.path()).expect("something lacks");
    let Advice::Take { commit, file } = &explained.advice else { panic!("{explained}") };
    assert_eq!(
        (commit.subject.as_str(), file.as_str()),
        ("queue: count what waits", "include/linux/queue.h")
    );
    assert_eq!(explained.uses.len(), 1);
    assert_eq!(explained.uses[0].line, "if (q->corked)");
    let text = explained.to_string();
    assert!(text.contains("no member `corked`") && text.contains("^!") && text.contains("hunk 1"), "{text}");

    // What the tree has is not taken from anywhere.
    let name = error("net/x.c:1:1: error: implicit declaration of function 'queue_send'\n");
    let explained = explain(&name, &series, source, tree.path()).expect("something lacks");
    assert_eq!(explained.advice, Advice::Include("include/linux/queue.h".to_owned()));
    let unknown = error("net/x.c:1:1: error: 'nowhere_to_be_found' undeclared\n");
    let explained = explain(&unknown, &series, source, tree.path()).expect("something lacks");
    assert_eq!((explained.advice, explained.uses.len()), (Advice::Unknown, 0));
    assert_eq!(explained.missing, Missing::Name("nowhere_to_be_found".to_owned()));
    let other = error("net/x.c:1:1: error: expected ';' before '}' token\n");
    assert!(explain(&other, &series, source, tree.path()).is_none());
}
