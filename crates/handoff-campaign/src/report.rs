//! What all devices say together: each is a block, analysed alone and then combined; those that disagree
//! are shown.

use std::fmt::Write as _;

use handoff_lab::report::chart::{IntervalRow, Intervals, change};
use handoff_lab::report::page;
use handoff_lab::report::scale::compact;
use handoff_lab::stats::combine::{Block, combine, disagreements, unexplained};
use handoff_lab::stats::judge::{Direction, Verdict};
use serde::Serialize;

use crate::error::Result;
use crate::plan::{CampaignPlan, Point};
use crate::record::{Folder, State};

/// The level of the interval over all devices.
const LEVEL: f64 = 0.95;
/// Below it a device disagrees with the others.
const ODD: f64 = 0.05;
/// The fewest devices that are combined. With two the interval over all devices has one degree of freedom: it
/// reaches 12.7 standard errors to each side, and says nothing that the two rows do not.
const FEWEST: usize = 3;

/// The report of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CampaignReport {
    pub name: String,
    /// Tasks in all, and those with a result.
    pub tasks: usize,
    pub done: usize,
    pub rounds: usize,
    pub points: Vec<PointReport>,
    /// Tasks without a result, and why, as far as it is known.
    pub missing: Vec<String>,
}

/// One comparison on all devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointReport {
    pub title: String,
    /// Names of the baseline and the change.
    pub arms: [String; 2],
    pub metric: String,
    pub unit: String,
    /// The share below which a difference does not matter.
    pub margin: f64,
    /// What it comes to on all devices.
    pub verdict: Verdict,
    pub sentence: String,
    /// The ratio of B to A over all devices, and the ends of its interval.
    pub ratio: Option<[f64; 3]>,
    /// Two-sided p-value of it.
    pub p: Option<f64>,
    /// The share of the spread between devices that their own errors do not explain.
    pub unexplained: f64,
    /// Standard deviation of the true effect between devices, of the log-ratio.
    pub between: f64,
    pub devices: Vec<DeviceReport>,
}

/// One comparison on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceReport {
    pub name: String,
    pub verdict: Verdict,
    /// B / A, and the ends of its interval.
    pub ratio: f64,
    /// The ends; none if there are too few rounds.
    pub interval: Option<[f64; 2]>,
    /// Medians of A and B.
    pub medians: [f64; 2],
    pub rounds: usize,
    /// How often its end was started: more than once if it was lost or killed in between.
    pub starts: usize,
    /// The probability that it differs so much from the others by chance, adjusted for their number.
    pub p_others: f64,
    /// Whether it disagrees with the others.
    pub disagrees: bool,
    /// Why it is not among those that are combined.
    pub left_out: Option<String>,
}

pub fn report(plan: &CampaignPlan, folder: &Folder) -> Result<CampaignReport> {
    let mut points = Vec::new();
    let (mut missing, mut done, mut rounds) = (Vec::new(), 0, 0);
    for (index, point) in plan.points.iter().enumerate() {
        let mut devices = Vec::new();
        let mut about = None;
        for task in plan.tasks.iter().filter(|task| task.point == index) {
            let record = folder.task(*task);
            let name = &plan.targets[task.target].name;
            let Some(result) = record.result()? else {
                let why = match (record.failure()?, record.state()) {
                    (Some(failure), _) => failure.why,
                    (None, State::Running) => "it runs".to_owned(),
                    (None, _) => "it waits".to_owned(),
                };
                missing.push(format!("{} on {name}: {why}", point.title));
                continue;
            };
            done += 1;
            rounds += result.rounds.len();
            let starts = record.notes()?.iter().filter(|note| note.started).count();
            let primary = result.primary;
            let judged = &primary.judgement;
            let reason = judged
                .caveats
                .iter()
                .find(|caveat| caveat.severity == handoff_lab::stats::judge::Severity::Withholds);
            devices.push((
                Block::of(&judged.change),
                DeviceReport {
                    name: name.clone(),
                    verdict: judged.verdict,
                    ratio: judged.change.ratio,
                    interval: judged
                        .change
                        .interval
                        .is_bounded()
                        .then_some([judged.change.interval.low, judged.change.interval.high]),
                    medians: [primary.medians[0], primary.medians[2]],
                    rounds: judged.change.rounds,
                    starts,
                    p_others: 1.0,
                    disagrees: false,
                    left_out: matches!(judged.verdict, Verdict::NotActive | Verdict::Withheld).then(|| {
                        reason.map_or_else(|| judged.verdict.word().to_owned(), |caveat| caveat.text.clone())
                    }),
                },
            ));
            about = Some((primary.unit, primary.question.direction));
        }
        devices.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        points.push(combined(point, devices, about));
    }
    Ok(CampaignReport { name: plan.name.clone(), tasks: plan.tasks.len(), done, rounds, points, missing })
}

