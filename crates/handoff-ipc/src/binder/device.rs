//! Where the driver's devices are, and what the driver behind one can do: asked of the kernel that
//! runs, not guessed from its version.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};

use super::binderfs::Binderfs;
use super::driver::Driver;
use super::uapi::{
    BC_REQUEST_FREEZE_NOTIFICATION, BC_TRANSACTION_SG, BINDER_FREEZE, BINDER_GET_EXTENDED_ERROR,
};
use crate::context::Context;
use crate::{Error, Result};

/// The variable that names a folder with devices, looked into before all others: a binderfs of one's own.
pub const FOLDER_VARIABLE: &str = "HANDOFF_BINDERFS";

/// The device of a context's driver: in the folder that [`FOLDER_VARIABLE`] names, else in `/dev`, in
/// `/dev/binderfs`, or in any other binderfs that is mounted.
///
/// # Errors
/// If there is none; the message says what this kernel has and what to do.
pub fn find_device(context: Context) -> Result<PathBuf> {
    find_among(context, std::env::var_os(FOLDER_VARIABLE), &Binderfs::mounted())
}

fn find_among(context: Context, chosen: Option<OsString>, mounted: &[PathBuf]) -> Result<PathBuf> {
    let name = context.device();
    let chosen = chosen.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let usual = ["/dev", "/dev/binderfs"].map(PathBuf::from);
    let is_chosen = chosen.is_some();
    // A folder that somebody chose is the only one: another driver is another context.
    let folders: Vec<PathBuf> = match chosen {
        Some(folder) => vec![folder],
        None => usual.into_iter().chain(mounted.iter().cloned()).collect(),
    };
    if let Some(found) = folders.iter().map(|folder| folder.join(name)).find(|device| device.exists()) {
        return Ok(found);
    }
    let why = match (is_chosen, folders.first()) {
        (true, Some(folder)) => format!(
            "${FOLDER_VARIABLE} is {}, which has no device called {name}; name the folder of a binderfs, or unset it",
            folder.display()
        ),
        _ if Binderfs::is_supported() => format!(
            "/dev/{name} is not there, but this kernel has binderfs; `mount -t binder binder FOLDER` as root makes \
             devices, and ${FOLDER_VARIABLE}=FOLDER names them"
        ),
        _ => format!(
            "this kernel has neither /dev/{name} nor binderfs; `handoff guest run` boots one that has the driver"
        ),
    };
    let source = io::Error::new(io::ErrorKind::NotFound, why);
    Err(Error::io(format!("there is no Binder driver for the {context} context"), source))
}

/// Which of the Binder drivers a kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Implementation {
    /// The driver in C, of mainline kernels since 2.6.29 and of most distributions. Lends a caller's nice value.
    C,
    /// The driver in C of Android's kernels, which lends a caller's policy and priority, too.
    Android,
    /// The driver in Rust, in mainline kernels since 6.18. Lends nothing.
    Rust,
    /// The kernel does not tell.
    Unknown,
}

impl Implementation {
    /// What the running kernel says of itself, in the folder of its modules.
    pub fn running() -> Self {
        Self::at(Path::new("/"))
    }

    /// The same for the machine whose `/sys` and `/proc` are in this folder.
    pub fn at(root: &Path) -> Self {
        let modules = root.join("sys/module");
        let release = read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        // A built-in driver has its folder there, too, because of its parameters. A kernel that holds both uses one,
        // and then says which in `binder.impl`.
        let chosen = read_to_string(modules.join("binder/parameters/impl")).unwrap_or_default();
        let has = |name: &str| modules.join(name).is_dir();
        match chosen.trim() {
            "rust" => Implementation::Rust,
            "" if has("rust_binder") => Implementation::Rust,
            "" if !(has("binder_linux") || has("binder") || has("binder_alloc")) => Implementation::Unknown,
            // Android's common kernels are called so: 6.6.30-android15-8.
            _ if release.contains("-android") => Implementation::Android,
            _ => Implementation::C,
        }
    }

    /// A word for it: `C`, `Android`, `Rust` or `unknown`.
    pub fn name(self) -> &'static str {
        match self {
            Implementation::C => "C",
            Implementation::Android => "Android",
            Implementation::Rust => "Rust",
            Implementation::Unknown => "unknown",
        }
    }
}

