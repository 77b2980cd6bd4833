//! What the book shows is typed here: each command line of each page, in the order of the page, in a folder that has what
//! the page speaks of. What cannot run here is in [`ELSEWHERE`], with the reason.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use handoff_testkit::book::{Page, pages, root};
use handoff_testkit::{require, require_root, require_tool};

/// Beginnings of lines that this test does not type, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    // The project's own builds and tests.
    (
        "cargo xtask ",
        "builds, tests and packs the whole; xtask's own test parses each of these lines, and CI runs them",
    ),
    ("cargo test", "is the run that this test is part of, or `own_service` runs it"),
    ("cargo build ", "the tests of that crate build it"),
    ("cargo install ", "builds the whole program: a step of CI's packages"),
    ("cargo run -- ", "own_service"),
    ("cargo run -p handoff-examples ", "the examples' tests run these programs: rpc"),
    ("cargo run --release -p handoff-examples ", "the examples' tests run these programs: greeter"),
    (
        "cargo run --release -p handoff-kernel --example pairs ",
        "needs trees of two releases of the kernel: port_truth",
    ),
    ("HANDOFF_SHOTS=", "is tests of this crate"),
    ("HANDOFF_BLESS=", "is tests of this crate"),
    ("HANDOFF_KILL", "kills for minutes: kill_everywhere, lab_kills"),
    ("git clone ", "there is no public address yet: own_service begins with a copy"),
    ("cd ", "own_service"),
    ("handoff new ", "own_service"),
    ("git diff --diff-filter", "needs the kernel's history"),
    ("echo '{\"workload\": \"objects\"", "is for the guest of the next line"),
    (
        "handoff kernel port autocorking.patch --onto linux-3.4 --source linux --decisions",
        "a browser saves that: port_review",
    ),
    (
        "handoff sched explain -i busy.dat --caller",
        "names tasks of the reader's recording: handoff-trace's diagnose tests",
    ),
    ("handoff sched phases -i device.pftrace", "needs a device's recording: handoff-trace's perfetto tests"),
    // Guests, kernels, devices.
    ("handoff guest ", "boots a guest: tests/guests"),
    ("handoff kernel source ", "fetches 150 MB: handoff-kernel's build tests"),
    ("handoff kernel build ", "compiles a kernel for minutes: handoff-kernel's build tests"),
    ("handoff kernel boot ", "boots a kernel that was built: handoff-kernel's build tests"),
    ("handoff kernel prove ", "boots a kernel that was built: handoff-kernel's prove tests"),
    ("handoff kernel study ", "builds two kernels: handoff-kernel's study tests"),
    ("handoff kernel image ", "needs a device's boot image: kernel_device"),
    ("handoff kernel flash ", "needs a device: kernel_device"),
    (
        "handoff kernel port experiments/patches/binder-lend-rt.patch",
        "needs the kernel's sources: port_moves",
    ),
    ("handoff binder ", "needs the kernel's driver: guests::driver_guest"),
    ("contrib/sched-ext/", "boots a guest for minutes: its page has what it printed"),
    ("adb ", "needs a device: targets"),
    ("rustup target add ", "changes the machine's toolchain"),
    ("export ANDROID_NDK_HOME", "needs Google's NDK"),
    ("cargo ndk ", "needs Google's NDK; `cargo xtask android` checks that it compiles"),
    ("mvn ", "handoff-java's test calls Maven"),
    // Other machines.
    ("handoff lab run experiments/oneway.toml --target ssh", "there is no lab-7: lab::arms_run"),
    ("handoff lab run experiments/pinned-or-free.toml --target adb", "needs a device: targets"),
    ("handoff lab run experiments/hackbench-1-to-n.toml --target guest", "boots a guest: guests::lab_guest"),
    ("handoff lab ab './old' './new' --target ssh", "there is no lab-7: targets::ssh_*"),
    ("handoff lab run nightly.toml --store", "needs PostgreSQL: handoff-lab's postgres tests"),
    ("handoff lab history --metric wall --store", "needs PostgreSQL: handoff-lab's postgres tests"),
    ("handoff measure latency -i 1000 --target ssh", "there is no lab-7: targets::ssh_*"),
    ("handoff run --target ssh", "there is no lab-7: targets::ssh_*"),
    ("handoff measure throughput --engine binder --target guest", "boots a guest: tests/guests"),
    ("handoff measure latency --target adb", "needs a device: targets"),
    ("handoff target check ssh", "there is no lab-7: targets::ssh_*"),
    ("handoff target doctor ssh", "there is no lab-7: targets::ssh_*"),
    ("handoff campaign submit", "there are no such devices: campaign::rack"),
    ("handoff campaign status", "follows `submit`: campaign::rack"),
    ("handoff campaign report", "follows `submit`: campaign::rack"),
    ("handoff campaign collect", "follows `submit`: campaign::rack"),
    ("handoff campaign export", "there are no such devices: campaign::export"),
    ("handoff campaign simulate", "10,000 devices: handoff-campaign's simulate tests"),
    ("docker ", "no daemon here: the examples' containers test makes both containers by itself"),
    ("podman ", "not here: the examples' containers test makes both containers by itself"),
    // What changes the machine, or has nothing to talk to.
    ("sudo systemctl ", "no systemd here: activation speaks its protocol"),
    ("systemctl ", "no systemd here: activation speaks its protocol"),
    ("sudo install ", "changes the machine: the packages' tests install these files into a folder"),
    ("install ", "changes the user's services: activation has their units"),
    ("sudo handoff lab run experiments/autocorking.toml", "takes minutes: lab::autocorking"),
    ("handoff lab bisect ", "bisect"),
    ("handoff service call ", "needs those services: typed_calls, services"),
    (
        "handoff kernel port --onto linux-6.1 --continue",
        "goes on where a conflict stopped it: handoff-kernel's port_commit",
    ),
    // Programs of C++ and C.
    ("g++ ", "handoff-ndk's test of installed libraries compiles with these options"),
    ("libs=", "handoff-ndk's test of installed libraries"),
    ("cc ", "the packages' test of the C library"),
    ("mkdir -p ~/opt ", "unpacks what `cargo xtask dist` made: the packages' test of the C library"),
    ("export PKG_CONFIG_PATH", "the packages' test of the C library"),
];

