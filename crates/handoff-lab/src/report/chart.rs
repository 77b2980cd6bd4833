//! Charts as SVG: intervals, lines, dots of rounds. Colours are classes that the page's style fills in.
//!
//! Text in an SVG shrinks with it, so each chart is drawn twice, for a wide and for a narrow screen, and
//! the page shows the one that fits.

use super::scale::{Kind, Scale, compact, number};
use std::fmt::Write as _;

/// Colours that the style has: `s0` .. `s7`.
const COLOURS: usize = 8;

/// Pixels of a letter of a chart's text, with room to spare.
const LETTER: f64 = 7.5;

/// Pixels from a line of an axis' title to the next.
const AXIS_LINE: f64 = 15.0;

/// Pixels between a vertical axis and its ticks.
const TICK_GAP: f64 = 6.0;

/// A screen that a chart is drawn for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    class: &'static str,
    pub(super) width: f64,
}

pub(super) const WIDE: Screen = Screen { class: "wide", width: 760.0 };
pub(super) const NARROW: Screen = Screen { class: "narrow", width: 360.0 };

/// How values are written on an axis and beside a point.
pub type Label = fn(f64) -> String;

/// One line of an interval chart.
#[derive(Debug, Clone)]
pub struct IntervalRow {
    pub label: String,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    /// The number of its colour.
    pub colour: usize,
}

/// Estimates with intervals, one below the other, and a line at a value that means something.
#[derive(Debug, Clone)]
pub struct Intervals {
    /// What a screen reader says.
    pub title: String,
    pub axis: String,
    /// The rows, from the top.
    pub rows: Vec<IntervalRow>,
    /// Where to draw a line: 1 for ratios.
    pub reference: Option<f64>,
    /// A band of values that do not matter.
    pub band: Option<(f64, f64)>,
    pub kind: Kind,
    pub format: Label,
}

impl Intervals {
    /// Changes of B against A as ratios, with a band of those that are smaller than `margin` (0.02 is 2%).
    pub fn of_changes(title: impl Into<String>, rows: Vec<IntervalRow>, margin: f64) -> Self {
        let margin = 1.0 + margin;
        Intervals {
            title: title.into(),
            axis: "change (band: the margin)".to_owned(),
            rows,
            reference: Some(1.0),
            band: Some((1.0 / margin, margin)),
            kind: Kind::Log,
            format: change,
        }
    }
}

/// One line of a line chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// What it is, for the legend.
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// The number of its colour.
    pub colour: usize,
}

/// How the points of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Joined, with a dot at each.
    Line,
    /// As steps, for distributions.
    Step,
    /// Dots only, for rounds.
    Dots,
}

/// Several series over common axes.
#[derive(Debug, Clone)]
pub struct Lines {
    /// What a screen reader says.
    pub title: String,
    /// Below the horizontal axis.
    pub x_axis: String,
    /// Above the vertical axis.
    pub y_axis: String,
    pub series: Vec<Series>,
    /// Scale of the horizontal axis.
    pub x_kind: Kind,
    /// Scale of the vertical axis.
    pub y_kind: Kind,
    /// How horizontal values are written.
    pub x_format: Label,
    /// How vertical values are written.
    pub y_format: Label,
    pub mark: Mark,
    /// Whether the points of the first two series at the same place belong together.
    pub paired: bool,
}

