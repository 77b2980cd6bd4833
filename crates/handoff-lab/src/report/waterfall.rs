//! A waterfall: what happens after what, each as a bar from where it begins to where it ends.

use super::chart::{Label, NARROW, Screen, Svg, WIDE, escape};
use super::scale::{Kind, Scale};

#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) from: f64,
    pub(super) to: f64,
    /// The number of its colour.
    pub(super) colour: usize,
}

/// Bars, one below the other.
#[derive(Debug, Clone)]
pub(super) struct Waterfall {
    /// What a screen reader says.
    pub(super) title: String,
    pub(super) axis: String,
    /// The bars, from the top.
    pub(super) bars: Vec<Bar>,
    pub(super) format: Label,
}

impl Waterfall {
    /// Both drawings, for the page to choose from.
    pub(super) fn svg(&self) -> String {
        self.draw(WIDE) + &self.draw(NARROW)
    }

    fn draw(&self, screen: Screen) -> String {
        let narrow = screen.width < 500.0;
        // A phone has no room beside the bars: names go above them.
        let (left, row, offset) = if narrow { (12.0, 38.0, 18.0) } else { (170.0, 26.0, 5.0) };
        let right = screen.width - if narrow { 12.0 } else { 96.0 };
        let (top, thick) = (8.0, 15.0);
        let bottom = top + row * self.bars.len() as f64;
        let ends = self.bars.iter().flat_map(|bar| [bar.from, bar.to]);
        let scale = Scale::over(Kind::Linear, ends, (left, right));
        let mut svg = Svg::new(screen, bottom + 44.0, &self.title);
        for tick in scale.ticks(if narrow { 4 } else { 8 }).into_iter().filter(|tick| *tick >= 0.0) {
            svg.line((scale.at(tick), top), (scale.at(tick), bottom), "grid");
            svg.text(scale.at(tick), bottom + 16.0, "tick middle", &(self.format)(tick));
        }
        for (index, bar) in self.bars.iter().enumerate() {
            let y = top + row * index as f64 + offset;
            let (from, to) = (scale.clamped(bar.from), scale.clamped(bar.to));
            let took = (self.format)(bar.to - bar.from);
            // What takes next to nothing is still to be seen.
            let width = (to - from).max(1.5);
            svg.add(format_args!(
                "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{thick}\" class=\"f{}\"><title>{}\
                 </title></rect>",
                bar.colour,
                escape(&format!("{}: {took}", bar.label))
            ));
            if narrow {
                svg.text(left, y - 4.0, "label", &bar.label);
                svg.text(right, y - 4.0, "value end", &took);
            } else {
                svg.text(left - 12.0, y + 12.0, "label end", &bar.label);
                svg.text(right + 8.0, y + 12.0, "value", &took);
            }
        }
        svg.text(0.5 * (left + right), bottom + 36.0, "axis middle", &self.axis);
        svg.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scale::nanoseconds;

    #[test]
    fn each_bar_stands_where_its_time_is() {
        let bar = |label: &str, from, to| Bar { label: label.to_owned(), from, to, colour: 0 };
        let waterfall = Waterfall {
            title: "<points>".to_owned(),
            axis: "time".to_owned(),
            bars: vec![bar("a & b", 0.0, 10.0), bar("c", 10.0, 10.0)],
            format: nanoseconds,
        };
        let svg = waterfall.svg();
        assert_eq!(svg.matches("<rect").count(), 4, "two bars, for two screens");
        assert!(svg.contains("a &amp; b: 10 ns") && svg.contains("&lt;points&gt;"), "{svg}");
        assert!(svg.contains("width=\"1.5\""), "a bar of no length is seen: {svg}");
    }
}