fn combined(
    point: &Point,
    mut devices: Vec<(Block, DeviceReport)>,
    about: Option<(String, Direction)>,
) -> PointReport {
    let (unit, direction) = about.unwrap_or((String::new(), Direction::Lower));
    let used: Vec<usize> = (0..devices.len()).filter(|index| devices[*index].1.left_out.is_none()).collect();
    let blocks: Vec<Block> = used.iter().map(|index| devices[*index].0).collect();
    for (index, p) in used.iter().zip(disagreements(&blocks)) {
        let device = &mut devices[*index].1;
        (device.p_others, device.disagrees) = (p, p < ODD);
    }
    let devices: Vec<DeviceReport> = devices.into_iter().map(|(_, device)| device).collect();
    let together = if blocks.len() < FEWEST { None } else { combine(&blocks, LEVEL) };
    let ratio = together.map(|all| [all.log_ratio, all.interval.low, all.interval.high].map(f64::exp));
    let verdict = match (ratio, used.as_slice()) {
        (Some([_, low, high]), _) => verdict(low, high, point.margin, direction),
        (None, [one]) => devices[*one].verdict,
        (None, [one, two]) if devices[*one].verdict == devices[*two].verdict => devices[*one].verdict,
        (None, [_, _]) => Verdict::Inconclusive,
        (None, [])
            if devices.iter().all(|device| device.verdict == Verdict::NotActive) && !devices.is_empty() =>
        {
            Verdict::NotActive
        }
        (None, _) => Verdict::Withheld,
    };
    let mut report = PointReport {
        title: point.title.clone(),
        arms: point.arms.clone(),
        metric: point.metric.clone(),
        unit,
        margin: point.margin,
        verdict,
        sentence: String::new(),
        ratio,
        p: together.map(|all| all.p),
        unexplained: unexplained(&blocks),
        between: together.map_or(0.0, |all| all.between),
        devices,
    };
    report.sentence = sentence(&report, used.len());
    report
}

/// The same rule as for one device, see `handoff_lab::stats::judge`.
fn verdict(low: f64, high: f64, margin: f64, direction: Direction) -> Verdict {
    let margin = 1.0 + margin;
    match (high < 1.0, low > 1.0, direction) {
        _ if 1.0 / margin < low && high < margin => Verdict::Equivalent,
        (true, _, Direction::Lower) | (_, true, Direction::Higher) => Verdict::Improved,
        (true, _, Direction::Higher) | (_, true, Direction::Lower) => Verdict::Regressed,
        _ => Verdict::Inconclusive,
    }
}

fn sentence(report: &PointReport, used: usize) -> String {
    let mut text = match report.ratio {
        Some([ratio, low, high]) => format!(
            "{}: {} on {used} devices together ({} to {}).",
            report.metric,
            change(ratio),
            change(low),
            change(high)
        ),
        None if used == 1 => {
            format!("{}: of one device; it takes {FEWEST} to combine them.", report.metric)
        }
        None if used == 2 => format!(
            "{}: two devices are too few to combine; {}.",
            report.metric,
            if report.verdict == Verdict::Inconclusive {
                "read each of them by itself"
            } else {
                "each of them says so by itself"
            }
        ),
        None => format!("{}: no device has a result that can be used.", report.metric),
    };
    let odd: Vec<&str> =
        report.devices.iter().filter(|device| device.disagrees).map(|device| device.name.as_str()).collect();
    if !odd.is_empty() {
        text += &format!(
            " {} disagree{} with the others.",
            odd.join(", "),
            if odd.len() == 1 { "s" } else { "" }
        );
    }
    let says = |verdict| report.devices.iter().any(|device| device.verdict == verdict);
    if says(Verdict::Improved) && says(Verdict::Regressed) {
        text += " It is better on some devices and worse on others: there is no single answer.";
    }
    let left_out = report.devices.len() - used;
    if left_out > 0 {
        text += &format!(" {left_out} left out.");
    }
    text
}

fn range(device: &DeviceReport) -> String {
    device
        .interval
        .map_or_else(|| "none".to_owned(), |[low, high]| format!("{} to {}", change(low), change(high)))
}

fn remark(device: &DeviceReport) -> String {
    let mut words = Vec::new();
    if device.disagrees {
        words.push(format!("disagrees (p {:.4})", device.p_others));
    }
    words.extend(device.left_out.as_ref().map(|why| format!("left out: {why}")));
    words.extend((device.starts > 1).then(|| format!("started {} times", device.starts)));
    words.join("; ")
}

