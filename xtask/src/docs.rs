//! `cargo xtask docs`: the book and the documentation of the crates.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, root, run as run_command, target_dir};
use crate::tools;

/// Build the book and the documentation of the crates.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask docs\n  cargo xtask docs --book")]
pub(crate) struct Options {
    /// Only the book.
    #[arg(long)]
    book: bool,
}

/// Builds both, installing mdbook below the target folder where it is missing.
pub(crate) fn run(options: &Options) -> Result<bool> {
    // Without the web server and the file watcher, which building does not need.
    let mdbook = tools::installed("mdbook", "mdbook", &["--no-default-features", "--features", "search"])?;
    let book = target_dir().join("book");
    run_command(
        Command::new(mdbook).arg("build").arg(root().join("docs/book")).arg("--dest-dir").arg(&book),
    )?;
    if !options.book {
        run_command(
            cargo()
                .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )?;
        println!("\nThe crates: {}", target_dir().join("doc/handoff_ipc/index.html").display());
    }
    println!("\nThe book: {}", book.join("index.html").display());
    Ok(true)
}
