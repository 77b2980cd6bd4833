//! QEMU's command line for a guest.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fdt::Tree;
use super::protocol::Port;
use super::topology::{Smp, set_capacities};
use super::{Arch, GuestError, apt};

/// All that QEMU has to know of a guest.
#[derive(Debug, Clone)]
pub(crate) struct GuestMachine {
    pub(crate) arch: Arch,
    pub(crate) qemu: PathBuf,
    pub(crate) kvm: bool,
    pub(crate) smp: Smp,
    pub(crate) memory_mib: u32,
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    /// What the kernel's command line holds besides our own.
    pub(crate) append: Vec<String>,
    pub(crate) capacities: Vec<u32>,
    /// One instruction of the guest takes a fixed time of its clock.
    pub(crate) icount: bool,
    /// All emulated CPUs share one thread.
    pub(crate) in_turn: bool,
    pub(crate) quiet: bool,
    /// Arguments that the user added.
    pub(crate) extra: Vec<OsString>,
}

/// Where the guest's console and ports go.
pub(crate) enum Wiring<'a> {
    /// Each to a Unix socket that is listened on in this folder.
    Sockets(&'a Path),
    /// The console to this terminal, no ports.
    Terminal,
}

impl GuestMachine {
    /// The command that runs the guest; edits the machine's device tree first if that is asked for.
    pub(crate) fn command(&self, wiring: &Wiring<'_>, area: &Path) -> Result<Command, GuestError> {
        let mut command = Command::new(&self.qemu);
        command.args(self.arguments(wiring));
        if !self.capacities.is_empty() {
            let tree = self.device_tree(area)?;
            command.arg("-dtb").arg(tree);
        }
        command.args(&self.extra);
        Ok(command)
    }

    fn arguments(&self, wiring: &Wiring<'_>) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        add("-machine", self.machine().into());
        add("-accel", self.accelerator().into());
        add("-cpu", self.processor().into());
        if self.icount {
            add("-icount", "shift=1,sleep=off".into());
        }
        add("-smp", self.smp.to_string().into());
        add("-m", format!("{}M", self.memory_mib).into());
        add("-kernel", self.kernel.clone().into());
        add("-initrd", self.initrd.clone().into());
        let mode = if matches!(wiring, Wiring::Terminal) { "shell" } else { "serve" };
        add("-append", self.command_line(mode).into());
        match wiring {
            Wiring::Terminal => {
                add("-chardev", "stdio,id=console,signal=off,mux=on".into());
                add("-mon", "chardev=console".into());
            }
            Wiring::Sockets(folder) => {
                add("-chardev", socket("console", &folder.join("console")));
                add("-device", "virtio-serial-pci".into());
                for port in Port::ALL {
                    let name = port.name();
                    add("-chardev", socket(name, &folder.join(name)));
                    add("-device", format!("virtserialport,chardev={name},name=handoff.{name}").into());
                }
            }
        }
        add("-serial", "chardev:console".into());
        let flags = ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"];
        arguments.extend(flags.map(OsString::from));
        arguments
    }

