//! Reads a `trace.dat` file, ours or that of `trace-cmd`. Nothing in it is believed unchecked.

use std::path::Path;

use super::{Extra, FOOTER, MAGIC, OPTION_CLOCK, OPTION_DONE, VERSION};
use crate::error::{Result, TraceError};
use crate::event::MAX_CPUS;
use crate::ring::PageLayout;
use crate::trace::RawTrace;

/// Reads a trace from the bytes of a file; `path` is for messages only.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<RawTrace> {
    let file = File { rest: bytes };
    file.parse(bytes).map_err(|why| TraceError::NotATrace { path: path.to_owned(), why })
}

/// Why a file cannot be read.
type Why<T> = std::result::Result<T, String>;

struct File<'a> {
    rest: &'a [u8],
}

impl<'a> File<'a> {
    fn parse(mut self, all: &'a [u8]) -> Why<RawTrace> {
        self.header()?;
        let page_size = self.u32()? as usize;
        self.expect(b"header_page\0")?;
        let header_page = self.text64()?;
        self.expect(b"header_event\0")?;
        let header_event = self.text64()?;
        let layout = PageLayout::parse(&header_page)
            .and_then(|layout| layout.with_page_size(page_size))
            .map_err(|error| error.to_string())?;
        let formats = self.formats()?;
        self.sized32()?;
        self.sized32()?;
        let names = self.text64()?;
        let cpus = self.u32()?;
        if cpus > MAX_CPUS.into() {
            return Err(format!("it claims {cpus} CPUs"));
        }
        let clock = self.options()?;
        let pages = (0..cpus).map(|_| self.pages(all, page_size)).collect::<Why<Vec<_>>>()?;
        check_apart(&pages)?;
        let pages = pages.into_iter().map(|(_, pages)| pages.to_vec()).collect();
        let extra = extra(all);
        Ok(RawTrace {
            layout,
            header_page,
            header_event,
            formats,
            stats: extra.stats,
            pages,
            clock,
            flight: extra.flight,
            names: names
                .lines()
                .filter_map(|line| {
                    let (tid, name) = line.trim().split_once(' ')?;
                    Some((tid.parse().ok()?, name.to_owned()))
                })
                .collect(),
            processes: extra.processes,
            context: extra.context,
        })
    }

    fn header(&mut self) -> Why<()> {
        if self.take(MAGIC.len())? != MAGIC {
            return Err("it does not begin as a trace.dat file does".to_owned());
        }
        let version = self.string()?;
        if version.as_bytes() != &VERSION[..1] {
            return Err(format!(
                "it is version {version}, and only 6 is read: convert it with \
                 `trace-cmd convert --file-version 6 -i IN -o OUT`"
            ));
        }
        let [endian, long] = self.array()?;
        if endian != u8::from(cfg!(target_endian = "big")) {
            return Err("it is from a machine of the other byte order: read it on such a machine".to_owned());
        }
        if !matches!(long, 4 | 8) {
            return Err(format!("it claims that a long has {long} bytes"));
        }
        Ok(())
    }

    fn formats(&mut self) -> Why<Vec<(String, String)>> {
        let mut formats = Vec::new();
        for _ in 0..self.u32()? {
            formats.push(("ftrace".to_owned(), self.text64()?));
        }
        for _ in 0..self.u32()? {
            let system = self.string()?;
            for _ in 0..self.u32()? {
                formats.push((system.clone(), self.text64()?));
            }
        }
        Ok(formats)
    }

    /// Goes over the options; gives the clock, `local` if none says another.
    fn options(&mut self) -> Why<String> {
        let mut clock = "local".to_owned();
        let mut section = self.take(10)?;
        if section == b"options  \0" {
            loop {
                let id = u16::from_ne_bytes(self.array()?);
                if id == OPTION_DONE {
                    break;
                }
                let value = self.sized32()?;
                if id == OPTION_CLOCK {
                    let text = String::from_utf8_lossy(value);
                    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                    if let Some((name, _)) = chosen {
                        name.clone_into(&mut clock);
                    }
                }
            }
            section = self.take(10)?;
        }
        match section {
            b"flyrecord\0" => Ok(clock),
            b"latency  \0" => Err("it holds a latency tracer's text, not events".to_owned()),
            _ => Err("what follows its options is unknown".to_owned()),
        }
    }

    /// A CPU's pages, and where they are in the file.
    fn pages(&mut self, all: &'a [u8], page_size: usize) -> Why<(usize, &'a [u8])> {
        let (offset, size) = (self.u64()?, self.u64()?);
        let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        let (offset, pages) = range
            .and_then(|(offset, size)| Some((offset, all.get(offset..offset.checked_add(size)?)?)))
            .ok_or("the pages of a CPU lie outside of it: it was cut short")?;
        if pages.len() % page_size != 0 {
            return Err("the last page of a CPU is not whole".to_owned());
        }
        Ok((offset, pages))
    }

    fn take(&mut self, count: usize) -> Why<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Why<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("it ends too early")?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Why<u32> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    fn u64(&mut self) -> Why<u64> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    fn expect(&mut self, bytes: &[u8]) -> Why<()> {
        if self.take(bytes.len())? == bytes { Ok(()) } else { Err("a section's name is wrong".to_owned()) }
    }

