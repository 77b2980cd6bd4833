//! What a `/** ... */` says.

use crate::ast::Docs;

/// The text of a comment, without stars and common indentation.
pub(super) fn read(comment: &str) -> Docs {
    let inner = comment.trim_start_matches("/**").trim_end_matches("*/");
    let mut docs = Docs::default();
    for line in inner.lines() {
        let line = line.trim();
        let line = line.strip_prefix('*').map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest));
        let line = line.trim_end();
        match line.trim_start().strip_prefix("@deprecated") {
            Some(why) => docs.deprecated = Some(why.trim().to_owned()),
            // `@hide` keeps a declaration out of Android's own documentation.
            None if line.trim() == "@hide" || line.trim() == "{@hide}" => {}
            None => docs.lines.push(line.to_owned()),
        }
    }
    let used = docs.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    docs.lines.truncate(used);
    let blank = docs.lines.iter().take_while(|line| line.is_empty()).count();
    docs.lines.drain(..blank);
    docs
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn stars_and_tags_are_taken_away() {
        let docs = read(
            "/**\n     * First.\n     *\n     *   code\n     * @deprecated use b\n     * @hide\n     */",
        );
        assert_eq!(docs.lines, ["First.", "", "  code"]);
        assert_eq!(docs.deprecated.as_deref(), Some("use b"));
        assert_eq!(read("/** One. */").lines, ["One."]);
        assert!(read("/***/").lines.is_empty());
    }
}
