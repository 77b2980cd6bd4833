//! Other people's transports, where this program was built with them.

use handoff_workloads::Placement;
use handoff_workloads::transports::OpenTransport;

/// Opens each of them; what cannot run here goes to `missing`.
#[cfg(not(feature = "peers"))]
pub(super) fn add(
    _: &mut Vec<Box<dyn OpenTransport>>,
    _: Placement,
    _: &mut Vec<String>,
) -> anyhow::Result<()> {
    anyhow::bail!(
        "this program was built without other people's transports: build it with \
         `cargo build --release -p handoff --features peers`, or run `cargo xtask bench peers`"
    )
}

/// Opens each of them; what cannot run here goes to `missing`.
#[cfg(feature = "peers")]
pub(super) fn add(
    transports: &mut Vec<Box<dyn OpenTransport>>,
    placement: Placement,
    missing: &mut Vec<String>,
) -> anyhow::Result<()> {
    for kind in handoff_peers::Kind::ALL {
        match handoff_peers::open(kind, placement) {
            Ok(transport) => transports.push(transport),
            Err(error) => missing.push(format!("{kind}: {error}")),
        }
    }
    Ok(())
}