    /// Bytes up to a zero.
    fn string(&mut self) -> Why<String> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or("a name has no end")?;
        let text = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(text)
    }

    fn sized32(&mut self) -> Why<&'a [u8]> {
        let size = self.u32()?;
        self.take(size as usize)
    }

    fn text64(&mut self) -> Why<String> {
        let size = usize::try_from(self.u64()?).map_err(|_| "a text is longer than memory")?;
        Ok(String::from_utf8_lossy(self.take(size)?).into_owned())
    }
}

/// No byte belongs to two CPUs, so that what is copied is no more than the file: thousands of CPUs could name the
/// same range.
fn check_apart(pages: &[(usize, &[u8])]) -> Why<()> {
    let mut ranges: Vec<(usize, usize)> = pages
        .iter()
        .filter(|(_, pages)| !pages.is_empty())
        .map(|(at, pages)| (*at, at + pages.len()))
        .collect();
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("the pages of two CPUs overlap".to_owned());
    }
    Ok(())
}

/// What Handoff put behind the last page; nothing, if another tool wrote the file.
fn extra(all: &[u8]) -> Extra {
    let find = || {
        let (rest, footer) = all.split_last_chunk::<8>()?;
        let (rest, length) = (footer == FOOTER).then(|| rest.split_last_chunk::<8>())??;
        let start = rest.len().checked_sub(usize::try_from(u64::from_ne_bytes(*length)).ok()?)?;
        serde_json::from_slice(&rest[start..]).ok()
    };
    find().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::to_bytes;
    use super::*;
    use crate::trace::BufferStats;
    use proptest::prelude::*;

    fn example() -> RawTrace {
        let header_page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let mut page = vec![0; 4096];
        page[..8].copy_from_slice(&5u64.to_ne_bytes());
        let format = |system: &str, name: &str, id| {
            let text = format!(
                "name: {name}\nID: {id}\nformat:\n\
                \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                \tfield:char buf;\toffset:8;\tsize:0;\tsigned:0;\n"
            );
            (system.to_owned(), text)
        };
        RawTrace {
            layout: PageLayout::USUAL_64_BIT,
            header_page: header_page.to_owned(),
            header_event: "# compressed entry header\n".to_owned(),
            formats: vec![format("ftrace", "print", 5), format("irq", "a", 7), format("irq", "b", 8)],
            pages: vec![page.repeat(2), Vec::new(), page],
            stats: vec![BufferStats { overrun: 3, ..BufferStats::default() }],
            clock: "mono".to_owned(),
            flight: true,
            names: [(7, "seven of nine".to_owned())].into(),
            processes: [(8, 7)].into(),
            context: Default::default(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let raw = example();
        let bytes = to_bytes(&raw);
        // Files of earlier versions have this name for it.
        assert!(String::from_utf8_lossy(&bytes).contains("\"surroundings\""));
        let read = from_bytes(&bytes, Path::new("x")).expect("our own file");
        assert_eq!(format!("{read:?}"), format!("{raw:?}"));
        read.decode().expect("decodes");
    }

    #[test]
    fn a_file_cut_anywhere_is_refused_or_whole() {
        let bytes = to_bytes(&example());
        for end in (0..bytes.len()).step_by(7) {
            if let Ok(raw) = from_bytes(&bytes[..end], Path::new("x")) {
                assert_eq!(raw.pages.len(), 3, "only our footer may be missing");
                assert!(!raw.flight);
            }
        }
    }

    #[test]
    fn two_cpus_that_name_the_same_pages_are_refused() {
        let bytes = to_bytes(&example());
        let of = |number: usize| (number as u64).to_ne_bytes();
        // The table of offsets and sizes follows the word.
        let word = b"flyrecord\0";
        let table = bytes.windows(word.len()).position(|part| part == word).expect("our own") + word.len();
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
        let (first, size) = (number(table), number(table + 8));
        assert_eq!(size, 8192);
        for (offset, size) in [(first, 8192), (first + 4096, 4096), (first + 4096, 8192), (first, 4096)] {
            let mut bytes = bytes.clone();
            bytes[table + 32..table + 40].copy_from_slice(&of(offset));
            bytes[table + 40..table + 48].copy_from_slice(&of(size));
            let error = from_bytes(&bytes, Path::new("x")).expect_err("they overlap").to_string();
            assert!(error.contains("overlap"), "{error}");
        }
        // One without pages may say any place.
        let mut bytes = bytes;
        bytes[table + 16..table + 24].copy_from_slice(&of(first + 1));
        from_bytes(&bytes, Path::new("x")).expect("nothing is named twice");
    }

    #[test]
    fn a_newer_version_says_how_to_convert_it() {
        let mut bytes = to_bytes(&example());
        bytes[10] = b'7';
        let error = from_bytes(&bytes, Path::new("x.dat")).expect_err("version 7");
        assert!(error.to_string().contains("trace-cmd convert"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn a_damaged_file_does_no_harm(at in 0usize..13_000, byte in any::<u8>(), cut in 0usize..100) {
            let mut bytes = to_bytes(&example());
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            if let Ok(raw) = from_bytes(&bytes, Path::new("x")) {
                let _ = raw.decode();
            }
        }
    }
}
