//! Builds a tree that speaks Kbuild's language but is ready in a moment.

use std::path::Path;

use handoff_guest::Stopper;
use handoff_kernel::build::{Base, BuildError, Built, KernelArch, KernelBuild};
use handoff_testkit::{require, require_tool};

use crate::tiny::{Tree, tools};

fn build(tree: &Tree) -> KernelBuild {
    let arch = KernelArch::host().expect("required before");
    KernelBuild::new(tree.path("tree"), tree.path("build")).arch(arch).jobs(1)
}

fn functions(built: &Built) -> String {
    let object = built.config.parent().expect("the folder").join("fair.o");
    let output = std::process::Command::new("nm").arg(object).output().expect("binutils");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_kernel_is_built_outside_its_tree_with_what_was_asked_for() {
    require!(tools());
    let tree = Tree::new();
    let build = build(&tree).fragment("net", "CONFIG_NET=y\nCONFIG_BINDER=y\n").expect("good");
    let build = build.fragment("more", "CONFIG_NAME=\"a b\"\n# CONFIG_BASE is not set\n").expect("good");
    let built = build.run().expect("built");
    assert_eq!(built.release, "6.1.0-test");
    assert_eq!(built.compiled, 2);
    assert!(
        built.image.starts_with(tree.path("build").canonicalize().expect("there")) || built.image.is_file()
    );
    let config = std::fs::read_to_string(&built.config).expect("a configuration");
    for line in ["CONFIG_NET=y", "CONFIG_BINDER=y", "CONFIG_NAME=\"a b\"", "# CONFIG_BASE is not set"] {
        assert!(config.contains(line), "{line} in {config}");
    }
    assert!(!tree.path("tree/.config").exists());
    let again = build.run().expect("built again");
    assert_eq!(again.compiled, 0, "nothing changed");
    tree.write("net/tcp.c", "int tcp(void) { return 2; }\n");
    let newer = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    let file = std::fs::File::options().write(true).open(tree.path("tree/net/tcp.c")).expect("there");
    file.set_modified(newer).expect("its time");
    assert_eq!(build.run().expect("built").compiled, 1, "one file changed");
}

#[test]
fn a_symbol_that_does_not_survive_stops_the_build_with_the_reason() {
    require!(tools());
    let tree = Tree::new();
    let build = build(&tree).fragment("f", "CONFIG_BINDER=y\nCONFIG_TYPO=y\n").expect("good");
    let error = build.run().expect_err("NET is off");
    let BuildError::Unmet { unmet } = &error else { panic!("{error}") };
    assert_eq!(
        unmet.iter().map(|one| one.symbol.as_str()).collect::<Vec<_>>(),
        ["CONFIG_BINDER", "CONFIG_TYPO"]
    );
    let text = error.to_string();
    assert!(text.contains("NET is n") && text.contains("no Kconfig file"), "{text}");
    assert!(!tree.path("build/fair.o").exists(), "nothing was compiled");
    let mended = build.fragment("g", "CONFIG_NET=y\nCONFIG_TYPO=n\n").expect("good").run().expect("built");
    assert_eq!(mended.overridden.len(), 1);
}

#[test]
fn rust_that_the_tree_refuses_is_told_before_anything_is_configured() {
    require!(tools());
    let tree = Tree::new();
    let build = build(&tree).fragment("f", "CONFIG_RUST=y\n").expect("good");
    let error = build.run().expect_err("too old").to_string();
    assert!(error.contains("Rust compiler is too old."), "{error}");
    assert!(error.contains("--fetch-toolchain") && error.contains("binder-c"), "{error}");
    assert!(!tree.path("build/.config").exists(), "nothing was configured");
    tree.write("rust-is-new", "");
    build.run().expect("built");
}

#[test]
fn the_first_error_is_told_first() {
    require!(tools());
    let tree = Tree::new();
    tree.write("kernel/sched/fair.c", "int wake(void)\n{\n\treturn nope;\n}\n");
    let error = build(&tree).ccache(false).run().expect_err("it does not compile");
    let BuildError::Compile { first, log, .. } = &error else { panic!("{error}") };
    assert_eq!((first.file.as_str(), first.line), ("kernel/sched/fair.c", 3));
    assert!(first.message.contains("nope") && first.message.contains("undeclared"), "{}", first.message);
    assert!(first.context.iter().any(|line| line.contains("return nope")), "{:?}", first.context);
    let text = std::fs::read_to_string(log).expect("a log");
    assert!(text.starts_with("first error: kernel/sched/fair.c:3:"), "{text}");
}

#[test]
fn a_visible_file_keeps_its_small_functions() {
    require!(tools());
    require!(require_tool("nm"));
    let tree = Tree::new();
    tree.write("kernel/sched/Makefile", "CFLAGS_fair.o := -DOWN\n");
    tree.write("drivers/fair.c", "");
    let plain = build(&tree).run().expect("built");
    assert!(!functions(&plain).contains("wake_wide"), "inlined");
    let visible = build(&tree).visible("kernel/sched/fair.c").run().expect("built");
    assert_eq!(visible.compiled, 1, "only that file");
    assert!(functions(&visible).contains("wake_wide"), "{}", functions(&visible));
    assert!(visible.notes[0].contains("drivers/fair.c"), "{:?}", visible.notes);
    let flags = std::fs::read_to_string(tree.path("build/fair.o.flags")).expect("kept by the tree");
    assert!(flags.contains("-DOWN -fno-inline"), "the tree's own flags stay: {flags}");
    assert!(build(&tree).visible("kernel/none.c").run().is_err());
}

#[test]
fn branches_are_counted_where_that_was_asked_for() {
    require!(tools());
    let tree = Tree::new();
    let built = build(&tree).count_branches("kernel/sched/fair.c").run().expect("built");
    let config = std::fs::read_to_string(&built.config).expect("a configuration");
    assert!(config.contains("CONFIG_GCOV_KERNEL=y"), "{config}");
    assert!(tree.path("build/fair.gcno").exists());
    assert!(!tree.path("build/tcp.gcno").exists());
}

#[test]
fn a_given_configuration_is_the_base() {
    require!(tools());
    let tree = Tree::new();
    tree.write("mine", "CONFIG_NAME=\"mine\"\nCONFIG_NET=y\n");
    let build = build(&tree).base(Base::File(tree.path("tree/mine")));
    let built = build.fragment("f", "CONFIG_BINDER=y\n").expect("good").run().expect("built");
    let config = std::fs::read_to_string(&built.config).expect("a configuration");
    assert!(config.contains("CONFIG_NAME=\"mine\"") && config.contains("CONFIG_BINDER=y"), "{config}");
}

#[test]
fn a_stopped_build_ends() {
    require!(tools());
    let tree = Tree::new();
    let stopper = Stopper::new();
    stopper.stop();
    let result = build(&tree).stopper(&stopper).run();
    assert!(matches!(result, Err(BuildError::Cancelled)), "{result:?}");
}

#[test]
fn what_is_no_tree_is_refused() {
    require!(tools());
    let folder = tempfile::tempdir().expect("a folder");
    let error = KernelBuild::new("/etc", folder.path()).run().expect_err("no kernel").to_string();
    assert!(error.contains("not the source of a kernel"), "{error}");
    assert!(KernelBuild::new(Path::new("/no/such"), folder.path()).run().is_err());
    let bad = KernelBuild::new("/etc", folder.path()).fragment("f", "nonsense\n");
    assert!(bad.is_err_and(|why| why.to_string().contains("f:1")));
    assert!(
        KernelBuild::new("/etc", folder.path())
            .arch(KernelArch::X86_64)
            .fragments(&["guest".to_owned()])
            .is_ok()
    );
}