/// Text for SVG and HTML.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no other control characters, not even escaped.
            control if control.is_control() && !matches!(control, '\n' | '\t') => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new(screen: Screen, height: f64, title: &str) -> Self {
        Self(format!(
            "<svg class=\"chart {}\" viewBox=\"0 0 {} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            screen.class,
            screen.width,
            escape(title)
        ))
    }

    // Writing to a string cannot fail.
    pub(super) fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("a string takes everything");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(text)));
    }

    /// Labels under an axis, which stay inside of the drawing. One that would touch its left neighbour is left out.
    fn ticks(&mut self, screen: Screen, y: f64, labels: impl Iterator<Item = (f64, String)>) {
        let mut free = f64::NEG_INFINITY;
        for (x, text) in labels {
            // Signs are wider than digits: `+100%` is as wide as six of these.
            let reach = 0.5 * LETTER * (text.chars().count() + 1) as f64;
            let last = (screen.width - reach).max(reach);
            let x = x.clamp(reach.min(last), last);
            if x - reach >= free {
                self.text(x, y, "tick middle", &text);
                free = x + reach;
            }
        }
    }

    /// The title of an axis, a line below the other.
    fn axis(&mut self, x: f64, y: f64, class: &str, lines: &[String]) {
        for (index, line) in lines.iter().enumerate() {
            self.text(x, y + AXIS_LINE * index as f64, class, line);
        }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn dot(&mut self, x: f64, y: f64, radius: f64, colour: usize, title: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"f{}\"><title>{}</title></circle>",
            colour % COLOURS,
            escape(title)
        ));
    }

    pub(super) fn end(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }
}

impl Intervals {
    /// Both drawings, for the page to choose from.
    pub fn svg(&self) -> String {
        self.draw(WIDE) + &self.draw(NARROW)
    }

    fn draw(&self, screen: Screen) -> String {
        let narrow = screen.width < 500.0;
        // A phone has no room beside the bars: names go above them.
        let (left, row_height, offset) = if narrow { (12.0, 40.0, 26.0) } else { (230.0, 28.0, 14.0) };
        let right = screen.width - if narrow { 12.0 } else { 150.0 };
        let top = 8.0;
        let bottom = top + row_height * self.rows.len() as f64;
        let ends = self.rows.iter().flat_map(|row| {
            let (low, high) = row.interval.unwrap_or((row.value, row.value));
            [low, row.value, high]
        });
        let band = self.band.into_iter().flat_map(|(low, high)| [low, high]);
        let scale = Scale::over(self.kind, ends.chain(self.reference).chain(band), (left, right));
        let axis = wrapped(&self.axis, screen.width);
        let below = AXIS_LINE * (axis.len() - 1) as f64;
        let mut svg = Svg::new(screen, bottom + 44.0 + below, &self.title);
        if let Some((low, high)) = self.band {
            let (low, high) = (scale.clamped(low), scale.clamped(high));
            svg.add(format_args!(
                "<rect x=\"{low:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\" class=\"band\"/>",
                high - low,
                bottom - top
            ));
        }
        let ticks = scale.ticks(if narrow { 5 } else { 8 });
        for x in ticks.iter().map(|tick| scale.at(*tick)) {
            svg.line((x, top), (x, bottom), "grid");
        }
        let labels = ticks.into_iter().map(|tick| (scale.at(tick), (self.format)(tick)));
        svg.ticks(screen, bottom + 16.0, labels);
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + row_height * index as f64 + offset;
            if let Some(x) = self.reference.map(|reference| scale.at(reference)) {
                // Beside the bar only: where names and values stand above it, the line would run through them.
                svg.line(
                    (x, if narrow { y - 7.0 } else { y - offset }),
                    (x, y - offset + row_height),
                    "reference",
                );
            }
            let value = (self.format)(row.value);
            let spoken = match row.interval {
                Some((low, high)) => {
                    format!("{}: {value} [{}, {}]", row.label, (self.format)(low), (self.format)(high))
                }
                None => format!("{}: {value}", row.label),
            };
            if narrow {
                let room = (right - left) / LETTER - value.chars().count() as f64 - 2.0;
                svg.text(left, y - 11.0, "label", &shortened(&row.label, room as usize));
                svg.text(right, y - 11.0, "value end", &value);
            } else {
                svg.text(left - 12.0, y + 4.0, "label end", &shortened(&row.label, 31));
                svg.text(right + 12.0, y + 4.0, "value", &value);
            }
            if let Some((low, high)) = row.interval {
                let class = format!("bar c{}", row.colour % COLOURS);
                svg.line((scale.clamped(low), y), (scale.clamped(high), y), &class);
                for end in [low, high] {
                    let x = scale.clamped(end);
                    svg.line((x, y - 5.0), (x, y + 5.0), &class);
                }
            }
            svg.dot(scale.clamped(row.value), y, 5.0, row.colour, &spoken);
        }
        let middle = if axis.len() > 1 { 0.5 * screen.width } else { 0.5 * (left + right) };
        svg.axis(middle, bottom + 36.0, "axis middle", &axis);
        svg.end()
    }
}