/// Lines that go on until they are stopped: they are, after a second.
const UNTIL_STOPPED: [&str; 3] =
    ["handoff servicemanager --policy", "handoff pin 1234 --cpus big --watch", "sudo handoff sched top"];

/// Lines that go on beside those that follow, in a terminal of their own.
const BESIDE: [&str; 3] =
    ["handoff servicemanager   ", "cargo run --release -- servicemanager", "handoff policy run"];

/// What is put in the place of what takes a minute, or names what this machine may not have.
const INSTEAD: [(&str, &str); 12] = [
    ("cargo run --release -- ", "handoff "),
    ("handoff run ", "handoff run --quick "),
    ("measure throughput ", "measure throughput --max-size 64 "),
    ("-i 100000", "-i 1000"),
    ("-deadline_us 1000", "-deadline_us 1000000"),
    ("servicemanager --policy", "servicemanager --socket $HOME/other.sock --policy"),
    ("handoff policy restore", "kill %%; wait; handoff policy restore"),
    ("sched record -s 10", "sched record -s 1"),
    ("-s 5 ", "-s 1 "),
    (" 1234", " $pid"),
    ("/srv/", "$HOME/srv/"),
    ("/etc/handoff/", "$HOME/etc/"),
];

/// What the pages take for granted.
const SETUP: &str = r##"
mkdir -p bin srv/names etc
printf '#!/bin/sh\nexec "$@"\n' > bin/sudo
for program in make my-service controller indexer hal old new; do
    printf '#!/bin/sh\nsleep 0.05\n' > $program
    chmod +x $program bin/sudo
    cp $program bin/
