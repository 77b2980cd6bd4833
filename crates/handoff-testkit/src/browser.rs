//! A headless browser that opens a page, runs a script in it, and gives what the script returns.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a page is opened in.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The program, as `require_tool("chromium")` finds it.
    pub chromium: &'a Path,
    /// An empty folder for the page and the browser's profile.
    pub folder: &'a Path,
    /// What a picture of the page is called.
    pub name: &'a str,
    /// How wide the window is.
    pub width: u32,
    /// Whether the page is asked for its dark colours.
    pub dark: bool,
}

/// Opens `html`, runs `script` (the body of a function of JavaScript) once it is loaded, and gives what that returns,
/// as JSON. `HANDOFF_SHOTS` names a folder for pictures of the pages.
pub fn ask(window: &Window<'_>, html: &str, script: &str) -> Vec<u8> {
    let page = window.folder.join("page.html");
    if let Some(shots) = std::env::var_os("HANDOFF_SHOTS") {
        std::fs::create_dir_all(&shots).expect("a folder for pictures");
        let shade = if window.dark { "dark" } else { "light" };
        let shot = Path::new(&shots).join(format!("{}-{}-{shade}.png", window.name, window.width));
        picture(window, html, 4000, &shot);
    }
    // In the text of an element, markup and hard spaces are escaped: JSON has its own escapes for them.
    let asked = format!(
        r#"{html}<script>addEventListener("load", () => {{
  const seen = JSON.stringify((() => {{ {script} }})());
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = seen.replace(/[<>&\u00a0]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  document.body.replaceChildren(out);
}});</script>"#
    );
    std::fs::write(&page, asked).expect("the page is written");
    let output = browser(window, 900).arg("--dump-dom").arg(&page).stderr(Stdio::null()).output();
    let dom = String::from_utf8(output.expect("the browser runs").stdout).expect("the page is text");
    let seen = dom.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    seen.unwrap_or_else(|| panic!("the browser said nothing: {dom}")).0.as_bytes().to_vec()
}

/// Writes a picture (PNG) of so many lines of pixels from the top of `html`.
pub fn picture(window: &Window<'_>, html: &str, height: u32, file: &Path) {
    let page = window.folder.join("page.html");
    std::fs::write(&page, html).expect("the page is written");
    let mut command = browser(window, height);
    command.arg("--hide-scrollbars").arg(format!("--screenshot={}", file.display())).arg(&page);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the browser runs");
}

/// Headless Chromium with a profile of its own.
fn browser(window: &Window<'_>, height: u32) -> Command {
    let mut command = Command::new(window.chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--virtual-time-budget=5000", &format!("--window-size={},{height}", window.width)]);
    command.arg(format!("--user-data-dir={}", window.folder.join("profile").display()));
    if window.dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    command
}
