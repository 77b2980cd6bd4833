//! Counters that a kernel shows as text, read before and after a load.

/// The value of a counter in the texts of `/proc/net/netstat` and `/proc/net/snmp`, by nstat's name.
pub(super) fn network(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    while let Some(heads) = lines.next() {
        let Some((group, names)) = heads.split_once(": ") else { continue };
        let Some(values) = lines.next().and_then(|line| line.strip_prefix(group)?.strip_prefix(": ")) else {
            continue;
        };
        let Some(wanted) = name.strip_prefix(group) else { continue };
        let found = names.split_whitespace().zip(values.split_whitespace()).find(|(head, _)| *head == wanted);
        if let Some((_, value)) = found {
            return value.parse().ok();
        }
    }
    None
}

/// A counter of `/proc/schedstat`, over all domains of all CPUs.
///
/// The last three of a domain's line have had these names and places since version 15 of the file.
pub(super) fn scheduler(text: &str, name: &str) -> Option<f64> {
    const LAST: [&str; 3] = ["ttwu_move_balance", "ttwu_move_affine", "ttwu_wake_remote"];
    let from_end = LAST.iter().position(|last| *last == name)?;
    let values: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("domain"))
        .filter_map(|line| line.split_whitespace().rev().nth(from_end)?.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// A line of `/proc/vmstat`.
pub(super) fn memory(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

pub(super) fn first_number(text: &str) -> Option<f64> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.')).find_map(|word| word.parse().ok())
}

/// How often the function profiler saw each function: the sum over its tables, one a CPU.
pub(super) fn profile(tables: &str, function: &str) -> f64 {
    let hits = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(function)).then(|| words.next()?.parse::<f64>().ok()).flatten()
    };
    tables.lines().filter_map(hits).sum()
}

/// Events that were written to a ring buffer, those that later ones replaced included.
pub(super) fn events(stats: &str) -> f64 {
    let of = |key: &str| {
        stats.lines().filter_map(move |line| line.strip_prefix(key)?.trim().parse::<f64>().ok()).sum::<f64>()
    };
    of("entries:") + of("overrun:") + of("dropped events:")
}

/// The counter of this name in what a workload printed as JSON.
pub(super) fn result(output: &str, name: &str) -> Option<f64> {
    let value: serde_json::Value = serde_json::from_str(output).ok()?;
    let counters = value.get("counters")?.as_array()?;
    counters.iter().find(|counter| counter["name"] == name)?.get("value")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let netstat = "TcpExt: SyncookiesSent TCPAutoCorking\nTcpExt: 3 236\nIpExt: InOctets\nIpExt: 9\n";
        assert_eq!(network(netstat, "TcpExtTCPAutoCorking"), Some(236.0));
        assert_eq!(network(netstat, "IpExtInOctets"), Some(9.0));
        assert_eq!(network(netstat, "TcpExtNone"), None);
        assert_eq!(memory("nr_free 5\npgfault 77\n", "pgfault"), Some(77.0));
        assert_eq!(first_number("a: 12.5 7"), Some(12.5));
        assert_eq!(first_number("none"), None);
    }

    #[test]
    fn counters_of_the_scheduler_are_summed() {
        let text = "version 15\ncpu0 0 0 0\ndomain0 3 1 2 40 5 6\ncpu1 0\ndomain0 3 1 2 2 1 1\n";
        assert_eq!(scheduler(text, "ttwu_wake_remote"), Some(42.0));
        assert_eq!(scheduler(text, "ttwu_move_affine"), Some(6.0));
        assert_eq!(scheduler(text, "ttwu_move_balance"), Some(7.0));
        assert_eq!(scheduler("version 15\ncpu0 1\n", "ttwu_move_affine"), None);
        assert_eq!(scheduler(text, "other"), None);
    }

    #[test]
    fn hits_and_events_are_summed_over_cpus() {
        let tables = "  Function    Hit    Time\n  --------  ---  ---\n  wake_wide  10  5.0 us\n  wake_wider 7 1 us\n\
                      \n  Function Hit\n  wake_wide    4\n";
        assert_eq!(profile(tables, "wake_wide"), 14.0);
        assert_eq!(profile(tables, "absent"), 0.0);
        assert_eq!(
            events("entries: 3\noverrun: 40\ncommit overrun: 9\ndropped events: 1\nentries: 2\n"),
            46.0
        );
    }

    #[test]
    fn a_result_has_its_own_counters() {
        let json = r#"{"workload":"x","counters":[{"name":"a","value":5},{"name":"b","why_not":"no"}]}"#;
        assert_eq!((result(json, "a"), result(json, "b"), result("no json", "a")), (Some(5.0), None, None));
    }
}