impl CampaignReport {
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}: {} of {} tasks have a result, {} rounds\n",
            self.name, self.done, self.tasks, self.rounds
        );
        for point in &self.points {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "\n{}: {}\n{}", point.title, point.verdict.word(), point.sentence);
            let width = point.devices.iter().map(|device| device.name.len()).max().unwrap_or(0);
            for device in &point.devices {
                let (ratio, range) = (change(device.ratio), range(device));
                let line = format!(
                    "  {:width$}  {ratio:>8}  {range:<20}  {:>3} rounds  {:<20}  {}",
                    device.name,
                    device.rounds,
                    device.verdict.word(),
                    remark(device)
                );
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
        for missing in &self.missing {
            let _ = writeln!(out, "\nno result: {missing}");
        }
        out.trim_end().to_owned()
    }

    /// For a pull request.
    pub fn markdown(&self) -> String {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let mut out = format!(
            "## {}\n\n{} of {} tasks have a result, {} rounds.\n",
            cell(&self.name),
            self.done,
            self.tasks,
            self.rounds
        );
        for point in &self.points {
            let _ = writeln!(
                out,
                "\n### {}: {}\n\n{}\n\n| device | verdict | B / A | interval | A: {} | B: {} | rounds | |\n\
                 |---|---|--:|---|--:|--:|--:|---|",
                cell(&point.title),
                point.verdict.word(),
                cell(&point.sentence),
                cell(&point.arms[0]),
                cell(&point.arms[1])
            );
            for device in &point.devices {
                let [a, b] = device.medians.map(compact);
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {a} | {b} | {} | {} |",
                    cell(&device.name),
                    device.verdict.word(),
                    change(device.ratio),
                    range(device),
                    device.rounds,
                    cell(&remark(device))
                );
            }
            if let Some([ratio, low, high]) = point.ratio {
                let (low, high) = (change(low), change(high));
                let _ = writeln!(
                    out,
                    "| **all** | {} | {} | {low} to {high} | | | | |",
                    point.verdict.word(),
                    change(ratio)
                );
            }
        }
        if !self.missing.is_empty() {
            out.push_str("\nNo result:\n\n");
            for missing in &self.missing {
                let _ = writeln!(out, "- {}", cell(missing));
            }
        }
        out
    }

    /// One file that opens offline.
    pub fn html(&self) -> Result<String> {
        #[derive(Serialize)]
        struct View<'a> {
            point: &'a PointReport,
            verdict: &'static str,
            tone: &'static str,
            chart: String,
            remarks: Vec<String>,
            words: Vec<&'static str>,
        }
        #[derive(Serialize)]
        struct Context<'a> {
            report: &'a CampaignReport,
            views: Vec<View<'a>>,
        }
        let views = self.points.iter().map(|point| View {
            point,
            verdict: point.verdict.word(),
            tone: match point.verdict {
                Verdict::Improved | Verdict::Equivalent => "good",
                Verdict::Inconclusive => "warn",
                _ => "bad",
            },
            chart: forest(point).svg(),
            remarks: point.devices.iter().map(remark).collect(),
            words: point.devices.iter().map(|device| device.verdict.word()).collect(),
        });
        let context = Context { report: self, views: views.collect() };
        Ok(page::render(include_str!("report.html"), context)?)
    }
}

