//! `handoff kernel image`: Android boot images.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use handoff_kernel::device::{BootImage, Part};
use serde::Serialize;

use crate::output::{Output, Verdict};
use crate::results;

const EXAMPLES: &str = "\
Examples:
  handoff kernel image boot.img                                   what is in it
  handoff kernel image boot.img --unpack parts                    each part as a file
  handoff kernel image boot.img --kernel build/arch/arm64/boot/Image --out new.img
  handoff kernel flash new.img --dry-run                          afterwards";

/// Look into an Android boot image, take it apart, or put another kernel in
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The boot image (header versions 0 to 4)
    #[arg(value_name = "IMAGE")]
    image: PathBuf,

    /// Write its parts into this folder
    #[arg(long, value_name = "DIR")]
    unpack: Option<PathBuf>,

    /// Put this kernel in; devices expect the form of the old one, such as Image.gz
    #[arg(long, value_name = "FILE", requires = "out")]
    kernel: Option<PathBuf>,

    /// Write the image with the other kernel here
    #[arg(long, value_name = "FILE", requires = "kernel")]
    out: Option<PathBuf>,
}

/// What is in an image.
#[derive(Debug, Serialize)]
struct ImageReport {
    version: u32,
    page_size: usize,
    command_line: String,
    parts: Vec<PartReport>,
    notes: Vec<String>,
    written: Vec<PathBuf>,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
struct PartReport {
    part: Part,
    bytes: usize,
}

impl fmt::Display for ImageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.written.iter().try_for_each(|path| write!(f, "\nwrote {}", path.display()))
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let mut image = read(&self.image)?;
        let mut written = Vec::new();
        let mut write = |path: PathBuf, content: &[u8]| -> anyhow::Result<()> {
            results::write(&path, content)?;
            written.push(path);
            Ok(())
        };
        if let Some(folder) = &self.unpack {
            for (part, content) in image.parts().filter(|(_, content)| !content.is_empty()) {
                write(folder.join(part.file_name()), content)?;
            }
        }
        if let (Some(kernel), Some(out)) = (&self.kernel, &self.out) {
            ensure!(out != &self.image, "--out names the image itself: keep the old one");
            let content = fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
            image.replace_kernel(content)?;
            write(out.clone(), &image.to_bytes())?;
        }
        output.result(&report(&image, written))?;
        Ok(Verdict::Pass)
    }
}

/// Reads an image, or says why it is none.
pub(super) fn read(path: &Path) -> anyhow::Result<BootImage> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    BootImage::parse(&bytes).with_context(|| format!("cannot use {}", path.display()))
}

fn report(image: &BootImage, written: Vec<PathBuf>) -> ImageReport {
    let parts = image.parts().map(|(part, content)| PartReport { part, bytes: content.len() });
    ImageReport {
        version: image.version(),
        page_size: image.page_size(),
        command_line: image.command_line(),
        parts: parts.collect(),
        notes: image.notes().to_vec(),
        written,
        text: image.to_string(),
    }
}
