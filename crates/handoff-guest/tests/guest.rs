//! Boots the distribution's kernel in QEMU and uses it as a person would.
//!
//! One guest serves all the checks that leave it as it was; those that ruin it boot their own.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use handoff_guest::{
    Acceleration, Arch, Builder, Guest, GuestCommand, GuestError, IncidentKind, Kernel, Stopper,
};
use handoff_testkit::{require, require_guest, require_guest_of};

/// A limit that no healthy guest reaches on a busy machine.
const GENEROUS: Duration = Duration::from_secs(120);

/// When a command that never ends is late. It must have begun by then, on a busy machine too.
const LATE: Duration = Duration::from_secs(10);

fn builder() -> Builder {
    Guest::builder().memory_mib(512).acceleration(Acceleration::Tcg)
}

/// The guest that the tests share.
fn shared() -> MutexGuard<'static, Guest> {
    static GUEST: OnceLock<Mutex<Guest>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| {
        let own = std::env::current_exe().expect("this test");
        let guest = builder().module("dummy").program(own, "/bin/test-program").boot();
        Mutex::new(guest.expect("a guest boots"))
    });
    guest.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sh(script: &str) -> GuestCommand {
    GuestCommand::shell(script).timeout(GENEROUS)
}

/// One test, as each test is a process of its own, and the guest is booted once.
#[test]
fn one_guest_runs_commands() {
    require!(require_guest());
    let checks: [(&str, fn()); 9] = [
        (
            "a command runs with its streams and status apart",
            a_command_runs_with_its_streams_and_status_apart,
        ),
        ("words arrive as they were", words_arrive_as_they_were),
        (
            "devices and file systems are as programs expect them",
            devices_and_file_systems_are_as_programs_expect_them,
        ),
        ("large input and output pass whole", large_input_and_output_pass_whole),
        ("what a left over process writes is nobodys", what_a_left_over_process_writes_is_nobodys),
        ("files go there and come back", files_go_there_and_come_back),
        (
            "a program of the host runs there with its libraries",
            a_program_of_the_host_runs_there_with_its_libraries,
        ),
        (
            "a command over its time is killed and the guest goes on",
            a_command_over_its_time_is_killed_and_the_guest_goes_on,
        ),
        (
            "a warning of the kernel is reported with the command",
            a_warning_of_the_kernel_is_reported_with_the_command,
        ),
    ];
    for (name, check) in checks {
        eprintln!("{name}");
        check();
    }
}

fn a_command_runs_with_its_streams_and_status_apart() {
    let mut guest = shared();
    let output = guest.run(&sh("echo out; echo err >&2; exit 7")).expect("run");
    assert_eq!((output.stdout_text().as_str(), output.stderr_text().as_str()), ("out\n", "err\n"));
    assert_eq!(output.status, 7);
    assert!(!output.success());
    let killed = guest.run(&sh("kill -TERM $$")).expect("run");
    assert_eq!(killed.status, 128 + 15);
    let missing = guest.run(&GuestCommand::new("no-such-program")).expect("run");
    assert_eq!(missing.status, 127);
    assert!(missing.stderr_text().contains("no-such-program"));
}

fn words_arrive_as_they_were() {
    let words = ["it's", "$HOME", "a\nb", "\u{1}\u{1e}\u{7f}", "ü€", "", "*", "-n", "a\\b", " x "];
    let mut guest = shared();
    let command = GuestCommand::new("printf").arg("%s\\0").args(words).env("K-1", "v'w").current_dir("/tmp");
    let output = guest.run(&command).expect("run");
    let read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    assert_eq!(read[..words.len()], words.map(str::as_bytes));
    let all: Vec<u8> = (1..=255).collect();
    let quoted = guest.run(&GuestCommand::new("printf").arg("%s").arg(os(&all))).expect("run");
    assert_eq!(quoted.stdout, all);
    let seen = guest.run(&command_env()).expect("run").stdout_text();
    assert_eq!(seen, "v'w /tmp\n");
}

fn os(bytes: &[u8]) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes.to_vec())
}

fn command_env() -> GuestCommand {
    sh("echo \"$K $PWD\"").env("K", "v'w").current_dir("/tmp")
}

fn devices_and_file_systems_are_as_programs_expect_them() {
    let mut guest = shared();
    assert_eq!(guest.facts().faults, Vec::<String>::new());
    assert_eq!(guest.facts().cpus, 2);
    let output = guest
        .run(&sh(
            "for n in binder hwbinder vndbinder; do [ -c /dev/$n ] && [ -w /dev/$n ] || echo no $n; done
            grep -q '^dummy ' /proc/modules || echo no module
            [ -d /sys/kernel/tracing/events/sched ] || echo no tracefs
            [ -f /sys/fs/cgroup/cgroup.procs ] || echo no cgroups
            ip addr show lo | grep -q 127.0.0.1 || echo no loopback
            echo said >/dev/stdout; echo complained >/dev/stderr",
        ))
        .expect("run");
    assert_eq!(output.stdout_text(), "said\n");
    assert_eq!(output.stderr_text(), "complained\n");
    assert_eq!(output.incidents, []);
}

