//! A browser that looks at a report, and says what it sees.

use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

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
const LOOK: &str = r#"<script>
addEventListener("load", () => {
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
  const seen = {
    background: getComputedStyle(document.body).backgroundColor,
    overflows: document.documentElement.scrollWidth > innerWidth,
    charts: visible.length,
    tiny: visible.filter(c => c.width < 250 || c.height < 60).length,
    labels, wide_tables,
    loaded: performance.getEntriesByType("resource").map(r => r.name),
    text: document.body.innerText,
  };
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
  document.body.replaceChildren(out);
});
</script>"#;

/// Opens `html` in headless Chromium, in a window of this width. `HANDOFF_SHOTS` names a folder for a picture of it.
pub(crate) fn look(chromium: &Path, html: &str, name: &str, width: u32, dark: bool) -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    if let Some(shots) = std::env::var_os("HANDOFF_SHOTS") {
        std::fs::create_dir_all(&shots).expect("a folder for pictures");
        std::fs::write(&page, html).expect("the page is written");
        let shade = if dark { "dark" } else { "light" };
        let shot = Path::new(&shots).join(format!("{name}-{width}-{shade}.png"));
        let mut command = browser(chromium, folder.path(), width, 4000, dark);
        command.arg(format!("--screenshot={}", shot.display())).arg(&page);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the browser runs");
    }
    std::fs::write(&page, format!("{html}{LOOK}")).expect("the page is written");
    let mut command = browser(chromium, folder.path(), width, 900, dark);
    let output =
        command.arg("--dump-dom").arg(&page).stderr(Stdio::null()).output().expect("the browser runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let encoded = dom
        .split_once("<pre id=\"seen\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .unwrap_or_else(|| panic!("the browser said nothing: {dom}"))
        .0;
    serde_json::from_slice(&base64(encoded)).expect("what the browser saw")
}

/// Headless Chromium with a profile of its own.
fn browser(chromium: &Path, folder: &Path, width: u32, height: u32, dark: bool) -> Command {
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--virtual-time-budget=5000",
    ]);
    command.arg(format!("--window-size={width},{height}"));
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    command
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = ALPHABET.iter().position(|known| *known == letter).expect("base64");
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
