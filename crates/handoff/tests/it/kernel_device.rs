//! Brings images to a device that is not there: stand-ins of adb and fastboot write down their calls.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Says that it is no real one, and does what the test asks for. `$D` is the test's folder.
const STAND_IN: &str = r#"#!/bin/sh
D=$(dirname "$0")/..
echo "stand-in of $(basename "$0") for a test, not the real one" >&2
echo "$(basename "$0") $*" >>"$D/calls"
[ -f "$D/fail" ] && case "$*" in *"$(cat "$D/fail")"*) echo refused >&2; exit 1;; esac
case "$*" in
*exec-out*) cat "$D/device.img";;
*getprop*) n=$(cat "$D/asked" 2>/dev/null || echo 0); echo $((n + 1)) >"$D/asked"; [ "$n" -lt 1 ] || echo 1;;
*uname*) echo 6.1.192-new;;
esac
exit 0
"#;

struct Device(TempDir);

impl Device {
    fn new() -> Self {
        let device = Self(TempDir::new().expect("a folder"));
        fs::create_dir(device.path("bin")).expect("made");
        fs::write(device.path("stand-in"), STAND_IN).expect("written");
        for name in ["adb", "fastboot"] {
            // By another process: a child that another test forks meanwhile would have the program open for
            // writing until it runs its own, and nobody could run this one.
            let program = device.path("bin").join(name);
            let mut copy = Command::new("install");
            copy.arg("--mode=755").args([device.path("stand-in"), program]);
            assert!(copy.status().expect("install is one of the core utilities").success());
        }
        fs::write(device.path("device.img"), image(b"old kernel")).expect("written");
        fs::write(device.path("new.img"), image(b"new kernel")).expect("written");
        device
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn handoff(&self, arguments: &[&str]) -> Output {
        let search = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        Command::new(env!("CARGO_BIN_EXE_handoff"))
            .current_dir(self.0.path())
            .args(["kernel"])
            .args(arguments)
            .env("PATH", search)
            .output()
            .expect("handoff runs")
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A boot image of version 0.
fn image(kernel: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    bytes[..8].copy_from_slice(b"ANDROID!");
    bytes[8..12].copy_from_slice(&(kernel.len() as u32).to_le_bytes());
    bytes[36..40].copy_from_slice(&2048u32.to_le_bytes());
    bytes.extend_from_slice(kernel);
    bytes.resize(4096, 0);
    bytes
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn nothing_is_done_without_yes() {
    let device = Device::new();
    let refused = device.handoff(&["flash", "new.img", "--write"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("--yes"), "{}", said(&refused));
    let dry = device.handoff(&["flash", "new.img", "--write", "--dry-run", "--serial", "S1"]);
    let text = said(&dry);
    assert!(dry.status.success() && text.contains("fastboot -s S1 flash boot new.img"), "{text}");
    assert!(text.find("boot new.img") < text.find("flash boot"), "{text}");
    assert_eq!(device.calls(), [""; 0], "no program was started");
    let none = device.handoff(&["flash", "calls", "--yes"]);
    assert!(!none.status.success());
    fs::write(device.path("text"), "no image").expect("written");
    let text = said(&device.handoff(&["flash", "text", "--yes"]));
    assert!(text.contains("does not begin with ANDROID!"), "{text}");
    assert_eq!(device.calls(), [""; 0]);
}

#[test]
fn an_image_is_saved_booted_and_only_then_written() {
    let device = Device::new();
    let booted = device.handoff(&["flash", "new.img", "--yes"]);
    assert!(booted.status.success() && said(&booted).contains("6.1.192-new"), "{}", said(&booted));
    assert!(!device.calls().iter().any(|call| call.contains("flash ")), "{:?}", device.calls());
    assert_eq!(fs::read(device.path("boot-before.img")).expect("saved"), image(b"old kernel"));
    let again = device.handoff(&["flash", "new.img", "--yes"]);
    assert!(said(&again).contains("would be lost"), "the backup is not overwritten: {}", said(&again));

    fs::remove_file(device.path("calls")).expect("there");
    fs::remove_file(device.path("asked")).expect("there");
    let written = device.handoff(&[
        "flash",
        "new.img",
        "--write",
        "--yes",
        "--backup",
        "b.img",
        "--partition",
        "init_boot",
    ]);
    assert!(written.status.success(), "{}", said(&written));
    let calls = device.calls();
    let at = |part: &str| {
        calls.iter().position(|call| call.contains(part)).unwrap_or_else(|| panic!("{part}: {calls:?}"))
    };
    let order =
        ["adb root", "by-name/init_boot", "fastboot boot new.img", "sys.boot_completed", "flash init_boot"]
            .map(at);
    assert!(order.is_sorted(), "{calls:?}");
    assert!(
        calls.iter().filter(|call| call.contains("getprop sys.boot")).count() >= 3,
        "asked until it is up"
    );
}

#[test]
fn a_step_that_fails_is_the_last() {
    for (fail, reason) in [
        ("boot new.img", "boot the image without writing it"),
        ("exec-out", "save the image"),
        ("reboot bootloader", "restart into the bootloader"),
    ] {
        let device = Device::new();
        fs::write(device.path("fail"), fail).expect("written");
        let output = device.handoff(&["flash", "new.img", "--write", "--yes", "--timeout", "60"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason) && text.contains("nothing was written to the device"), "{text}");
        assert!(!device.calls().iter().any(|call| call.contains("flash boot")), "{:?}", device.calls());
    }
    let device = Device::new();
    fs::write(device.path("device.img"), "not an image").expect("written");
    let text = said(&device.handoff(&["flash", "new.img", "--yes"]));
    assert!(text.contains("is no backup"), "{text}");
    assert!(!device.calls().iter().any(|call| call.starts_with("fastboot")), "{:?}", device.calls());
}

#[test]
fn a_kernel_is_replaced_and_parts_are_written() {
    let device = Device::new();
    fs::write(device.path("Image"), "another kernel").expect("written");
    let made = device.handoff(&[
        "image",
        "device.img",
        "--kernel",
        "Image",
        "--out",
        "made.img",
        "--unpack",
        "parts",
    ]);
    assert!(made.status.success(), "{}", said(&made));
    assert_eq!(fs::read(device.path("parts").join("kernel")).expect("unpacked"), b"old kernel");
    let shown = device.handoff(&["image", "made.img", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((json["version"].as_u64(), json["parts"][0]["bytes"].as_u64()), (Some(0), Some(14)));
    let same = device.handoff(&["image", "made.img", "--kernel", "Image", "--out", "made.img"]);
    assert!(said(&same).contains("keep the old one"), "{}", said(&same));
}
