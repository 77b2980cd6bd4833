//! The core designs that `MIDR_EL1` names, and how large each is.
//!
//! Part numbers: Arm's Technical Reference Manuals, also `arch/arm64/include/asm/cputype.h` in Linux.

/// Arm Ltd., in bits 24 to 31.
const ARM: u64 = 0x41;

/// (part, name, tier): tier 1 is an in-order or efficiency core, 3 the largest of its time.
const PARTS: &[(u64, &str, u64)] = &[
    (0xd03, "Cortex-A53", 1),
    (0xd04, "Cortex-A35", 1),
    (0xd05, "Cortex-A55", 1),
    (0xd46, "Cortex-A510", 1),
    (0xd80, "Cortex-A520", 1),
    (0xd07, "Cortex-A57", 2),
    (0xd08, "Cortex-A72", 2),
    (0xd09, "Cortex-A73", 2),
    (0xd0a, "Cortex-A75", 2),
    (0xd0b, "Cortex-A76", 2),
    (0xd0c, "Neoverse-N1", 2),
    (0xd0d, "Cortex-A77", 2),
    (0xd41, "Cortex-A78", 2),
    (0xd47, "Cortex-A710", 2),
    (0xd49, "Neoverse-N2", 2),
    (0xd4d, "Cortex-A715", 2),
    (0xd81, "Cortex-A720", 2),
    (0xd87, "Cortex-A725", 2),
    (0xd40, "Neoverse-V1", 3),
    (0xd44, "Cortex-X1", 3),
    (0xd48, "Cortex-X2", 3),
    (0xd4e, "Cortex-X3", 3),
    (0xd4f, "Neoverse-V2", 3),
    (0xd82, "Cortex-X4", 3),
    (0xd85, "Cortex-X925", 3),
];

/// The name and tier of a core; `None` for one that is not Arm's own or not in the list.
pub(super) fn design(midr: u64) -> Option<(&'static str, u64)> {
    if midr >> 24 & 0xff != ARM {
        return None;
    }
    let part = midr >> 4 & 0xfff;
    PARTS.iter().find(|(number, ..)| *number == part).map(|&(_, name, tier)| (name, tier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_are_found_by_part_whatever_the_revision() {
        assert_eq!(design(0x410f_d034), Some(("Cortex-A53", 1)));
        assert_eq!(design(0x411f_d070), Some(("Cortex-A57", 2)));
        assert_eq!(design(0x511f_8041), None, "another maker's");
        assert_eq!(design(0), None);
    }
}
