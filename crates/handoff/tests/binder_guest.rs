//! The runtime on the kernel's own Binder driver, in a guest that has one.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use handoff_kernel::guest::{Acceleration, Arch, Guest, GuestCommand};
use handoff_testkit::{require, require_file, require_tool};

/// The tests of calls between processes as one static program, which runs in a guest with nothing
/// but busybox.
fn static_tests() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("static");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--no-run", "--package", "handoff-ipc", "--test", "calls"])
        .args(["--message-format", "json", "--target", &triple])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "calls")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the program")
}

#[test]
fn calls_work_on_the_real_driver() {
    let arch = require!(Arch::host().ok_or("needs an architecture that guests can have"));
    require!(require_tool(arch.qemu()));
    require!(require_tool("apt-get"));
    require!(require_file("/usr/bin/dpkg-deb"));
    let mut guest = Guest::builder()
        .memory_mib(1024)
        .acceleration(Acceleration::Tcg)
        .program(static_tests(), "/bin/calls")
        .boot()
        .expect("a guest boots");
    let command = GuestCommand::new("/bin/calls")
        // One manager at a time has the driver's one place.
        .arg("--test-threads=1")
        .env("HANDOFF_TEST_ENGINE", "binder")
        .env("RUST_BACKTRACE", "0")
        .timeout(Duration::from_secs(500));
    let output = guest.run(&command).expect("the tests run");
    let (text, errors) = (output.stdout_text(), output.stderr_text());
    assert!(output.success(), "{text}\n{errors}");
    assert!(text.contains(" 0 failed"), "{text}");
    guest.shutdown();
}
