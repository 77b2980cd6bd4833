//! The SNMP counters of a network namespace, named as `nstat` names them.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::outcome::Counter;

/// All counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counters(BTreeMap<String, i64>);

impl Counters {
    /// Those of the calling thread's namespace.
    pub(crate) fn read() -> Result<Self> {
        let mut counters = BTreeMap::new();
        for file in ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"] {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Error::io(format!("cannot read {file}"), error))?;
            parse(&text, &mut counters);
        }
        Ok(Counters(counters))
    }

    /// One of them, such as `TcpExtTCPAutoCorking`.
    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// What has grown since `before`, and `always` even if it has not.
    pub(crate) fn since(&self, before: &Counters, always: &[&str]) -> Vec<Counter> {
        let grown = |(name, &now): (&String, &i64)| {
            let growth = now.saturating_sub(before.0.get(name).copied().unwrap_or(0));
            let growth = u64::try_from(growth).unwrap_or(0);
            let wanted = growth > 0 || always.contains(&name.as_str());
            wanted.then(|| Counter::new(name.clone(), Ok(growth)))
        };
        let mut counters: Vec<Counter> = self.0.iter().filter_map(grown).collect();
        for name in always {
            if !self.0.contains_key(*name) {
                counters.push(Counter::new(*name, Err("not supported".to_owned())));
            }
        }
        counters
    }
}

/// Lines come in pairs: `Prefix: name name ...`, then `Prefix: number number ...`.
fn parse(text: &str, into: &mut BTreeMap<String, i64>) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((prefix, names)), Some((same, values))) = (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if prefix == same {
            let pairs = names.split_whitespace().zip(values.split_whitespace());
            into.extend(
                pairs.filter_map(|(name, value)| Some((format!("{prefix}{name}"), value.parse().ok()?))),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Counters {
        let mut counters = BTreeMap::new();
        parse(text, &mut counters);
        Counters(counters)
    }

    #[test]
    fn growth_is_named_as_nstat_names_it() {
        let before = parsed("Tcp: MaxConn OutSegs\nTcp: -1 10\nTcpExt: TCPAutoCorking Same\nTcpExt: 5 7\n");
        let after = parsed("Tcp: MaxConn OutSegs\nTcp: -1 25\nTcpExt: TCPAutoCorking Same\nTcpExt: 5 7\n");
        let grown = after.since(&before, &["TcpExtTCPAutoCorking", "TcpExtNoSuch"]);
        let expected = [
            Counter::new("TcpExtTCPAutoCorking", Ok(0)),
            Counter::new("TcpOutSegs", Ok(15)),
            Counter::new("TcpExtNoSuch", Err("not supported".into())),
        ];
        assert_eq!(grown, expected);
    }

    #[test]
    fn this_machine_has_counters() {
        assert!(Counters::read().expect("procfs").get("TcpOutSegs").is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_text_makes_it_panic(text in "[A-Za-z: \n0-9-]{0,200}") {
            parsed(&text);
        }
    }
}
