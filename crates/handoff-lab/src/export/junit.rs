//! JUnit's XML, which the pages of CI systems show: a test for each metric.

use std::fmt::Write as _;

use crate::experiment::result::{ExperimentResult, MetricResult};
use crate::report::chart::escape;
use crate::report::experiment::text;
use crate::stats::judge::Verdict;

/// Experiments, a suite each: a metric that is worse is a failure, one that may not be judged an error, one without enough
/// evidence or without a ratio skipped. What the lab prints stands below.
pub fn of_experiments(results: &[ExperimentResult]) -> String {
    let suites: String = results.iter().map(suite).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{suites}</testsuites>\n")
}

fn suite(result: &ExperimentResult) -> String {
    let title = escape(&result.header.title);
    let mut cases = String::new();
    let mut counts = [("failures", 0), ("errors", 0), ("skipped", 0)];
    for metric in result.metrics() {
        let kind = kind(metric);
        let name = escape(&metric.name_with_unit());
        let message = escape(&metric.sentence);
        // Its metrics were measured together: only the experiment has a time.
        write!(cases, "    <testcase classname=\"{title}\" name=\"{name}\">")
            .expect("a string takes everything");
        if let Some((index, element)) = kind {
            counts[index].1 += 1;
            let word = metric.judgement.verdict.word();
            // What is skipped has no type.
            let kind = if element == "skipped" { String::new() } else { format!(" type=\"{word}\"") };
            write!(cases, "<{element} message=\"{message}\"{kind}/>").expect("a string takes everything");
        } else {
            write!(cases, "<system-out>{message}</system-out>").expect("a string takes everything");
        }
        cases.push_str("</testcase>\n");
    }
    for reason in &result.unusable {
        counts[2].1 += 1;
        // A reason begins with its metric, whose name may have spaces.
        let end = [" was ", " is "].iter().filter_map(|word| reason.find(word)).min().unwrap_or(reason.len());
        let name = escape(&reason[..end]);
        let reason = escape(reason);
        writeln!(
            cases,
            "    <testcase classname=\"{title}\" name=\"{name}\"><skipped message=\"{reason}\"/></testcase>"
        )
        .expect("a string takes everything");
    }
    let tests = result.metrics().count() + result.unusable.len();
    let counts = counts.map(|(name, count)| format!(" {name}=\"{count}\"")).concat();
    format!(
        "  <testsuite name=\"{title}\" tests=\"{tests}\"{counts} time=\"{:.3}\" timestamp=\"{}\">\n{cases}    \
         <system-out>{}</system-out>\n  </testsuite>\n",
        result.seconds,
        escape(&result.header.started),
        escape(&text(result)),
    )
}

/// Which count a metric is in, and its element; `None` if it passed.
fn kind(metric: &MetricResult) -> Option<(usize, &'static str)> {
    match metric.judgement.verdict {
        Verdict::Improved | Verdict::Equivalent => None,
        Verdict::Regressed => Some((0, "failure")),
        Verdict::NotActive | Verdict::Withheld => Some((1, "error")),
        Verdict::Inconclusive => Some((2, "skipped")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::tests::result;

    #[test]
    fn each_metric_is_a_test_and_its_verdict_the_outcome() {
        let mut result = result();
        result.unusable.push("8 B/call/round_trip was not measured in round 2".to_owned());
        result.header.title = "a < \"b\"\u{1b}".to_owned();
        for (verdict, outcome, counts) in [
            (Verdict::Improved, "<system-out>", r#"failures="0" errors="0""#),
            (Verdict::Regressed, "<failure message=", r#"failures="1" errors="0""#),
            (Verdict::Withheld, "<error message=", r#"failures="0" errors="1""#),
            (Verdict::Inconclusive, "<skipped message=", r#"failures="0" errors="0""#),
        ] {
            result.primary.judgement.verdict = verdict;
            let xml = of_experiments(std::slice::from_ref(&result));
            let case = xml.lines().find(|line| line.contains("name=\"time (s)\"")).expect("the metric");
            assert!(case.contains(outcome) && case.contains("a &lt; &quot;b&quot;\u{fffd}"), "{case}");
            assert!(xml.contains(counts), "{xml}");
            // The metrics that no ratio can be made of are named, too.
            let unusable = r#"name="zero"><skipped message="zero is 0 in round 1"#;
            assert!(xml.contains("tests=\"5\"") && xml.contains(unusable), "{xml}");
            assert!(xml.contains(r#"name="8 B/call/round_trip"><skipped"#), "{xml}");
        }
        let both = of_experiments(&[result.clone(), result]);
        assert_eq!(
            (both.matches("<testsuite ").count(), both.matches("<testsuites>").count()),
            (2, 1),
            "{both}"
        );
    }
}
