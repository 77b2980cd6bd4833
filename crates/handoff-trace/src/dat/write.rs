//! Writes a `trace.dat` file.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Extra, FOOTER, MAGIC, OPTION_CLOCK, OPTION_DONE, VERSION};
use crate::error::{Result, TraceError};
use crate::trace::RawTrace;

/// Writes a trace to a file, in one piece: it is complete or not there.
pub fn save(raw: &RawTrace, path: &Path) -> Result<()> {
    let fail = |source| TraceError::File { action: "write", path: path.to_owned(), source };
    let partial = path.with_added_extension("partial");
    std::fs::write(&partial, to_bytes(raw)).and_then(|()| std::fs::rename(&partial, path)).map_err(|error| {
        drop(std::fs::remove_file(&partial));
        fail(error)
    })
}

/// The bytes of the file.
pub fn to_bytes(raw: &RawTrace) -> Vec<u8> {
    let page = raw.layout.page_size();
    let mut out = Vec::with_capacity(raw.bytes() + (256 << 10));
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(VERSION);
    out.push(u8::from(cfg!(target_endian = "big")));
    out.push(size_of::<usize>() as u8);
    out.extend_from_slice(&(page as u32).to_ne_bytes());
    for (name, text) in [("header_page\0", &raw.header_page), ("header_event\0", &raw.header_event)] {
        out.extend_from_slice(name.as_bytes());
        text64(&mut out, text);
    }

    let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (system, text) in &raw.formats {
        systems.entry(system).or_default().push(text);
    }
    let ftrace = systems.remove("ftrace").unwrap_or_default();
    count(&mut out, ftrace.len());
    ftrace.iter().for_each(|text| text64(&mut out, text));
    count(&mut out, systems.len());
    for (system, texts) in systems {
        out.extend_from_slice(system.as_bytes());
        out.push(0);
        count(&mut out, texts.len());
        texts.iter().for_each(|text| text64(&mut out, text));
    }

    // No kernel symbols, no trace_printk formats: none of our events uses them.
    count(&mut out, 0);
    count(&mut out, 0);
    let mut names: Vec<_> = raw.names.iter().collect();
    names.sort_unstable();
    let names: String =
        names.iter().map(|(tid, name)| format!("{tid} {}\n", name.replace('\n', " "))).collect();
    text64(&mut out, &names);

    count(&mut out, raw.pages.len());
    out.extend_from_slice(b"options  \0");
    let clock = format!("[{}]\0", raw.clock);
    out.extend_from_slice(&OPTION_CLOCK.to_ne_bytes());
    count(&mut out, clock.len());
    out.extend_from_slice(clock.as_bytes());
    out.extend_from_slice(&OPTION_DONE.to_ne_bytes());
    out.extend_from_slice(b"flyrecord\0");
    let table = out.len() + raw.pages.len() * 16;
    let mut offset = table.next_multiple_of(page);
    for pages in &raw.pages {
        out.extend_from_slice(&(offset as u64).to_ne_bytes());
        out.extend_from_slice(&(pages.len() as u64).to_ne_bytes());
        offset += pages.len();
    }
    out.resize(table.next_multiple_of(page), 0);
    raw.pages.iter().for_each(|pages| out.extend_from_slice(pages));

    let extra = Extra {
        flight: raw.flight,
        stats: raw.stats.clone(),
        processes: raw.processes.clone(),
        context: raw.context.clone(),
    };
    // Numbers and paths: a path that is no text is the only thing JSON could refuse.
    if let Ok(json) = serde_json::to_vec(&extra) {
        out.extend_from_slice(&json);
        out.extend_from_slice(&(json.len() as u64).to_ne_bytes());
        out.extend_from_slice(FOOTER);
    }
    out
}

fn count(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_ne_bytes());
}

fn text64(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_ne_bytes());
    out.extend_from_slice(text.as_bytes());
}
