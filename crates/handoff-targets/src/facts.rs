//! What a target is: asked once, in one round trip.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// What is asked; each answer is a line `name value`, for which a hostile target may send anything.
pub(crate) const ASK: &str = "\
echo arch $(uname -m)
echo kernel $(uname -r)
echo boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
echo cpus $(grep -c '^processor' /proc/cpuinfo 2>/dev/null)
echo user $(id -u)
echo time $(date +%s)
echo folder \"$FOLDER\"
echo free $(df -Pk \"$FOLDER\" 2>/dev/null | tail -n 1 | awk '{print $4}')
";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The machine's architecture, as `uname -m` has it.
    pub arch: String,
    pub kernel: String,
    /// Changes with each boot; none if it is not known.
    pub boot_id: Option<String>,
    /// How many CPUs are online.
    pub cpus: Option<u32>,
    /// Whether commands run as root there.
    pub root: bool,
    /// How far its clock is from ours, in seconds: positive if it is ahead.
    pub clock_ahead_s: i64,
    /// The folder for programs, which is the user's alone.
    pub folder: String,
    /// What is free in the folder for programs, in KiB.
    pub free_kib: Option<u64>,
}

/// No answer is longer.
const LONGEST: usize = 200;

impl Facts {
    /// Reads the answers, which came `now`; the error says which makes no sense.
    pub(crate) fn parse(text: &str, now: SystemTime) -> Result<Self, String> {
        let find = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.map(str::trim).filter(|value| !value.is_empty() && value.len() <= LONGEST)
        };
        let word = |name: &str| {
            let sound = |c: char| c.is_ascii_graphic();
            let value = find(name).ok_or_else(|| format!("it does not say its {name}"))?;
            if value.chars().all(sound) {
                Ok(value.to_owned())
            } else {
                Err(format!("its {name} is {value:?}"))
            }
        };
        let here = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let there: i64 = word("time")?.parse().map_err(|_| "its time is no number".to_owned())?;
        Ok(Facts {
            arch: word("arch")?,
            kernel: word("kernel")?,
            boot_id: word("boot").ok(),
            cpus: word("cpus").ok().and_then(|count| count.parse().ok()),
            root: word("user")? == "0",
            clock_ahead_s: there.saturating_sub(i64::try_from(here).unwrap_or(i64::MAX)),
            folder: {
                // It may have blanks.
                let folder = find("folder").ok_or("it has no folder that this user alone can write to")?;
                if !folder.starts_with('/') || folder.chars().any(char::is_control) {
                    return Err(format!("its folder is {folder:?}"));
                }
                folder.to_owned()
            },
            free_kib: word("free").ok().and_then(|free| free.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWER: &str =
        "arch x86_64\nkernel 6.1.0\nboot 1-2\ncpus 2\nuser 0\ntime 1005\nfolder /a b\nfree 77\n";

    #[test]
    fn answers_are_read_by_name() {
        let facts = Facts::parse(ANSWER, UNIX_EPOCH + Duration::from_secs(1000)).expect("sound");
        assert_eq!((facts.arch.as_str(), facts.cpus, facts.root), ("x86_64", Some(2), true));
        assert_eq!(
            (facts.clock_ahead_s, facts.free_kib, facts.boot_id.as_deref()),
            (5, Some(77), Some("1-2"))
        );
        assert_eq!(facts.folder, "/a b");
        for folder in ["", "folder relative\n", "folder /a\u{1b}[2J\n"] {
            let answer = ANSWER.replace("folder /a b\n", folder);
            let error = Facts::parse(&answer, UNIX_EPOCH).expect_err("no folder");
            assert!(error.contains("folder"), "{error}");
        }
        let error = Facts::parse("kernel x\n", UNIX_EPOCH).expect_err("too little");
        assert!(error.contains("time"), "{error}");
    }

    proptest! {
        #[test]
        fn a_hostile_answer_is_an_error_or_sound(text in "\\PC{0,300}", cut in 0..ANSWER.len()) {
            for answer in [text.clone(), format!("{}{text}", &ANSWER[..cut])] {
                if let Ok(facts) = Facts::parse(&answer, UNIX_EPOCH) {
                    prop_assert!(facts.arch.chars().all(|c| c.is_ascii_graphic()));
                }
            }
        }
    }
}
