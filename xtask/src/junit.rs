//! JUnit's XML as cargo-nextest writes it: what became of each test, and what those printed that failed.

/// One test and its last try.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Case {
    /// The program and the test, such as `handoff-ipc::it calls::echo`.
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) failed: bool,
    /// How many tries failed before the last.
    pub(crate) tries_before: usize,
    /// Why a try failed, as its panic says.
    pub(crate) why: String,
    pub(crate) output: String,
}

/// The tests that a report names.
pub(crate) fn read(report: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut inside: Vec<String> = Vec::new();
    let mut rest = report;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        if let (Some(case), Some(element)) = (cases.last_mut(), inside.last()) {
            let repeated = inside.iter().any(|element| element.starts_with("rerun"));
            if !repeated {
                take_text(case, element, &unescaped(text));
            }
        }
        rest = &rest[start..];
        let Some(end) = end_of_tag(rest) else { break };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('/') {
            inside.pop();
        } else if !tag.starts_with(['?', '!']) {
            let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
            open(&mut cases, name, tag);
            if !tag.ends_with('/') {
                inside.push(name.to_owned());
            }
        }
    }
    cases
}

/// Where the tag ends that `text` begins with: a quoted value may hold a `>`.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.find(|c| {
        quoted ^= c == '"';
        c == '>' && !quoted
    })
}

fn open(cases: &mut Vec<Case>, element: &str, tag: &str) {
    if element == "testcase" {
        let value = |name| attribute(tag, name).unwrap_or_default();
        let name = format!("{} {}", value("classname"), value("name"));
        let seconds = value("time").parse().unwrap_or_default();
        cases.push(Case { name, seconds, ..Case::default() });
        return;
    }
    let Some(case) = cases.last_mut() else { return };
    match element {
        "failure" | "error" => case.failed = true,
        "flakyFailure" | "flakyError" => case.tries_before += 1,
        "rerunFailure" | "rerunError" => {
            case.tries_before += 1;
            return;
        }
        _ => return,
    }
    case.why = attribute(tag, "message").or_else(|| attribute(tag, "type")).unwrap_or_default();
    case.output.clear();
}

/// What a try that failed printed, and its panic: the message of that is longer than the attribute of the name.
fn take_text(case: &mut Case, element: &str, text: &str) {
    let text = text.trim();
    match element {
        _ if text.is_empty() => {}
        "system-out" | "system-err" => {
            case.output.push_str(text);
            case.output.push('\n');
        }
        "failure" | "flakyFailure" => case.why = text.to_owned(),
        _ => {}
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(unescaped(rest.split_once('"')?.0))
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    let text = text.replace("&#10;", "\n").replace("&#xA;", "\n").replace("&#9;", "\t");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1">
    <testsuite name="a::it" tests="3">
        <testcase name="m::good" classname="a::it" time="0.500">
        </testcase>
        <testcase name="m::shaky" classname="a::it" time="1.250">
            <flakyFailure timestamp="t" time="2.0" message="thread 'm' panicked: 1 &gt; 0" type="test failure">thread 'm' panicked:
1 &gt; 0
                <system-err>at the first try</system-err>
            </flakyFailure>
        </testcase>
        <testcase name="m::bad" classname="a::it" time="3.000">
            <failure message="panicked > here" type="test failure"></failure>
            <rerunFailure message="panicked again" type="test failure"/>
            <system-out>running 1 test</system-out>
            <system-err>left: &quot;a &amp;amp; b&quot;</system-err>
        </testcase>
    </testsuite>
</testsuites>"#;

    #[test]
    fn tests_that_passed_failed_and_passed_again_are_told_apart() {
        let cases = read(REPORT);
        let told: Vec<_> =
            cases.iter().map(|case| (case.name.as_str(), case.failed, case.tries_before)).collect();
        assert_eq!(
            told,
            [("a::it m::good", false, 0), ("a::it m::shaky", false, 1), ("a::it m::bad", true, 1)]
        );
        assert_eq!(cases[1].why, "thread 'm' panicked:\n1 > 0");
        assert_eq!(cases[1].output, "at the first try\n");
        assert_eq!(cases[2].why, "panicked > here");
        assert_eq!(cases[2].output, "running 1 test\nleft: \"a &amp; b\"\n");
        assert!((cases[1].seconds - 1.25).abs() < 1e-9);
    }

    #[test]
    fn a_report_that_is_cut_off_gives_what_is_there() {
        assert_eq!(read(""), []);
        for end in 0..REPORT.len() {
            assert!(read(&REPORT[..end]).len() <= 3);
        }
    }
}
