//! What each command prints, from the files in `cmd/`: run with `TRYCMD=overwrite` to accept a change.

#[test]
fn commands_print_what_is_written_down() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100") // Help is wrapped to the width of the terminal.
        .env("NO_COLOR", "1")
        .env("HANDOFF_CONFIG", "")
        .case("tests/cmd/*.trycmd")
        .case("tests/cmd/*.toml")
        .case("../../docs/book/src/*.md")
        .case("../../docs/book/src/*/*.md");
}
