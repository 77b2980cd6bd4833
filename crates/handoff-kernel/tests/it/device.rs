//! Takes boot images of the reference tools apart, and puts together what those make byte for byte.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use handoff_kernel::device::{BootImage, Part};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

/// Parts of odd sizes, so that padding matters.
struct Parts(TempDir);

impl Parts {
    fn new() -> Self {
        let parts = Self(TempDir::new().expect("a folder"));
        for (name, size) in
            [("kernel", 70_001), ("other", 5_003), ("ramdisk", 9_999), ("second", 2_048), ("dtb", 4_321)]
        {
            let content: Vec<u8> = (0..size).map(|n: u32| (n.wrapping_mul(31) >> 3) as u8).collect();
            fs::write(parts.path(name), content).expect("written");
        }
        parts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect(name)
    }

    /// An image as the reference tool makes it.
    fn reference(&self, version: u32, kernel: &str, page: &str) -> Vec<u8> {
        let mut command = Command::new("mkbootimg");
        let file = |command: &mut Command, option: &str, name: &str| {
            command.arg(option).arg(self.path(name));
        };
        file(&mut command, "--kernel", kernel);
        file(&mut command, "--ramdisk", "ramdisk");
        let long = format!("console=ttyS0 {}", "androidboot.x=1 ".repeat(50));
        command.args(["--header_version", &version.to_string(), "--cmdline", long.trim()]);
        command.args(["--os_version", "11.0.0", "--os_patch_level", "2021-05"]);
        if version < 3 {
            command.args(["--pagesize", page, "--base", "0x80000000", "--board", "handoff"]);
            file(&mut command, "--second", "second");
        }
        // Debian's tool stops at a recovery overlay: it divides its place into fractions.
        if version == 2 {
            file(&mut command, "--dtb", "dtb");
        }
        let out = self.path("reference.img");
        let output = command.arg("--output").arg(&out).output().expect("mkbootimg runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(out).expect("an image")
    }
}

#[test]
fn images_are_those_of_the_reference_tool_byte_for_byte() {
    require!(require_tool("mkbootimg"));
    let parts = Parts::new();
    for version in 0..=3 {
        for page in ["2048", "4096"] {
            let bytes = parts.reference(version, "kernel", page);
            let mut image = BootImage::parse(&bytes).expect("a boot image");
            assert_eq!((image.version(), image.part(Part::Kernel)), (version, &parts.read("kernel")[..]));
            assert_eq!(image.part(Part::Ramdisk), parts.read("ramdisk"));
            assert!(image.command_line().starts_with("console=ttyS0 ") && image.command_line().len() > 600);
            assert!(image.to_bytes() == bytes, "version {version}: unchanged parts give the same image");
            image.replace_kernel(parts.read("other")).expect("replaced");
            let wanted = parts.reference(version, "other", page);
            assert!(
                image.to_bytes() == wanted,
                "version {version}, pages of {page}: as made with that kernel"
            );
            assert!(image.notes().is_empty(), "{image}");
        }
    }
}

#[test]
fn the_reference_tools_read_what_we_write() {
    require!(require_tool("mkbootimg").and_then(|_| require_tool("unpack_bootimg")));
    let parts = Parts::new();
    let mut image = BootImage::parse(&parts.reference(2, "kernel", "2048")).expect("a boot image");
    image.replace_kernel(parts.read("other")).expect("replaced");
    let (file, out) = (parts.path("ours.img"), parts.path("out"));
    fs::write(&file, image.to_bytes()).expect("written");
    let run = |command: &mut Command| {
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("unpack_bootimg").arg("--boot_img").arg(&file).arg("--out").arg(&out));
    let unpacked = |name: &str| fs::read(out.join(name)).expect(name);
    assert_eq!(unpacked("kernel"), parts.read("other"));
    for part in ["ramdisk", "second", "dtb"] {
        assert_eq!(unpacked(part), parts.read(part), "{part}");
    }
    if require_tool("abootimg").is_ok() {
        let old = parts.reference(0, "kernel", "2048");
        let file = parts.path("old.img");
        fs::write(&file, &old).expect("written");
        fs::create_dir(parts.path("aboot")).expect("made");
        run(Command::new("abootimg").current_dir(parts.path("aboot")).arg("-x").arg(&file));
        let kernel = fs::read(parts.path("aboot").join("zImage")).expect("theirs");
        assert_eq!(BootImage::parse(&old).expect("ours").part(Part::Kernel), kernel);
    }
}

/// Version 4, which the packaged reference tool does not make yet: as AOSP's `bootimg.h` lays it out.
#[test]
fn a_signature_goes_with_the_kernel_that_it_was_for() {
    let page = 4096;
    let mut bytes = b"ANDROID!".to_vec();
    for word in [5u32, 3, 0, 1584, 0, 0, 0, 0, 4] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(b"quiet");
    bytes.resize(1580, 0);
    bytes.extend_from_slice(&4096u32.to_le_bytes());
    for content in [&b"linux"[..], b"ram"] {
        bytes.resize(bytes.len().next_multiple_of(page), 0);
        bytes.extend_from_slice(content);
    }
    bytes.resize(bytes.len().next_multiple_of(page), 0);
    bytes.extend_from_slice(&[7; 4096]);
    let mut image = BootImage::parse(&bytes).expect("a boot image");
    assert_eq!((image.version(), image.command_line().as_str()), (4, "quiet"));
    assert_eq!((image.part(Part::Signature).len(), image.to_bytes() == bytes), (4096, true));
    image.replace_kernel(b"newer!".to_vec()).expect("replaced");
    let again = BootImage::parse(&image.to_bytes()).expect("it can be read");
    assert_eq!((again.part(Part::Kernel), again.part(Part::Ramdisk)), (&b"newer!"[..], &b"ram"[..]));
    assert!(again.part(Part::Signature).is_empty() && image.notes()[0].contains("signature"), "{image}");
    let cut = BootImage::parse(&bytes[..bytes.len() - 1]).expect_err("cut off").to_string();
    assert!(cut.contains("ends within its boot_signature"), "{cut}");
}

#[test]
fn the_recovery_overlay_keeps_its_place_behind_a_larger_kernel() {
    let page = 2048;
    let mut bytes = vec![0; page];
    bytes[..8].copy_from_slice(b"ANDROID!");
    let mut set = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    for (at, value) in [(8, 5), (16, 3), (36, 2048), (40, 1), (1632, 4), (1636, 3 * 2048), (1644, 1648)] {
        set(at, value);
    }
    for content in [&b"linux"[..], b"ram", b"dtbo"] {
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(page), 0);
    }
    let mut image = BootImage::parse(&bytes).expect("a boot image");
    assert_eq!((image.part(Part::RecoveryDtbo), image.to_bytes() == bytes), (&b"dtbo"[..], true));
    image.replace_kernel(vec![1; 3000]).expect("replaced");
    let made = image.to_bytes();
    let place =
        usize::try_from(u64::from_le_bytes(made[1636..1644].try_into().expect("8 bytes"))).expect("small");
    assert_eq!((place, &made[place..place + 4]), (4 * page, &b"dtbo"[..]));
}
