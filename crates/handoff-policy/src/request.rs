//! What may be said to the daemon: one line of text.

use handoff_placement::Tid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Foreground {
        pid: Tid,
        on: bool,
    },
    Service {
        pid: Tid,
        name: String,
    },
    /// What is known of a process, placed or not.
    Process {
        pid: Tid,
    },
    Status,
}

impl Request {
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let mut pid = || {
            let word = words.next().unwrap_or_default();
            word.parse()
                .ok()
                .and_then(Tid::new)
                .ok_or_else(|| format!("`{}` is not a process", printable(word)))
        };
        let request = match verb {
            "foreground" => {
                let pid = pid()?;
                match words.next() {
                    Some("on") => Self::Foreground { pid, on: true },
                    Some("off") => Self::Foreground { pid, on: false },
                    _ => return Err("say `foreground PID on` or `foreground PID off`".to_owned()),
                }
            }
            "service" => {
                let pid = pid()?;
                let name = words.next().ok_or("say `service PID NAME`")?.to_owned();
                Self::Service { pid, name }
            }
            "process" => Self::Process { pid: pid()? },
            "status" => Self::Status,
            _ => return Err(format!("`{}` is not foreground, service, process or status", printable(verb))),
        };
        if words.next().is_some() {
            Err("there is more on the line than is understood".to_owned())
        } else {
            Ok(request)
        }
    }

    /// The process that it speaks for.
    pub(super) fn pid(&self) -> Option<Tid> {
        match self {
            Self::Foreground { pid, .. } | Self::Service { pid, .. } => Some(*pid),
            Self::Process { .. } | Self::Status => None,
        }
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_or_refused_with_a_reason() {
        let pid = Tid::new(7).unwrap();
        assert_eq!(Request::parse("foreground 7 on"), Ok(Request::Foreground { pid, on: true }));
        assert_eq!(Request::parse(" service 7 maps "), Ok(Request::Service { pid, name: "maps".to_owned() }));
        assert_eq!(Request::parse("process 7"), Ok(Request::Process { pid }));
        assert_eq!(Request::parse("status"), Ok(Request::Status));
        for (line, says) in [
            ("", "not foreground"),
            ("foreground", "not a process"),
            ("foreground 0 on", "not a process"),
            ("foreground -7 on", "not a process"),
            ("foreground 7", "on` or"),
            ("foreground 7 on and on", "more on the line"),
            ("service 7", "service PID NAME"),
            ("process", "not a process"),
        ] {
            let error = Request::parse(line).unwrap_err();
            assert!(error.contains(says), "{line:?}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_line_is_read_or_refused(line in "(foreground|service|process|status)? ?-?[0-9]{0,12} ?[a-z]{0,4}|\\PC{0,20}") {
            let _ = Request::parse(&line);
        }
    }
}