    fn machine(&self) -> &'static str {
        match (self.arch, self.kvm) {
            (Arch::X86_64, _) => "pc",
            (Arch::Arm64, true) => "virt,gic-version=host",
            (Arch::Arm64, false) => "virt,gic-version=3",
        }
    }

    fn accelerator(&self) -> &'static str {
        match (self.kvm, self.in_turn || self.icount) {
            (true, _) => "kvm",
            // Counted instructions need all CPUs in one thread.
            (false, true) => "tcg,thread=single",
            (false, false) => "tcg,thread=multi",
        }
    }

    fn processor(&self) -> &'static str {
        match (self.kvm, self.arch) {
            (true, _) => "host",
            (false, Arch::X86_64) => "max",
            // "max" spends much of its time on pointer authentication.
            (false, Arch::Arm64) => "cortex-a57",
        }
    }

    fn command_line(&self, mode: &str) -> String {
        let mut words = vec![format!("console={}", self.arch.console()), "panic=-1".to_owned()];
        if self.arch == Arch::X86_64 {
            // The check counts ticks in a loop of its own, and fails where a busy host gives the
            // guest too little time: a panic that says nothing of the kernel.
            words.push("no_timer_check".to_owned());
        }
        if self.quiet {
            words.push("quiet".to_owned());
        }
        words.push(format!("handoff.mode={mode}"));
        // The user's come last, so that they win.
        words.extend(self.append.iter().cloned());
        words.join(" ")
    }

    /// Has QEMU write the machine's device tree, sets the capacities and gives the file.
    fn device_tree(&self, area: &Path) -> Result<PathBuf, GuestError> {
        let file = area.join("machine.dtb");
        let machine = format!("{},dumpdtb={}", self.machine(), file.display());
        let output = Command::new(&self.qemu)
            .args(["-machine", &machine, "-cpu", self.processor(), "-smp", &self.smp.to_string()])
            .args(["-m", &format!("{}M", self.memory_mib), "-nodefaults", "-display", "none"])
            .stdin(Stdio::null())
            .output()
            .map_err(GuestError::io("run", &self.qemu))?;
        if !output.status.success() {
            return Err(GuestError::DeviceTree(format!("QEMU: {}", apt::last_lines(&output.stderr))));
        }
        let blob = std::fs::read(&file).map_err(GuestError::io("read", &file))?;
        let mut tree = Tree::parse(&blob)?;
        set_capacities(&mut tree, &self.capacities)?;
        std::fs::write(&file, tree.to_bytes()).map_err(GuestError::io("write", &file))?;
        Ok(file)
    }
}

/// The `-chardev` value for a socket that is listened on; a comma in QEMU's options is written twice.
fn socket(id: &str, path: &Path) -> OsString {
    let mut value = format!("socket,id={id},server=off,path=").into_bytes();
    for byte in path.as_os_str().as_bytes() {
        value.push(*byte);
        if *byte == b',' {
            value.push(b',');
        }
    }
    OsString::from_vec(value)
}

/// Finds QEMU's emulator for guests of this architecture.
pub(crate) fn find_qemu(arch: Arch) -> Result<PathBuf, GuestError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(arch.qemu()))
        .find(|file| file.is_file())
        .ok_or_else(|| GuestError::MissingTool {
            tool: arch.qemu().to_owned(),
            advice: format!("on Debian and Ubuntu run `apt-get install {}`", arch.qemu_package()),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> GuestMachine {
        GuestMachine {
            arch: Arch::Arm64,
            qemu: "/q".into(),
            kvm: false,
            smp: "2".parse().expect("two"),
            memory_mib: 512,
            kernel: "/k".into(),
            initrd: "/i".into(),
            append: vec!["isolcpus=1".into()],
            capacities: Vec::new(),
            icount: false,
            in_turn: false,
            quiet: true,
            extra: vec!["-s".into()],
        }
    }

    fn words(machine: &GuestMachine, wiring: &Wiring<'_>) -> Vec<String> {
        let command = machine.command(wiring, Path::new("/area")).expect("a command");
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_users_arguments_come_last() {
        let words = words(&machine(), &Wiring::Sockets(Path::new("/a,b")));
        assert_eq!(words.last().map(String::as_str), Some("-s"));
        assert!(words.contains(&"socket,id=cmd,server=off,path=/a,,b/cmd".to_owned()), "{words:?}");
        let append = words.iter().find(|word| word.starts_with("console=")).expect("a command line");
        assert_eq!(append, "console=ttyAMA0 panic=-1 quiet handoff.mode=serve isolcpus=1");
    }

    #[test]
    fn a_shell_has_no_ports() {
        let words = words(&machine(), &Wiring::Terminal);
        assert!(!words.iter().any(|word| word.contains("virtserialport")));
        assert!(words.iter().any(|word| word.contains("handoff.mode=shell")));
    }

    #[test]
    fn cpus_that_take_turns_share_a_thread() {
        for (in_turn, thread) in [(true, "tcg,thread=single"), (false, "tcg,thread=multi")] {
            let machine = GuestMachine { in_turn, ..machine() };
            assert!(words(&machine, &Wiring::Terminal).contains(&thread.to_owned()));
        }
    }

    #[test]
    fn counted_instructions_run_in_one_thread() {
        let machine = GuestMachine { icount: true, ..machine() };
        let words = words(&machine, &Wiring::Terminal);
        assert!(words.contains(&"tcg,thread=single".to_owned()) && words.contains(&"-icount".to_owned()));
    }
}
