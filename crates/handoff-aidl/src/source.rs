//! The files that are compiled, and places in them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Which file of a [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

/// A run of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// First byte behind it.
    pub end: u32,
}

impl Span {
    /// From the start of this span to the end of a later one of the same file.
    pub fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.start), ..self }
    }

    /// As a range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The place in front of its first byte.
    pub fn before(self) -> Span {
        Span { end: self.start, ..self }
    }

    /// The place behind its last byte.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// The two languages that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Android's interface definition language, `.aidl`.
    Aidl,
    /// The language of hardware interfaces before it, `.hal`.
    Hidl,
}

impl Language {
    /// The language that a file's name says, if it is one of ours.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "aidl" => Some(Language::Aidl),
            "hal" => Some(Language::Hidl),
            _ => None,
        }
    }
}

/// A file that was read.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    text: String,
    language: Language,
    /// Offset of the first byte of each line.
    lines: Vec<u32>,
}

impl Source {
    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// Line and column of a byte, both counted from 1, columns in characters.
    pub fn line_and_column(&self, offset: u32) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0) as usize;
        let column = self.text.get(start..offset as usize).map_or(1, |before| before.chars().count() + 1);
        (line, column)
    }
}

/// Every file that takes part in a compilation.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<Source>,
}

impl Sources {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file that was read.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<String>, language: Language) -> FileId {
        let text = text.into();
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect();
        self.files.push(Source { path: path.into(), text, language, lines });
        FileId(self.files.len() as u32 - 1)
    }

    /// A file.
    ///
    /// # Panics
    /// With an id of other sources.
    pub fn file(&self, id: FileId) -> &Source {
        &self.files[id.0 as usize]
    }

    /// The file that was read from a path.
    pub fn find(&self, path: &Path) -> Option<FileId> {
        self.files.iter().position(|file| file.path == path).map(|index| FileId(index as u32))
    }

    /// Every file, in the order in which they were read.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Source)> {
        self.files.iter().enumerate().map(|(index, file)| (FileId(index as u32), file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let mut sources = Sources::new();
        let id = sources.add("a.aidl", "ab\nüx\n", Language::Aidl);
        let file = sources.file(id);
        assert_eq!(file.line_and_column(0), (1, 1));
        assert_eq!(file.line_and_column(2), (1, 3));
        assert_eq!(file.line_and_column(3), (2, 1));
        assert_eq!(file.line_and_column(5), (2, 2));
        assert_eq!(file.line_and_column(7), (3, 1));
        assert_eq!(sources.find(Path::new("a.aidl")), Some(id));
    }
}