fn large_input_and_output_pass_whole() {
    let mut guest = shared();
    let data: Vec<u8> = (0..1_500_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let output = guest.run(&GuestCommand::new("cat").stdin(data.clone()).timeout(GENEROUS)).expect("run");
    assert!(output.stdout == data, "{} of {} bytes", output.stdout.len(), data.len());
    // What a command does not read must not reach the next one.
    let output = guest.run(&GuestCommand::new("true").stdin(data).timeout(GENEROUS)).expect("run");
    assert!(output.success());
    let output = guest.run(&GuestCommand::new("cat").stdin("next").timeout(GENEROUS)).expect("run");
    assert_eq!(output.stdout_text(), "next");
}

fn what_a_left_over_process_writes_is_nobodys() {
    let mut guest = shared();
    let output = guest.run(&sh("(sleep 0.3; echo late) & echo early")).expect("run");
    assert_eq!(output.stdout_text(), "early\n");
    std::thread::sleep(Duration::from_secs(1));
    let output = guest.run(&sh("echo mine")).expect("run");
    assert_eq!(output.stdout_text(), "mine\n");
}

fn files_go_there_and_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir_all(source.join("sub")).expect("made");
    std::fs::write(source.join("sub/file"), "content").expect("written");
    let mut guest = shared();
    guest.put(&source, "/tmp/there/copy").expect("put");
    guest.run(&sh("ln -s /etc/passwd /tmp/there/copy/out; ln -s file /tmp/there/copy/sub/in")).expect("run");
    let back = folder.path().join("back");
    let fetched = guest.get("/tmp/there/copy", &back).expect("got");
    assert_eq!(fetched.files, 2);
    assert_eq!(fetched.left_out, ["copy/out"]);
    assert_eq!(std::fs::read_to_string(back.join("sub/in")).expect("there"), "content");
    guest.write("/proc/sys/kernel/sched_rt_runtime_us", b"940000").expect("written");
    assert_eq!(guest.read("/proc/sys/kernel/sched_rt_runtime_us").expect("read"), b"940000\n");
    let error = guest.get("/no/such/file", &back).expect_err("absent").to_string();
    assert!(error.contains("/no/such/file"), "{error}");
    assert!(guest.put(Path::new("/no/such/file"), "/tmp/x").is_err());
    assert!(guest.read("/no/such/file").is_err());
}

/// Run in the guest by the test below: this very program, with its libraries.
#[test]
#[ignore = "a process of another test"]
fn marker_main() {
    assert_eq!(1 + 1, 2);
}

fn a_program_of_the_host_runs_there_with_its_libraries() {
    let mut guest = shared();
    let command = GuestCommand::new("/bin/test-program")
        .args(["--ignored", "--exact", "marker_main"])
        .timeout(GENEROUS);
    let output = guest.run(&command).expect("run");
    assert!(output.stdout_text().contains("1 passed"), "{output:?}");
}

fn a_command_over_its_time_is_killed_and_the_guest_goes_on() {
    let mut guest = shared();
    let slow = GuestCommand::shell("echo begun; sleep 1234 & sleep 1235").timeout(LATE);
    let error = guest.run(&slow).expect_err("too slow");
    let GuestError::CommandTimeout { killed, state, .. } = &error else { panic!("{error}") };
    assert!(*killed, "{error}");
    assert!(state.contains("sleep"), "{state}");
    let output = guest.run(&sh("ps | grep '[s]leep 123'; echo alive")).expect("run");
    assert_eq!(output.stdout_text(), "alive\n");
}

fn a_warning_of_the_kernel_is_reported_with_the_command() {
    let mut guest = shared();
    let message = "<1>INFO: task test:1 blocked for more than 120 seconds.";
    let output = guest.run(&sh(&format!("echo '{message}' >/dev/kmsg; sleep 0.5"))).expect("run");
    let kinds: Vec<IncidentKind> = output.incidents.iter().map(|incident| incident.kind).collect();
    assert_eq!(kinds, [IncidentKind::HungTask]);
    assert_eq!(guest.run(&sh("true")).expect("run").incidents, []);
}

