//! Names that differ in the files and become one in a language.

use std::collections::HashMap;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::Span;

/// Reports names of one list that become the same in `language`.
pub(crate) fn find<'n>(
    diagnostics: &mut Diagnostics,
    language: &str,
    names: impl Iterator<Item = (&'n str, Span)>,
    convert: impl Fn(&str) -> String,
) {
    let mut seen: HashMap<String, Span> = HashMap::new();
    for (name, span) in names {
        let converted = convert(name);
        if let Some(other) = seen.get(&converted) {
            diagnostics.push(
                Diagnostic::error(span, format!("two names become `{converted}` in {language}"))
                    .related(*other, "the other one")
                    .help("rename one of them"),
            );
        }
        seen.entry(converted).or_insert(span);
    }
}
