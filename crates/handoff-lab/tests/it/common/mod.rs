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
  const seen = {
    background: getComputedStyle(document.body).backgroundColor,
    overflows: document.documentElement.scrollWidth > innerWidth,
    charts: visible.length,
    tiny: visible.filter(c => c.width < 250 || c.height < 60).length,
    loaded: performance.getEntriesByType("resource").map(r => r.name),
    text: document.body.innerText,
  };
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
  document.body.replaceChildren(out);
});
</script>"#;

/// Opens `html` in headless Chromium, in a window of this width.
pub(crate) fn look(chromium: &Path, html: &str, width: u32, dark: bool) -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    std::fs::write(&page, format!("{html}{LOOK}")).expect("the page is written");
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
        "--dump-dom",
    ]);
    command.arg(format!("--window-size={width},900"));
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command.arg(&page).stderr(Stdio::null()).output().expect("the browser runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let encoded = dom
        .split_once("<pre id=\"seen\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .unwrap_or_else(|| panic!("the browser said nothing: {dom}"))
        .0;
    serde_json::from_slice(&base64(encoded)).expect("what the browser saw")
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
