//! The runtime on the kernel's own Binder driver, in a guest that has one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use handoff_guest::{Acceleration, Builder, Guest, GuestCommand, Kernel};
use handoff_ipc::Context;
use handoff_testkit::{require, require_file, require_guest};

/// The programs of tests, each named by its package's folder and its own name. Most are there: this test was built with them.
/// Asked for in another way than for the whole workspace, they would be built once more, with other features.
fn programs<const N: usize>(tests: [(&str, &str); N]) -> [PathBuf; N] {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--no-run", "--workspace", "--message-format", "json"])
        .args(tests.iter().flat_map(|(_, name)| ["--test", name]))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    tests.map(|(folder, name)| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("Cargo.toml");
        let manifest = manifest.canonicalize().expect("a package");
        messages
            .iter()
            .filter(|message| message["manifest_path"].as_str().map(Path::new) == Some(&manifest))
            .filter(|message| message["target"]["name"] == name)
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .unwrap_or_else(|| panic!("cargo does not name the program of {folder}'s tests `{name}`"))
    })
}

const IPC: &str = "crates/handoff-ipc";

/// A guest with the driver.
fn guest() -> Builder {
    Guest::builder().memory_mib(1024).acceleration(Acceleration::Tcg)
}

/// Runs a program of tests. One manager at a time has a driver's one place, so that they run in turns.
fn passes(guest: &mut Guest, program: &str, context: Context, arguments: &[&str]) {
    let command = GuestCommand::new(program)
        .arg("--test-threads=1")
        .args(arguments)
        .env("HANDOFF_TEST_ENGINE", "binder")
        .env("HANDOFF_TEST_DOMAIN", context.device())
        .env("RUST_BACKTRACE", "0")
        .timeout(Duration::from_secs(1200));
    let output = guest.run(&command).expect("the tests run");
    let (text, errors) = (output.stdout_text(), output.stderr_text());
    assert!(output.success(), "{text}\n{errors}");
    assert!(text.contains(" 0 failed") && !text.contains(" 0 passed"), "{text}");
}

#[test]
fn calls_work_on_the_real_driver() {
    require!(require_guest());
    let [ipc, driver, examples] = programs([(IPC, "it"), (IPC, "driver"), ("examples", "it")]);
    // With a security module that the driver can ask for its callers' contexts.
    let mut guest = guest()
        .append("security=selinux")
        .program(ipc, "/bin/ipc")
        .program(driver, "/bin/driver")
        .program(examples, "/bin/examples")
        .boot()
        .expect("a guest boots");
    passes(&mut guest, "/bin/driver", Context::Framework, &[]);
    passes(&mut guest, "/bin/ipc", Context::Framework, &["calls::"]);
    // What the interface compiler made: the benchmark's interface, every type, callbacks and descriptors.
    passes(&mut guest, "/bin/examples", Context::Framework, &["interfaces::"]);
    // Where buffers are gathered, those that send some, and objects among them.
    let gathered =
        ["bytes_come", "descriptors_travel", "exceptions", "nested_calls", "shared_memory", "too_long"]
            .map(|test| format!("calls::{test}"));
    passes(&mut guest, "/bin/ipc", Context::Hardware, &gathered.each_ref().map(String::as_str));
    guest.shutdown();
}

/// A foreign Binder program, in a workspace of its own: it is built for this test only.
fn foreign_program() -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rsbinder");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rsbinder");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--target", &triple])
        .current_dir(folder)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(triple).join("debug/handoff-interop-rsbinder")
}

#[test]
fn rsbinder_and_the_runtime_call_each_other() {
    require!(require_guest());
    let [interop] = programs([(IPC, "interop")]);
    let mut guest = guest()
        .program(interop, "/bin/interop")
        .program(foreign_program(), "/bin/theirs")
        .boot()
        .expect("a guest boots");
    passes(&mut guest, "/bin/interop", Context::Framework, &[]);
    guest.shutdown();
}

#[test]
fn what_newer_kernels_have_works_too() {
    require!(require_guest());
    let [ipc, driver] = programs([(IPC, "it"), (IPC, "driver")]);
    // The distribution's next kernel: the driver tells of freezing since 6.12.
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let kernel = Kernel::Package(format!("linux-image-6.12-{arch}"));
    let mut guest = guest()
        .kernel(kernel)
        .module("vsock_loopback")
        .program(ipc, "/bin/ipc")
        .program(driver, "/bin/driver")
        .boot()
        .expect("a guest boots");
    passes(&mut guest, "/bin/driver", Context::Framework, &[]);
    // Virtual machines, where this one is the only one.
    passes(&mut guest, "/bin/ipc", Context::Framework, &["--ignored", "rpc::virtual_machines"]);
    guest.shutdown();
}

/// A boot image that `cargo xtask kernels` made, and with it `cargo xtask test` found in the cache.
fn built(driver: &str) -> Result<PathBuf, String> {
    let image =
        Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernels").join(format!("bzImage-{driver}"));
    require_file(image).map_err(|why| format!("{why}: `cargo xtask kernels` builds it"))
}

#[test]
fn both_drivers_of_mainline_carry_calls() {
    require!(require_guest());
    let images = [require!(built("c")), require!(built("rust"))];
    let [ipc, driver] = programs([(IPC, "it"), (IPC, "driver")]);
    for image in images {
        let mut guest = guest()
            .kernel(Kernel::Image { image: image.clone(), modules: None })
            .program(&ipc, "/bin/ipc")
            .program(&driver, "/bin/driver")
            .boot()
            .expect("a guest boots");
        passes(&mut guest, "/bin/driver", Context::Framework, &[]);
        passes(&mut guest, "/bin/ipc", Context::Framework, &["calls::"]);
        guest.shutdown();
    }
}
