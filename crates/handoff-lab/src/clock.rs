//! The time of day for people.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in UTC, as RFC 3339 has it: `2026-01-31T12:00:00Z`.
pub fn timestamp() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format(seconds)
}

/// Seconds since 1970 as a date, by Howard Hinnant's "chrono-compatible low-level date algorithms".
fn format(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months are counted from March, so that the leap day is the last of its year.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Seconds since 1970 of what [`timestamp`] wrote; none if it is anything else.
pub fn seconds_of(timestamp: &str) -> Option<u64> {
    let number = |from: usize, to: usize| timestamp.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let year = year.checked_sub(u64::from(month <= 2))?;
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    let seconds = days * 86_400 + number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    // Written again it is the same, or it was no date (the 31st of June, say) or not written here.
    (format(seconds) == timestamp).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From `date -u -d @SECONDS`.
    #[test]
    fn dates() {
        assert_eq!(format(0), "1970-01-01T00:00:00Z");
        assert_eq!(format(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format(1_795_230_536), "2026-11-21T03:08:56Z");
        assert_eq!(format(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(format(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "2026-11-21", "2026-06-31T00:00:00Z", "2026-11-21T24:00:00Z", "0000-01-01T00:00:00Z"]
        {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn dates_are_read_back(seconds in 0_u64..250_000_000_000) {
            prop_assert_eq!(seconds_of(&format(seconds)), Some(seconds));
        }

        #[test]
        fn any_text_is_read(text in "([0-9]{2}|[-:TZ ]|\\PC){0,24}") {
            let _ = seconds_of(&text);
        }
    }
}
