//! The two published tables: what they support, and what the analysis says of them by itself.

use handoff_lab::analyse::table::{Columns, parse};
use handoff_lab::analyse::{Analysis, analyse};

fn analyses(text: &str, claimed: Option<&str>) -> Vec<Analysis> {
    let columns = Columns {
        before: "before".into(),
        after: "after".into(),
        by: None,
        claimed: claimed.map(str::to_owned),
    };
    parse(text, &columns).expect("well-formed").iter().map(analyse).collect()
}

#[test]
fn autocorking_is_not_supported_and_hinges_on_two_rows() {
    let text = include_str!("../data/autocorking_cpu_utilisation.csv");
    let analysis = &analyses(text, None)[0];
    let all = analysis.remarks.join("\n");
    for says in [
        "The change of -8.5% is not supported",
        "-18.3% to +1.2%",
        "a chance of 36% only",
        "67 runs an arm",
        "without rows 12 and 22 (-48.1% and +105.7%)",
        "-10.1% and becomes",
        "Welch p 0.030",
        "pairing them by number is arbitrary",
        "Wilcoxon's paired p is 0.022",
        "weak metric",
        "in which order the runs were taken",
    ] {
        assert!(all.contains(says), "{says:?} is not in:\n{all}");
    }
    assert!(!all.contains("drifts"), "{all}");
    assert!(analysis.conclusion.starts_with("Not supported"), "{}", analysis.conclusion);
}

#[test]
fn six_printed_ratios_are_wrong() {
    let text = include_str!("../data/autocorking_as_printed.csv");
    let analysis = &analyses(text, Some("reduction"))[0];
    let rows: Vec<usize> = analysis.wrong_claims.iter().map(|claim| claim.row).collect();
    assert_eq!(rows, [5, 6, 12, 13, 14, 22]);
    let all = analysis.remarks.join("\n");
    assert!(all.contains("6 entries of the claimed column are wrong: rows 5 (-56.0%, not 56.0%)"), "{all}");
}

#[test]
fn wake_affine_is_real_but_drifts() {
    let text = include_str!("../data/wake_affine_hackbench_seconds.csv");
    let groups = analyses(text, None);
    let (fifty, hundred) = (&groups[0], &groups[1]);
    assert_eq!((fifty.key.as_str(), hundred.key.as_str()), ("readers = 50", "readers = 100"));
    let all = hundred.remarks.join("\n");
    for says in [
        "The two columns differ: the means by -14.7%",
        "-14.1%",
        "before column drifts upward",
        "Spearman 0.891",
        "p 0.0005",
    ] {
        assert!(all.contains(says), "{says:?} is not in:\n{all}");
    }
    assert!(hundred.conclusion.contains("cannot be laid to the change alone"), "{}", hundred.conclusion);
    assert!(!fifty.remarks.join("\n").contains("drifts"));
    assert!(fifty.conclusion.contains("is real"), "{}", fifty.conclusion);
    assert!(!all.contains("weak metric"));
}