/// A row for each device, and one for all of them.
fn forest(point: &PointReport) -> Intervals {
    let row = |device: &DeviceReport| IntervalRow {
        label: device.name.clone(),
        value: device.ratio,
        interval: device.interval.map(|[low, high]| (low, high)),
        colour: if device.disagrees { 3 } else { 0 },
    };
    let mut rows: Vec<IntervalRow> = point.devices.iter().map(row).collect();
    rows.extend(point.ratio.map(|[ratio, low, high]| IntervalRow {
        label: "all".to_owned(),
        value: ratio,
        interval: Some((low, high)),
        colour: 1,
    }));
    Intervals::of_changes(format!("{} on each device", point.metric), rows, point.margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        Point {
            title: "spin <b>".into(),
            file: "spin.toml".into(),
            parameters: std::collections::BTreeMap::new(),
            metric: "time".into(),
            margin: 0.02,
            arms: ["off".into(), "on".into()],
            most_rounds: 10,
            most_runs: 32,
            budget_seconds: 60.0,
            text: String::new(),
        }
    }

    fn device(name: &str, log_ratio: f64, left_out: Option<&str>) -> (Block, DeviceReport) {
        let ends = [log_ratio - 0.02, log_ratio + 0.02].map(f64::exp);
        let report = DeviceReport {
            name: name.into(),
            verdict: verdict(ends[0], ends[1], 0.02, Direction::Lower),
            ratio: log_ratio.exp(),
            interval: Some(ends),
            medians: [1.0, log_ratio.exp()],
            rounds: 20,
            starts: 2,
            p_others: 1.0,
            disagrees: false,
            left_out: left_out.map(str::to_owned),
        };
        (Block { log_ratio, error: 0.01 }, report)
    }

    fn of(devices: Vec<(Block, DeviceReport)>) -> PointReport {
        combined(&point(), devices, Some(("s".into(), Direction::Lower)))
    }

    #[test]
    fn devices_that_agree_give_one_answer() {
        let report = of(vec![device("a", -0.2, None), device("b", -0.21, None), device("c", -0.19, None)]);
        assert_eq!(report.verdict, Verdict::Improved);
        assert!(report.devices.iter().all(|device| !device.disagrees));
        assert!(report.sentence.contains("on 3 devices together"), "{}", report.sentence);
    }

    #[test]
    fn the_one_that_disagrees_is_named_and_widens_the_interval() {
        let devices = ["a", "b", "c", "d"].map(|name| device(name, -0.2, None)).into_iter();
        let report = of(devices.chain([device("odd", 0.3, None)]).collect());
        assert!(report.sentence.contains("odd disagrees with the others."), "{}", report.sentence);
        assert!(report.sentence.contains("no single answer"), "{}", report.sentence);
        assert_eq!(report.verdict, Verdict::Inconclusive);
        assert!(report.unexplained > 0.9 && report.between > 0.05);
    }

    #[test]
    fn a_device_whose_change_was_not_active_is_left_out_and_said_so() {
        let report =
            of(vec![device("a", -0.2, None), device("b", 0.0, Some("no hits")), device("c", -0.2, None)]);
        assert_eq!(report.verdict, Verdict::Improved);
        assert!(report.sentence.ends_with("1 left out."), "{}", report.sentence);
        let alone = of(vec![device("a", -0.2, None), device("b", 0.0, Some("no hits"))]);
        assert_eq!((alone.verdict, alone.ratio), (Verdict::Improved, None));
        assert_eq!(of(Vec::new()).verdict, Verdict::Withheld);
    }

    #[test]
    fn two_devices_are_too_few_to_combine() {
        let alike = of(vec![device("a", -0.2, None), device("b", -0.3, None)]);
        assert_eq!((alike.verdict, alike.ratio, alike.p), (Verdict::Improved, None, None));
        assert_eq!(
            alike.sentence,
            "time: two devices are too few to combine; each of them says so by itself."
        );
        let apart = of(vec![device("a", -0.2, None), device("b", 0.3, None)]);
        assert_eq!(apart.verdict, Verdict::Inconclusive);
        assert!(apart.sentence.contains("too few to combine; read each"), "{}", apart.sentence);
        assert!(apart.sentence.contains("there is no single answer"), "{}", apart.sentence);
        let report = CampaignReport {
            name: "two".into(),
            tasks: 2,
            done: 2,
            rounds: 40,
            points: vec![apart],
            missing: Vec::new(),
        };
        let html = report.html().expect("a page");
        assert!(!html.contains("<td>all</td>") && !html.contains("of the spread between devices"), "{html}");
    }

    /// A reader sees the first columns of a table at any width.
    #[test]
    fn the_verdict_stands_beside_the_device() {
        let points =
            vec![of(vec![device("n1", -0.2, None), device("n2", -0.2, None), device("n3", 0.4, None)])];
        let report = CampaignReport {
            name: "rack".into(),
            tasks: 3,
            done: 3,
            rounds: 60,
            points,
            missing: Vec::new(),
        };
        let (markdown, html) = (report.markdown(), report.html().expect("a page"));
        assert!(markdown.contains("\n| device | verdict | B / A |"), "{markdown}");
        assert!(html.contains("<tr><th>device</th><th>verdict</th>"), "{html}");
        assert!(html.contains("<tr><td>n1</td><td>improved</td>"), "{html}");
    }

    #[test]
    fn every_form_names_devices_and_escapes_what_it_must() {
        let points =
            vec![of(vec![device("n|1", -0.2, None), device("n2", -0.2, None), device("n3", 0.4, None)])];
        let missing = vec!["spin on n4: it waits".to_owned()];
        let report = CampaignReport { name: "rack".into(), tasks: 4, done: 3, rounds: 60, points, missing };
        let (text, markdown, html) = (report.text(), report.markdown(), report.html().expect("a page"));
        assert!(text.contains("disagrees (p ") && text.contains("no result: spin on n4"), "{text}");
        assert!(markdown.contains("| n\\|1 |") && markdown.contains("| **all** |"), "{markdown}");
        assert!(
            html.contains("spin &lt;b&gt;") && html.contains("<svg") && !html.contains("http://n"),
            "{html}"
        );
    }
}
