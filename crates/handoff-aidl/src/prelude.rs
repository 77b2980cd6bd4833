//! Types that Android's own packages define and that interfaces use without bringing them along.

use std::path::{Path, PathBuf};

/// Where these files seem to be.
const FOLDER: &str = "<handoff>";
/// What HIDL's `handle` is.
pub(crate) const NATIVE_HANDLE: &str = "android/hardware/common/NativeHandle.aidl";

/// The file that defines what AIDL's type `ParcelableHolder` stands for.
pub(crate) const HOLDER: &str = "android/os/ParcelableHolder.aidl";

/// The file that defines `PersistableBundle`, for interfaces that import it.
const BUNDLE: &str = "android/os/PersistableBundle.aidl";

const FILES: [(&str, &str); 9] = [
    (HOLDER, include_str!("prelude/ParcelableHolder.aidl")),
    (BUNDLE, include_str!("prelude/PersistableBundle.aidl")),
    (NATIVE_HANDLE, include_str!("prelude/NativeHandle.aidl")),
    ("android/hardware/common/Ashmem.aidl", include_str!("prelude/Ashmem.aidl")),
    ("android/hardware/common/MappableFile.aidl", include_str!("prelude/MappableFile.aidl")),
    ("android/hardware/common/fmq/GrantorDescriptor.aidl", include_str!("prelude/GrantorDescriptor.aidl")),
    ("android/hardware/common/fmq/MQDescriptor.aidl", include_str!("prelude/MQDescriptor.aidl")),
    (
        "android/hardware/common/fmq/SynchronizedReadWrite.aidl",
        include_str!("prelude/SynchronizedReadWrite.aidl"),
    ),
    (
        "android/hardware/common/fmq/UnsynchronizedWrite.aidl",
        include_str!("prelude/UnsynchronizedWrite.aidl"),
    ),
];

/// The path under which a file of ours is known.
pub(crate) fn path(relative: &Path) -> PathBuf {
    Path::new(FOLDER).join(relative)
}

/// Whether a file is ours.
pub(crate) fn is_ours(path: &Path) -> bool {
    text(path).is_some()
}

/// The text of a file of ours.
pub(crate) fn text(path: &Path) -> Option<&'static str> {
    let relative = path.strip_prefix(FOLDER).ok()?;
    FILES.iter().find(|(name, _)| Path::new(name) == relative).map(|(_, text)| *text)
}
