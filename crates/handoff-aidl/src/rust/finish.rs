//! Modules are put together and laid out.

use std::fmt::Write as _;

use super::Module;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// What other people's names and words would be warned of.
const ALLOWED: &str = "#[allow(dead_code, unreachable_pub, clippy::doc_lazy_continuation, clippy::doc_markdown, clippy::large_enum_variant, \
    clippy::module_inception, clippy::too_many_arguments, rustdoc::bare_urls, \
    rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]";

pub(super) fn finish(root: &Module, header: &str) -> Result<String, Diagnostics> {
    let mut code = String::new();
    write_module(root, &mut code, true);
    let file = syn::parse_file(&code).map_err(|error| {
        let mut diagnostics = Diagnostics::new();
        let message = format!("the generated code is no Rust: {error}");
        diagnostics
            .push(Diagnostic::general(message).help("this is a fault of the generator: please report it"));
        diagnostics
    })?;
    Ok(format!("{header}\n{}", spaced(&prettyplease::unparse(&file))))
}

fn write_module(module: &Module, code: &mut String, is_root: bool) {
    for part in &module.code {
        code.push_str(part);
    }
    for (name, inner) in &module.inner {
        let says = inner.says.clone().unwrap_or_else(|| "What is below it.".to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(code, "/// {says}");
        if is_root {
            let _ = writeln!(code, "{ALLOWED}");
        }
        let _ = writeln!(code, "pub mod {name} {{");
        write_module(inner, code, false);
        code.push_str("}\n");
    }
}

/// Blank lines between items, as a person leaves them.
fn spaced(code: &str) -> String {
    let mut text = String::with_capacity(code.len() + code.len() / 16);
    let mut last = "";
    for line in code.lines() {
        let (now, before) = (line.trim_start(), last.trim_start());
        let begins = ["///", "#[", "pub ", "impl ", "impl<", "fn "].iter().any(|word| now.starts_with(word));
        let ended =
            before == "}" || before.ends_with("{}") || before.ends_with(';') && now.starts_with("///");
        if begins && ended {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        last = line;
    }
    text
}
