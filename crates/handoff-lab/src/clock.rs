//! The time of day for people.

use std::time::{SystemTime, UNIX_EPOCH};

use humantime::{format_rfc3339_seconds, parse_rfc3339};

/// Now, in UTC, as RFC 3339 has it: `2026-01-31T12:00:00Z`.
pub fn timestamp() -> String {
    format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Seconds since 1970 of what [`timestamp`] wrote; none if it is no such date.
pub fn seconds_of(timestamp: &str) -> Option<u64> {
    Some(parse_rfc3339(timestamp).ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_written_is_read_back() {
        // From `date -u -d @SECONDS`.
        assert_eq!(seconds_of("2026-11-21T03:08:56Z"), Some(1_795_230_536));
        let read = seconds_of(&timestamp()).map(Duration::from_secs).expect("a date");
        let age = SystemTime::now().duration_since(UNIX_EPOCH + read).expect("not in the future");
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "2026-11-21", "2026-06-31T00:00:00Z", "2026-11-21T24:00:00Z", "0000-01-01T00:00:00Z"]
        {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }
}
