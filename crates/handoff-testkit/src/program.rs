//! The static program that tests run in a guest of another architecture.

use std::path::PathBuf;
use std::process::Command;

use crate::require_tool;

/// The static `handoff` for `arch` (`x86-64` or `arm64`), built unless that was done; gives its path.
///
/// `cargo xtask dist` builds it, with Debian's packages where the toolchain lacks the target, and
/// cargo builds again only what changed since. Tests that need it at the same time wait for the first.
///
/// # Errors
///
/// The reason for a skip, where there is no way to build for that architecture.
///
/// # Panics
///
/// If it can be built here and does not compile.
pub fn require_static_handoff(arch: &str) -> Result<PathBuf, String> {
    require_tool("apt-get")?;
    require_tool("dpkg-deb")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--locked", "--package", "xtask", "--"])
        // Nothing of what `--lean` leaves out is for a guest, and it takes half of the time.
        .args(["dist", "--profile", "dev", "--lean", "--arch", arch])
        .output()
        .map_err(|error| format!("needs cargo to build handoff for {arch}: {error}"))?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && errors.contains(NO_COMPILER) {
        return Err(format!(
            "needs a compiler for {arch}: {}",
            errors.trim().lines().last().unwrap_or_default()
        ));
    }
    assert!(output.status.success(), "handoff for {arch} was not built:\n{said}\n{errors}");
    let path = said.lines().last().and_then(|line| line.split_whitespace().last());
    Ok(PathBuf::from(path.expect("xtask says where it is")))
}

/// What `cargo xtask dist` says where it cannot build for an architecture.
const NO_COMPILER: &str = "no compiler for this architecture";
