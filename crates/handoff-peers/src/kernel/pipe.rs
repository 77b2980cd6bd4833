//! Two named pipes.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Ask, stream};

fn names(address: &Path) -> [PathBuf; 2] {
    ["requests", "answers"].map(|end| address.with_extension(end))
}

pub(crate) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let [requests, answers] = names(address);
    for name in [&requests, &answers] {
        mknodat(CWD, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    }
    ready();
    let mut from = File::open(requests)?;
    let mut to = OpenOptions::new().write(true).open(answers)?;
    stream::answer(&mut from, &mut to)
}

pub(crate) fn connect(address: &Path) -> io::Result<Ask> {
    let [requests, answers] = names(address);
    let mut to = OpenOptions::new().write(true).open(requests)?;
    let mut from = File::open(answers)?;
    Ok(Box::new(move |message| stream::ask(message, &mut from, &mut to)))
}
