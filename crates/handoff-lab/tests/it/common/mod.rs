//! A browser that looks at a page, and says what it sees. The tests of other crates include this file.

use std::path::Path;

use handoff_testkit::browser::{Window, ask};
use handoff_testkit::repeats;
use serde::Deserialize;

/// What the browser saw.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// Colour of the page behind everything, such as `rgb(255, 255, 255)`.
    pub(crate) background: String,
    /// Whether the page is wider than the window.
    pub(crate) overflows: bool,
    /// Charts that are visible.
    pub(crate) charts: usize,
    /// Charts that are too small to read.
    pub(crate) tiny: usize,
    /// Labels of visible charts that lie over each other, or beyond the edge of their chart.
    pub(crate) labels: Vec<String>,
    /// Tables that are wider than their box, by the first heading; they scroll, and a shadow says so.
    pub(crate) wide_tables: Vec<String>,
    /// Addresses that the page loaded.
    pub(crate) loaded: Vec<String>,
    /// The text of the page.
    pub(crate) text: String,
}

/// Runs in the page after it was loaded. All `details` are opened, so that what is in them counts.
const LOOK: &str = r#"
  document.querySelectorAll("details").forEach(d => d.open = true);
  const charts = [...document.querySelectorAll("svg.chart")].map(c => c.getBoundingClientRect());
  const visible = charts.filter(c => c.width > 0);
  const labels = [];
  for (const chart of document.querySelectorAll("svg.chart")) {
    const frame = chart.getBoundingClientRect();
    if (frame.width == 0) continue;
    const texts = [...chart.querySelectorAll("text")].filter(t => t.textContent.trim())
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [text, box] of texts)
      if (box.left < frame.left - 1 || box.right > frame.right + 1) labels.push(text + " is cut");
    for (let i = 0; i < texts.length; i++)
      for (let j = i + 1; j < texts.length; j++) {
        const [a, b] = [texts[i][1], texts[j][1]];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 4) labels.push(texts[i][0] + " lies over " + texts[j][0]);
      }
  }
  const wide_tables = [...document.querySelectorAll(".scroll")].filter(s => s.scrollWidth > s.clientWidth + 1)
    .map(s => (s.querySelector("th") || s).innerText);
  return {
    background: getComputedStyle(document.body).backgroundColor,
    overflows: document.documentElement.scrollWidth > innerWidth,
    charts: visible.length,
    tiny: visible.filter(c => c.width < 250 || c.height < 60).length,
    labels, wide_tables,
    loaded: performance.getEntriesByType("resource").map(r => r.name),
    text: document.body.innerText,
  };
"#;

/// Opens `html` on a desk and on a phone, in light and in dark, and asserts what holds for every page. Gives what was seen.
///
/// Colours have no part in the layout: a quick run looks at each width and at each shade once.
pub(crate) fn look(chromium: &Path, name: &str, html: &str) -> Vec<Seen> {
    let windows = [(1280, false), (390, true), (1280, true), (390, false)];
    windows
        .into_iter()
        .take(repeats(4, 2))
        .map(|(width, dark)| look_at(chromium, name, html, width, dark))
        .collect()
}

fn look_at(chromium: &Path, name: &str, html: &str, width: u32, dark: bool) -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let window = Window { chromium, folder: folder.path(), name, width, dark };
    let seen: Seen = serde_json::from_slice(&ask(&window, html, LOOK)).expect("what the browser saw");
    assert!(!seen.overflows, "{name} is wider than a window of {width}");
    assert_eq!(seen.labels, [""; 0], "labels of {name} at {width}");
    assert!(width < 1000 || seen.wide_tables.is_empty(), "{name}: {:?} at {width}", seen.wide_tables);
    assert_eq!(seen.charts > 0, html.contains("class=\"chart"), "{name} shows {} charts", seen.charts);
    assert_eq!(seen.tiny, 0, "{name} has a chart too small to read at {width}");
    assert_eq!(seen.loaded, [""; 0], "{name} loaded something");
    assert!(!seen.text.contains("NaN") && !seen.text.contains("undefined"), "{name}: {}", seen.text);
    let background = if dark { "rgb(20, 23, 27)" } else { "rgb(255, 255, 255)" };
    assert_eq!(seen.background, background, "{name}");
    seen
}