impl Lines {
    /// Both drawings, for the page to choose from.
    pub fn svg(&self) -> String {
        self.draw(WIDE) + &self.draw(NARROW)
    }

    fn draw(&self, screen: Screen) -> String {
        let narrow = screen.width < 500.0;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let y_axis = wrapped(&self.y_axis, screen.width - 8.0);
        let top = 26.0 + AXIS_LINE * (y_axis.len() - 1) as f64;
        let bottom = top + if narrow { 240.0 } else { 300.0 };
        let y = Scale::over(self.y_kind, points().map(|point| point.1), (bottom, top));
        let y_ticks: Vec<_> =
            y.ticks(6).into_iter().map(|tick| (y.at(tick), (self.y_format)(tick))).collect();
        // The longest tick fits between the edge of the screen and the axis.
        let widest = y_ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let least = if narrow { 48.0 } else { 64.0 };
        let (left, right) = ((LETTER * widest as f64 + TICK_GAP).max(least), screen.width - 14.0);
        // As many names beside each other as fit.
        let longest = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        let letters = longest.min(((right - 40.0) / LETTER) as usize);
        let columns =
            (((right - 14.0) / (30.0 + LETTER * letters as f64)) as usize).clamp(1, self.series.len().max(1));
        let legend = 20.0 * self.series.len().div_ceil(columns) as f64;
        let x_axis = wrapped(&self.x_axis, right - left);
        let below = AXIS_LINE * (x_axis.len() - 1) as f64;
        let x = Scale::over(self.x_kind, points().map(|point| point.0), (left, right));
        let mut svg = Svg::new(screen, bottom + 50.0 + below + legend, &self.title);
        for (at, text) in y_ticks {
            svg.line((left, at), (right, at), "grid");
            svg.text(left - TICK_GAP, at + 4.0, "tick end", &text);
        }
        let ticks = x.ticks(if narrow { 4 } else { 8 });
        for at in ticks.iter().map(|tick| x.at(*tick)) {
            svg.line((at, bottom), (at, bottom + 4.0), "grid");
        }
        let labels = ticks.into_iter().map(|tick| (x.at(tick), (self.x_format)(tick)));
        svg.ticks(screen, bottom + 17.0, labels);
        svg.axis(4.0, 13.0, "axis", &y_axis);
        svg.axis(0.5 * (left + right), bottom + 35.0, "axis middle", &x_axis);
        if let (true, [first, second, ..]) = (self.paired, self.series.as_slice()) {
            for (a, b) in first.points.iter().zip(&second.points) {
                svg.line((x.at(a.0), y.at(a.1)), (x.at(b.0), y.at(b.1)), "pair");
            }
        }
        for series in &self.series {
            self.draw_series(&mut svg, series, &x, &y);
        }
        for (index, series) in self.series.iter().enumerate() {
            let width = (right - 14.0) / columns as f64;
            let at = (
                14.0 + width * (index % columns) as f64,
                bottom + 58.0 + below + 20.0 * (index / columns) as f64,
            );
            svg.dot(at.0, at.1 - 4.0, 5.0, series.colour, &series.name);
            svg.text(at.0 + 10.0, at.1, "label", &shortened(&series.name, letters));
        }
        svg.end()
    }

