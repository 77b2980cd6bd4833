//! How a bench of the lab hands its table over: to a reader at once, and to `cargo xtask bench` for the book.

use std::error::Error;
use std::process::ExitCode;

/// A table of the page on statistics.
pub(crate) struct Table<const COLUMNS: usize> {
    /// The mark between which it stands in the page.
    pub(crate) mark: &'static str,
    pub(crate) columns: [&'static str; COLUMNS],
    pub(crate) rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// Prints it, and writes it to the file that `--rows` names.
    fn hand_over(&self) -> Result<(), Box<dyn Error>> {
        for row in &self.rows {
            let [what, rest @ ..] = row.as_slice() else { continue };
            print!("{what:<72}");
            rest.iter().for_each(|cell| print!(" {cell:>11}"));
            println!();
        }
        let table = serde_json::json!({
            "page": "design/statistics.md", "mark": self.mark, "columns": self.columns.as_slice(),
            "rows": self.rows.iter().map(|row| row.as_slice()).collect::<Vec<_>>(),
        });
        let mut arguments = std::env::args();
        if arguments.any(|argument| argument == "--rows")
            && let Some(file) = arguments.next()
        {
            std::fs::write(file, serde_json::json!({ "rows": [], "tables": [table] }).to_string())?;
        }
        Ok(())
    }
}

/// Measures, and hands the table over.
pub(crate) fn bench<const COLUMNS: usize>(
    measure: impl FnOnce() -> Result<Table<COLUMNS>, Box<dyn Error>>,
) -> ExitCode {
    match measure().and_then(|table| table.hand_over()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