done
ln -s "$repository/experiments" "$repository/contrib" "$repository/crates/handoff/templates/hello/aidl" .
ln -s "$repository"/crates/handoff/tests/cmd/lab.in/*.json .
ln -s new.json bench.json
ln -s "$repository/crates/handoff/tests/cmd/sched.in/atrace.txt" .
echo 'others = "open"' > etc/policy.toml
printf 'run,old,new\n1,0.089,0.085\n2,0.093,0.079\n3,0.091,0.084\n4,0.09,0.083\n5,0.088,0.081\n' > runs.csv
git init -q -b main linux
cd linux
git config user.name A
git config user.email a@b
cat > tcp.c <<'END'
int size;

int corks(int bytes)
{
	if (bytes < size)
		return 1;
	return 0;
}
END
git add .
git commit -qm 'The tree of the pages'
git tag v6.1
cd ..
cp -r linux linux-3.4
cp -r linux linux-6.1
cd linux
sed -i 's/bytes < size/bytes < size \&\& size/' tcp.c
git commit -qam 'Look at the size'
git format-patch -q -1 --stdout > ../autocorking.patch
cp ../autocorking.patch ../fixes.mbox
cd ..
git init -q product
git -C product -c user.name=A -c user.email=a@b commit -q --allow-empty -m 'A product'
cat > nightly.toml <<'END'
title = "nightly"
[workload]
command = "sleep 0.001"
[baseline]
name = "old"
[change]
name = "new"
environment = { A = "1" }
[metric]
name = "wall"
[rounds]
rounds = 6
END
"##;

/// A process that stands for one that the page places or looks at.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let script = "while sleep 0.02; do :; done";
        Sleeper(Command::new("bash").args(["-c", script]).process_group(0).spawn().expect("bash runs"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn is_elsewhere(line: &str) -> bool {
    ELSEWHERE.iter().any(|(start, _)| line.starts_with(start))
}

/// The line as this machine can type it, and the status that it has to end with.
fn typed(line: &str) -> (String, i32) {
    let mut text = format!("{line} ");
    for (shown, instead) in INSTEAD {
        text = text.replace(shown, instead);
    }
    let text = text.trim_end();
    if BESIDE.iter().any(|start| line.starts_with(start)) {
        let without_comment = text.split(" #").next().unwrap_or(text).trim_end();
        return (format!("timeout 30 {without_comment} & sleep 1"), 0);
    }
    if line == "handoff servicemanager &" {
        // A person types the next line a second later; beside eleven other tests that can be too early.
        return (format!("{text} for _ in {{1..99}}; do handoff service list && break; sleep 0.1; done"), 0);
    }
    if UNTIL_STOPPED.iter().any(|start| line.starts_with(start)) {
        return (format!("timeout 1 {text}"), 124);
    }
    (text.to_owned(), 0)
}

/// Lines whose text is compared with what they print: `cli` runs those of this program.
fn compared_lines(page: &Page) -> Vec<String> {
    page.compared_lines().filter(|line| line.starts_with("handoff ")).collect()
}

/// Types the lines of a page; gives what was wrong.
fn try_page(page: &Page) -> Result<(), String> {
    let compared = compared_lines(page);
    let lines = page.command_lines();
    let lines = lines.iter().filter(|line| !compared.contains(line) && !is_elsewhere(line));
    let mut lines: Vec<(String, i32)> = lines.map(|line| typed(line)).collect();
    assert!(!lines.is_empty(), "all of its commands run elsewhere");
    if page.name != TRIED[0] {
        // The whole suite is on four pages, and takes half a minute.
        lines.retain(|(line, _)| !line.starts_with("handoff run "));
    }
    let (home, sleeper) = (tempfile::tempdir().expect("a folder"), Sleeper::start());
    let file = page.name.rsplit('/').next().unwrap_or_default();
    let example = |name: &str, language: &str| {
        if let Some(block) = page.blocks(language).next() {
            std::fs::write(home.path().join(name), block).expect("written");
        }
    };
    let before = match file {
        "campaigns.md" => {
            example("rack.toml", "toml");
            // The file names its experiments from its own folder.
            "mkdir racks; mv rack.toml racks; cd racks"
        }
        "place.md" => {
            example("car.toml", "toml");
            ""
        }
        "compare-two-things.md" => {
            "handoff -q lab import new.json\nfor run in 1 2 3 4 5; do handoff -q lab ab true true --rounds 6; done"
        }
        _ => "",
    };
    let mut script = format!(
        "trap 'kill $(jobs -p) 2> /dev/null' EXIT\nset -e\n{SETUP}\nset +e\nexport PATH=$PWD/bin:$PATH\n{before}\n"
    );
    for (line, status) in &lines {
        script += &format!(
            "{line}\nstatus=$?; [ $status = {status} ] || echo \"$status: \"{} >> $HOME/wrong\n",
            quoted(line)
        );
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_handoff")).parent().expect("a folder");
    // What goes on in the background has a file, and no end of a pipe that somebody would wait for.
    let said = std::fs::File::create(home.path().join("said")).expect("made");
    let status = Command::new("timeout")
        .args(["600", "bash", "-c", &script])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path")))
        .env("pid", sleeper.0.id().to_string())
        .env("repository", root().canonicalize().expect("a folder"))
        .env("HANDOFF_SOCKET", home.path().join("names.sock"))
        .env("HANDOFF_CONFIG", "")
        .env("HANDOFF_RESULTS", home.path().join("results"))
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .status()
        .expect("bash runs");
    let said = std::fs::read_to_string(home.path().join("said")).expect("text");
    match std::fs::read_to_string(home.path().join("wrong")) {
        Ok(wrong) => Err(format!("{}:\n{wrong}{said}", page.name)),
        Err(_) if status.code() == Some(124) => {
            Err(format!("{}: took more than ten minutes\n{said}", page.name))
        }
        // SETUP makes that last.
        Err(_) if !home.path().join("nightly.toml").exists() => Err(format!("{}: {said}", page.name)),
        Err(_) => Ok(()),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A page of the book whose commands run here, and not only elsewhere.
macro_rules! tried {
    ($($test:ident: $page:literal;)*) => {
        const TRIED: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                require!(require_root());
                require!(require_tool("git"));
                let page = pages().into_iter().find(|page| page.name == $page).expect("a page");
                try_page(&page).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        )*
    };
}

tried! {
    readme: "README.md";
    readme_of_the_program: "crates/handoff/README.md";
    first_figures: "docs/book/src/tutorials/first-figures.md";
    first_service: "docs/book/src/tutorials/first-service.md";
    own_service: "docs/book/src/tutorials/own-service.md";
    android_hal: "docs/book/src/how-to/android-hal.md";
    bindings: "docs/book/src/how-to/bindings.md";
    campaigns: "docs/book/src/how-to/campaigns.md";
    compare_two_things: "docs/book/src/how-to/compare-two-things.md";
    containers: "docs/book/src/how-to/containers.md";
    history_and_bisect: "docs/book/src/how-to/history-and-bisect.md";
    install: "docs/book/src/how-to/install.md";
    kernel_patches: "docs/book/src/how-to/kernel-patches.md";
    place: "docs/book/src/how-to/place.md";
    prepare_a_machine: "docs/book/src/how-to/prepare-a-machine.md";
    services: "docs/book/src/how-to/services.md";
    targets: "docs/book/src/how-to/targets.md";
    test_calls: "docs/book/src/how-to/test-calls.md";
    who_wakes_whom: "docs/book/src/how-to/who-wakes-whom.md";
    why_was_it_slow: "docs/book/src/how-to/why-was-it-slow.md";
    workloads: "docs/book/src/reference/workloads.md";
}

#[test]
fn every_command_line_runs_here_or_says_where_else() {
    let mut unused: Vec<&str> = ELSEWHERE.iter().map(|(start, _)| *start).collect();
    for page in pages() {
        let compared: Vec<String> = compared_lines(&page);
        for line in page.command_lines().into_iter().filter(|line| !compared.contains(line)) {
            match ELSEWHERE.iter().find(|(start, _)| line.starts_with(start)) {
                Some((start, _)) => unused.retain(|known| known != start),
                None => assert!(TRIED.contains(&page.name.as_str()), "{}: nobody tries `{line}`", page.name),
            }
        }
    }
    assert!(unused.is_empty(), "nothing in the book begins so any longer: {unused:?}");
}

/// What the program says of a file that a page shows; its status has to be 0.
fn says(file: &str, text: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("made");
    std::os::unix::fs::symlink(root().join("experiments"), folder.path().join("experiments"))
        .expect("linked");
    std::fs::write(inner.join(file), text).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(arguments)
        .current_dir(&inner)
        .env("HANDOFF_CONFIG", if arguments[0] == "config" { file } else { "" })
        .output()
        .expect("handoff runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn files_that_the_book_shows_are_taken() {
    let pages = pages();
    let blocks = |name: &str| -> Vec<&str> {
        let page = pages.iter().find(|page| page.name.ends_with(name)).expect("a page");
        page.blocks("toml").collect()
    };
    let [experiment, guest] = blocks("compare-two-things.md")[..] else {
        panic!("an experiment, and a guest")
    };
    says("a.toml", experiment, &["lab", "check", "a.toml"]);
    says("a.toml", &format!("{experiment}\n{guest}"), &["lab", "check", "a.toml"]);
    let [campaign, slurm] = blocks("campaigns.md")[..] else {
        panic!("a campaign, and devices of a cluster")
    };
    let said = says("a.toml", campaign, &["campaign", "plan", "a.toml"]);
    assert!(said.contains("wake-affine-rack: 6 tasks, 2 on each of 3 devices"), "{said}");
    let start = campaign.split("[[target]]").next().unwrap_or_default();
    says("a.toml", &format!("{start}\n{slurm}"), &["campaign", "plan", "a.toml"]);
    let [configuration] = blocks("command-line.md")[..] else { panic!("a configuration") };
    assert!(says("config.toml", configuration, &["config"]).contains("ssh://lab-7"));
    let [study] = blocks("study-a-feature.md")[..] else { panic!("a study") };
    handoff_kernel::study::Study::parse(Path::new("study.toml"), study, Path::new(".")).expect("a study");
    // Checked elsewhere: `place` types what is done with its file, handoff-ipc reads the policy of services, and what a
    // reader's Cargo.toml has names paths of his own.
    let checked = [
        "compare-two-things",
        "campaigns",
        "command-line",
        "study-a-feature",
        "place",
        "service-policy",
        "async",
        "interfaces",
    ];
    let of_others = pages.iter().filter(|page| page.blocks("toml").next().is_some());
    let of_others: Vec<&str> = of_others
        .map(|page| page.name.as_str())
        .filter(|name| !checked.iter().any(|known| name.ends_with(&format!("/{known}.md"))))
        .collect();
    assert!(of_others.is_empty(), "nobody tries the files of {of_others:?}");
}