    fn draw_series(&self, svg: &mut Svg, series: &Series, x: &Scale, y: &Scale) {
        if self.mark != Mark::Dots {
            let mut path = String::new();
            let mut last = None;
            for (px, py) in series.points.iter().map(|(px, py)| (x.at(*px), y.at(*py))) {
                match (last, self.mark) {
                    (None, _) => path.push_str(&format!("M{px:.1} {py:.1}")),
                    (Some(_), Mark::Step) => path.push_str(&format!("H{px:.1}V{py:.1}")),
                    (Some(_), _) => path.push_str(&format!("L{px:.1} {py:.1}")),
                }
                last = Some(py);
            }
            let class = series.colour % COLOURS;
            svg.add(format_args!("<path d=\"{path}\" class=\"path c{class}\"/>"));
        }
        if self.mark != Mark::Step {
            for (px, py) in &series.points {
                let spoken = format!("{}: {}, {}", series.name, (self.x_format)(*px), (self.y_format)(*py));
                svg.dot(x.at(*px), y.at(*py), 3.5, series.colour, &spoken);
            }
        }
    }
}

/// The steps of an empirical distribution, thinned to what a screen can show.
pub fn distribution(values: &[f64]) -> Vec<(f64, f64)> {
    const MOST: usize = 200;
    let sorted = crate::stats::describe::sorted(values);
    let n = sorted.len();
    let every = n.div_ceil(MOST).max(1);
    let mut points: Vec<(f64, f64)> = Vec::new();
    if let Some(first) = sorted.first() {
        points.push((*first, 0.0));
    }
    let kept = (0..n).filter(|index| index % every == every - 1 || *index + 1 == n);
    points.extend(kept.map(|index| (sorted[index], (index + 1) as f64 / n as f64)));
    points
}