/// What the driver behind a device can do.
///
/// Where the driver lets it be told, each was asked for with arguments that cannot be read: a kernel that knows
/// the request says so (`EFAULT`), one that does not know it refuses it (`EINVAL`), and nothing changes either way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The device.
    pub device: PathBuf,
    /// Release of the kernel, such as `6.1.0-56-amd64`.
    pub kernel: String,
    /// Which driver it is.
    pub implementation: Implementation,
    /// `BINDER_CURRENT_PROTOCOL_VERSION`.
    pub protocol: i32,
    /// Buffers that are copied from where they are (`BC_TRANSACTION_SG`).
    pub scatter_gather: bool,
    /// Callers' security contexts (`BINDER_SET_CONTEXT_MGR_EXT`, `FLAT_BINDER_FLAG_TXN_SECURITY_CTX`). It cannot be
    /// asked for without a change, so this is told from `freeze`, which came after it. A security module that
    /// the driver can ask is needed too: SELinux is one, AppArmor of Linux 6.1 is not.
    pub security_context: bool,
    /// Processes can be frozen (`BINDER_FREEZE`).
    pub freeze: bool,
    /// Buffers that are cleared when they are freed (`TF_CLEAR_BUF`). The driver ignores flags that it
    /// does not know, so this is told from `freeze`, which came after it.
    pub clear_buffer: bool,
    /// Senders of too many oneway calls are told (`BR_ONEWAY_SPAM_SUSPECT`).
    pub oneway_spam_detection: bool,
    /// Reasons of failures (`BINDER_GET_EXTENDED_ERROR`).
    pub extended_error: bool,
    /// Holders of a reference hear when its process is frozen (`BR_FROZEN_BINDER`).
    pub freeze_notification: bool,
    /// What binderfs says in `features/`; empty where the device is not in one.
    pub binderfs: BTreeMap<String, bool>,
}

impl Features {
    /// Asks the driver behind a device.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of(device: &Path) -> Result<Self> {
        let driver = Driver::open(device)?;
        let freeze = driver.knows_request(BINDER_FREEZE);
        let binderfs = device.parent().map(Binderfs::at).and_then(Result::ok);
        Ok(Features {
            device: device.to_owned(),
            kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            implementation: Implementation::running(),
            protocol: super::uapi::PROTOCOL_VERSION,
            scatter_gather: driver.knows_command(BC_TRANSACTION_SG)?,
            security_context: freeze,
            freeze,
            clear_buffer: freeze,
            oneway_spam_detection: driver.detects_spam(),
            extended_error: driver.knows_request(BINDER_GET_EXTENDED_ERROR),
            freeze_notification: driver.knows_command(BC_REQUEST_FREEZE_NOTIFICATION)?,
            binderfs: binderfs.and_then(|binderfs| binderfs.features().ok()).unwrap_or_default(),
        })
    }

    /// Each feature's name, and whether it is there.
    pub fn named(&self) -> [(&'static str, bool); 7] {
        [
            ("scatter-gather", self.scatter_gather),
            ("security-context", self.security_context),
            ("freeze", self.freeze),
            ("clear-buffer", self.clear_buffer),
            ("oneway-spam-detection", self.oneway_spam_detection),
            ("extended-error", self.extended_error),
            ("freeze-notification", self.freeze_notification),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_where_it_is_and_missed_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hwbinder"), "").unwrap();
        let chosen = Some(folder.path().as_os_str().to_owned());
        let found = find_among(Context::Hardware, chosen.clone(), &[]).unwrap();
        assert_eq!(found, folder.path().join("hwbinder"));
        let missed = find_among(Context::Vendor, chosen, &[]).unwrap_err().to_string();
        assert!(missed.contains("HANDOFF_BINDERFS is") && missed.contains("vndbinder"), "{missed}");
        if !Path::new("/dev/hwbinder").exists() {
            let elsewhere = [PathBuf::from("/nowhere"), folder.path().to_owned()];
            let found = find_among(Context::Hardware, Some(OsString::new()), &elsewhere).unwrap();
            assert_eq!(found, folder.path().join("hwbinder"));
            let missed = find_among(Context::Hardware, None, &[]).unwrap_err().to_string();
            let (what, why) = missed.split_once(": ").unwrap();
            assert_eq!(what, "there is no Binder driver for the hardware context");
            assert!(why.contains("/dev/hwbinder") && !missed.contains("not found"), "{missed}");
            assert!(
                why.contains("; `handoff guest run` boots") || why.contains("; `mount -t binder"),
                "{missed}"
            );
        }
    }

    #[test]
    fn a_kernel_says_which_driver_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let module = |name: &str| std::fs::create_dir_all(root.join("sys/module").join(name)).unwrap();
        let release = |release: &str| {
            std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
            std::fs::write(root.join("proc/sys/kernel/osrelease"), release).unwrap();
        };
        assert_eq!(Implementation::at(root), Implementation::Unknown);
        module("binder_linux");
        assert_eq!(Implementation::at(root), Implementation::C);
        release("6.6.30-android15-8-g1234\n");
        assert_eq!(Implementation::at(root), Implementation::Android);
        module("rust_binder");
        assert_eq!(Implementation::at(root), Implementation::Rust);
        module("binder/parameters");
        std::fs::write(root.join("sys/module/binder/parameters/impl"), "c\n").unwrap();
        assert_eq!(Implementation::at(root), Implementation::Android, "it holds both, and uses one");
        release("7.3.4");
        assert_eq!(Implementation::at(root), Implementation::C);
    }

    #[test]
    fn a_file_that_is_no_driver_is_refused() {
        let error = Features::of(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null is no Binder driver"), "{error}");
    }
}