#[test]
fn a_panic_is_an_error_that_says_where() {
    require!(require_guest());
    let mut guest = builder().smp("1".parse().expect("one")).boot().expect("a guest");
    let error = guest.run(&sh("echo c >/proc/sysrq-trigger")).expect_err("it crashed");
    let GuestError::Panic(panic) = &error else { panic!("{error}") };
    assert!(panic.to_string().contains("sysrq"), "{panic}");
    let again = guest.run(&sh("true")).expect_err("it is gone");
    assert!(matches!(again, GuestError::Panic(_)), "{again}");
}

#[test]
fn a_guest_that_answers_nothing_hangs() {
    require!(require_guest());
    let builder = builder().smp("1".parse().expect("one")).answer_limit(Duration::from_secs(5));
    let mut guest = builder.boot().expect("a guest");
    let command = GuestCommand::shell("kill -STOP -1; sleep 1234").timeout(LATE);
    let error = guest.run(&command).expect_err("all else is stopped");
    assert!(matches!(error, GuestError::Hang { .. }), "{error}");
    assert!(guest.run(&sh("true")).is_err(), "and is not used again");
}

/// What the watchdog of a kernel writes that has a CPU in a loop.
const LOCKED_UP: &str = "echo '<0>watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [sh:1]' >/dev/kmsg";

#[test]
fn a_guest_whose_kernel_is_stuck_is_given_up_long_before_its_time_is_up() {
    require!(require_guest());
    let builder = builder().smp("1".parse().expect("one")).answer_limit(Duration::from_secs(3));
    let mut guest = builder.boot().expect("a guest");
    // One that says so and lives goes on.
    let output = guest.run(&sh(&format!("{LOCKED_UP}; sleep 2; echo on"))).expect("it is alive");
    assert_eq!(output.stdout_text(), "on\n");
    let command = GuestCommand::shell(format!("{LOCKED_UP}; kill -STOP -1; sleep 1234"));
    let error = guest.run(&command.timeout(Duration::from_secs(1234))).expect_err("it answers nothing");
    let GuestError::Hang { limit, console, .. } = &error else { panic!("{error}") };
    assert!(*limit < Duration::from_secs(600), "{error}");
    assert!(console.iter().any(|line| line.contains("soft lockup")), "{error}");
}

#[test]
fn a_guest_is_stopped_while_a_command_runs() {
    require!(require_guest());
    let stopper = Stopper::new();
    let mut guest = builder().smp("1".parse().expect("one")).stopper(&stopper).boot().expect("a guest");
    let mut told = false;
    let result = guest.run_streaming(&GuestCommand::shell("echo up; sleep 1234"), &mut |_, _| {
        told = true;
        stopper.stop();
    });
    assert!(told);
    assert!(matches!(result, Err(GuestError::Cancelled)), "{result:?}");
}

#[test]
fn a_kernel_image_that_is_none_is_told_from_one_that_hangs() {
    require!(require_guest());
    let arch = Arch::host().expect("QEMU is there for it");
    let prepared = builder().prepare().expect("fetched");
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("bzImage");
    std::fs::write(&image, b"this is no kernel").expect("written");
    let broken = builder().kernel(Kernel::Image { image, modules: None }).boot_limit(Duration::from_secs(20));
    let error = broken.boot().expect_err("no kernel");
    assert!(matches!(error, GuestError::Qemu { .. } | GuestError::BootTimeout { .. }), "{error}");
    // A kernel without its modules has no transport here: the guest says so instead of hanging.
    let bare = builder().arch(arch).kernel(Kernel::Image { image: prepared.image, modules: None });
    let error = bare.smp("1".parse().expect("one")).boot().expect_err("no transport");
    let GuestError::Transport { reason } = &error else { panic!("{error}") };
    assert!(reason.contains("CONFIG_VIRTIO_CONSOLE"), "{reason}");
}

#[test]
fn an_arm64_guest_has_the_capacities_it_was_given() {
    require!(require_guest_of("aarch64"));
    let capacities = [446, 446, 446, 446, 871, 871, 871, 1024];
    let mut guest = builder().arch(Arch::Arm64).cpu_capacities(capacities).boot().expect("a guest");
    assert_eq!(guest.facts().cpus, 8);
    let read = |guest: &mut Guest, file: &str| {
        let script = format!("for c in 0 1 2 3 4 5 6 7; do cat /sys/devices/system/cpu/cpu$c/{file}; done");
        let text = guest.run(&sh(&script)).expect("run").stdout_text();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(read(&mut guest, "cpu_capacity"), capacities.map(|capacity| capacity.to_string()));
    let clusters = read(&mut guest, "topology/cluster_cpus_list");
    assert_eq!(clusters, ["0-3", "0-3", "0-3", "0-3", "4-6", "4-6", "4-6", "7"]);
    let output = guest.run(&sh("uname -m; test -c /dev/hwbinder && echo binder")).expect("run");
    assert_eq!(output.stdout_text(), "aarch64\nbinder\n");
}