/// The text in lines that fit into so many pixels, broken at spaces; one line at least.
fn wrapped(text: &str, room: f64) -> Vec<String> {
    let most = (room / LETTER) as usize;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last] = word.to_owned();
        } else if lines[last].chars().count() + 1 + word.chars().count() <= most {
            lines[last] = format!("{} {word}", lines[last]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// A plain number, as a [`Label`].
pub fn plain(value: f64) -> String {
    compact(value)
}

/// A ratio, as a [`Label`].
pub fn times(value: f64) -> String {
    format!("{}\u{d7}", number(value))
}

/// A share in percent, as a [`Label`].
pub fn percent(value: f64) -> String {
    format!("{}%", number(value * 100.0))
}

/// A ratio as a change in percent, as a [`Label`].
pub fn change(value: f64) -> String {
    let percent = (value - 1.0) * 100.0;
    if percent.abs() < 0.005 {
        "0%".to_owned()
    } else {
        format!("{}{}%", if percent > 0.0 { "+" } else { "" }, number(percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(points: Vec<(f64, f64)>) -> Lines {
        Lines {
            title: "a <b> & \"c\"".into(),
            x_axis: "x".into(),
            y_axis: "y".into(),
            series: vec![Series { name: "<script>".into(), points, colour: 9 }],
            x_kind: Kind::Linear,
            y_kind: Kind::Log,
            x_format: plain,
            y_format: plain,
            mark: Mark::Line,
            paired: false,
        }
    }

    #[test]
    fn names_cannot_break_out() {
        let svg = lines(vec![(1.0, 2.0), (2.0, 3.0)]).svg();
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"));
        assert!(svg.contains("aria-label=\"a &lt;b&gt; &amp; &quot;c&quot;\""));
        assert_eq!(escape("a\u{1b}[1m\u{0}"), "a\u{fffd}[1m\u{fffd}");
    }

    #[test]
    fn both_screens_are_drawn_and_tags_are_closed() {
        let svg = lines(vec![(1.0, 2.0), (2.0, 3.0)]).svg();
        assert_eq!(svg.matches("<svg").count(), 2);
        assert_eq!(svg.matches("</svg>").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 2 * 3);
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn nothing_and_one_point_are_drawn_without_nan() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(1.0, 1.0)], vec![(5.0, 5.0); 3]] {
            let svg = lines(points).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let empty = Intervals {
            title: "t".into(),
            axis: "a".into(),
            rows: vec![IntervalRow { label: "r".into(), value: 1.0, interval: None, colour: 0 }],
            reference: Some(1.0),
            band: Some((0.98, 1.02)),
            kind: Kind::Log,
            format: times,
        };
        assert!(!empty.svg().contains("NaN"));
    }

    #[test]
    fn a_distribution_is_thinned_and_ends_at_one() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let points = distribution(&values);
        assert!(points.len() < 210);
        assert_eq!(points.last(), Some(&(9999.0, 1.0)));
        assert!(distribution(&[]).is_empty());
        assert_eq!(distribution(&[4.0]), [(4.0, 0.0), (4.0, 1.0)]);
    }

    #[test]
    fn no_line_runs_through_the_names_and_values_of_a_narrow_screen() {
        let row = |value: f64| IntervalRow { label: "r".into(), value, interval: None, colour: 0 };
        let chart = Intervals::of_changes("t", vec![row(0.5), row(1.0)], 0.02);
        let numbers = |drawn: &str, begin: &str, name: &str| -> Vec<f64> {
            let attribute = format!(" {name}=\"");
            let tags = drawn.split('<').filter(|tag| tag.starts_with(begin) && !tag.contains("\"grid\""));
            let tags = tags.filter(|tag| !tag.contains("middle") && !tag.contains("bar"));
            let values = tags.filter_map(|tag| tag.split_once(&attribute)?.1.split_once('"'));
            values.map(|(value, _)| value.parse().expect("a number")).collect()
        };
        let drawn = chart.draw(NARROW);
        let (from, to) = (numbers(&drawn, "line", "y1"), numbers(&drawn, "line", "y2"));
        let baselines = numbers(&drawn, "text", "y");
        assert_eq!((from.len(), baselines.len()), (2, 4), "{drawn}");
        for (from, to) in from.iter().zip(&to) {
            assert!(baselines.iter().all(|y| to <= &(y - 10.0) || from >= &(y + 3.0)), "{drawn}");
        }
    }

    #[test]
    fn a_long_title_is_broken_and_ticks_stay_inside() {
        assert_eq!(wrapped("a bc def", 5.0 * LETTER), ["a bc", "def"]);
        assert_eq!(wrapped("", 100.0), [""]);
        assert_eq!(wrapped("longer-than-that", 3.0 * LETTER), ["longer-than-that"]);
        let mut chart = lines(vec![(1.0, 2.0), (2.0, 3.0)]);
        chart.y_axis = "share of round trips that take at most so long (without the slowest 0.1%)".into();
        assert!(!chart.draw(NARROW).contains(&format!(">{}<", chart.y_axis)));
        assert!(chart.draw(NARROW).contains("(without the slowest 0.1%)<"), "{}", chart.draw(NARROW));
    }

    #[test]
    fn long_ticks_of_the_vertical_axis_stay_inside() {
        let mut chart = lines(vec![(1.0, 0.00252), (2.0, 0.00258)]);
        chart.y_kind = Kind::Linear;
        let drawn = chart.draw(NARROW);
        let mut longest = 0.0_f64;
        for tick in drawn.split("<text x=\"").skip(1).filter(|text| text.contains("\"tick end\"")) {
            let (end, rest) = tick.split_once('"').expect("a place");
            let text = rest.split_once('>').and_then(|(_, rest)| rest.split_once('<')).expect("a text").0;
            let width = LETTER * text.chars().count() as f64;
            assert!(end.parse::<f64>().expect("a number") >= width, "{text} begins left of the edge");
            longest = longest.max(width);
        }
        assert!(longest > 48.0, "the ticks are long: {drawn}");
    }

    #[test]
    fn labels() {
        assert_eq!(change(1.05), "+5%");
        assert_eq!(change(0.9), "-10%");
        assert_eq!(change(1.0), "0%");
        assert_eq!(times(1.25), "1.25\u{d7}");
        assert_eq!(percent(0.5), "50%");
    }
}
