//! What a refusal with `EACCES` means: a security module said no, whatever the user's rights are.
//!
//! On Android that is the usual one: `sched_setaffinity(2)`, `sched_setattr(2)` and `ioprio_set(2)` on a task
//! of another domain need its policy to allow `process setsched`.

use crate::root::Root;
use std::io;

/// Names the security module and the permission that its policy lacks; `None` for other errors.
pub(crate) fn denial(source: &io::Error) -> Option<String> {
    (source.raw_os_error() == Some(libc::EACCES)).then(|| told(&Root::host()))
}

fn told(root: &Root) -> String {
    let enforces = root.number::<u8>("/sys/fs/selinux/enforce") == Some(1);
    if !enforces {
        return "a security module (such as SELinux or AppArmor) denies it; the kernel's log (dmesg) says which \
                rule"
            .to_owned();
    }
    let own = root.text("/proc/self/attr/current").unwrap_or_default();
    let domain = own.split(':').nth(2).unwrap_or("of this process").trim_end_matches('\0');
    format!(
        "SELinux denies it to the domain {domain}, which needs `allow {domain} DOMAIN:process setsched`, with the \
         other thread's DOMAIN; `avc: denied` in dmesg (logcat on Android) names both"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_the_domain_and_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(told(&root).contains("dmesg"));
        for (path, text) in
            [("sys/fs/selinux/enforce", "1"), ("proc/self/attr/current", "u:r:untrusted_app:s0:c512,c768\0")]
        {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert!(told(&root).contains("allow untrusted_app DOMAIN:process setsched"), "{}", told(&root));
        assert!(denial(&io::Error::from_raw_os_error(libc::EACCES)).is_some());
        assert!(denial(&io::Error::from_raw_os_error(libc::EPERM)).is_none());
    }
}
