//! Pages built by hand from the description in `ring_buffer.h`, whole and damaged.

use super::*;
use proptest::prelude::*;

const LAYOUT: PageLayout = PageLayout::USUAL_64_BIT;

/// Writes a page as the kernel does.
struct Builder {
    time: u64,
    flags: u64,
    data: Vec<u8>,
}

impl Builder {
    fn new(time: u64) -> Self {
        Self { time, flags: 0, data: Vec::new() }
    }

    fn header(&mut self, kind: u32, delta: u64) -> &mut Self {
        let delta = u32::try_from(delta).expect("27 bits");
        let word = if cfg!(target_endian = "little") { delta << 5 | kind } else { kind << 27 | delta };
        self.word(word)
    }

    fn word(&mut self, word: u32) -> &mut Self {
        self.data.extend_from_slice(&word.to_ne_bytes());
        self
    }

    fn short(&mut self, delta: u64, data: &[u8]) -> &mut Self {
        assert!(data.len().is_multiple_of(4) && data.len() <= 112);
        self.header(data.len() as u32 / 4, delta);
        self.data.extend_from_slice(data);
        self
    }

    fn long(&mut self, delta: u64, data: &[u8]) -> &mut Self {
        self.header(0, delta).word(data.len() as u32 + 4);
        self.data.extend_from_slice(data);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self
    }

    fn page(&self) -> Vec<u8> {
        let mut page = self.time.to_ne_bytes().to_vec();
        page.extend_from_slice(&(self.data.len() as u64 | self.flags).to_ne_bytes());
        page.extend_from_slice(&self.data);
        page.resize(LAYOUT.page_size(), 0);
        page
    }
}

fn read(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let page = Page::parse(&LAYOUT, page).expect("a valid page");
    page.records().map(|r| r.expect("a valid record")).map(|r| (r.time, r.data.to_vec())).collect()
}

#[test]
fn each_kind_of_record_is_read() {
    let mut page = Builder::new(1_000);
    page.short(0, &[1; 8]);
    page.header(TYPE_PADDING, 5).word(8).word(0xdead_beef);
    page.long(10, &[2; 200]);
    page.header(TYPE_TIME_EXTEND, 3).word(2);
    page.short(1, &[3; 4]);
    page.header(TYPE_TIME_STAMP, 7).word(9);
    page.short(0, &[4; 112]);
    page.header(TYPE_PADDING, 0).word(0);
    let extended = 1_015 + (2 << 27) + 3 + 1;
    assert_eq!(
        read(&page.page()),
        [(1_000, vec![1; 8]), (1_015, vec![2; 200]), (extended, vec![3; 4]), ((9 << 27) + 7, vec![4; 112]),]
    );
}

#[test]
fn an_absolute_stamp_keeps_the_upper_bits() {
    let before = (3 << 59) + 100;
    assert_eq!(absolute(120, before), (3 << 59) + 120);
    assert_eq!(absolute(20, before), (4 << 59) + 20, "it has wrapped");
    assert_eq!(absolute(20, 100), 20, "without upper bits it is what it says");
}

#[test]
fn lost_events_are_seen_and_counted() {
    let mut page = Builder::new(0);
    page.short(0, &[0; 8]);
    assert_eq!(Page::parse(&LAYOUT, &page.page()).expect("valid").missed, LostEvents::Nothing);
    page.flags = MISSED_EVENTS;
    assert_eq!(Page::parse(&LAYOUT, &page.page()).expect("valid").missed, LostEvents::Unknown);
    page.flags = MISSED_EVENTS | MISSED_STORED;
    let mut bytes = page.page();
    let behind = 16 + page.data.len();
    bytes[behind..behind + 8].copy_from_slice(&77u64.to_ne_bytes());
    assert_eq!(Page::parse(&LAYOUT, &bytes).expect("valid").missed, LostEvents::Count(77));
}

#[test]
fn damaged_pages_end_in_a_reason() {
    assert!(Page::parse(&LAYOUT, &[0; 15]).is_err());
    let mut page = Builder::new(0);
    page.short(0, &[0; 8]);
    let mut bytes = page.page();
    bytes[8..16].copy_from_slice(&5000u64.to_ne_bytes());
    assert!(Page::parse(&LAYOUT, &bytes).is_err(), "longer than the page");
    let mut page = Builder::new(0);
    page.header(28, 1).word(0);
    let bytes = page.page();
    let all: Vec<_> = Page::parse(&LAYOUT, &bytes).expect("the header is fine").records().collect();
    assert_eq!(all, [Err("a record reaches past its end")]);
    let mut page = Builder::new(0);
    page.header(0, 1).word(3);
    let bytes = page.page();
    let all: Vec<_> = Page::parse(&LAYOUT, &bytes).expect("the header is fine").records().collect();
    assert_eq!(all, [Err("a record is shorter than its own length")]);
}

#[test]
fn the_layout_is_read_from_the_kernels_text() {
    let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    assert_eq!(PageLayout::parse(text).expect("valid"), LAYOUT);
    assert_eq!(LAYOUT.page_size(), 4096);
    assert_eq!(LAYOUT.with_page_size(65536).expect("valid").page_size(), 65536);
    assert!(LAYOUT.with_page_size(16).is_err());
    let overlapping = text.replace("offset:16", "offset:12");
    assert!(PageLayout::parse(&overlapping).is_err());
    assert!(PageLayout::parse("").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(page) = Page::parse(&LAYOUT, &bytes) {
            // Each step takes at least a word, so the walk ends.
            prop_assert!(page.records().count() <= bytes.len() / 4 + 1);
        }
    }

    #[test]
    fn what_was_written_is_read(records in proptest::collection::vec((0u64..1 << 27, 1usize..60), 0..20), time in 0u64..1 << 40) {
        let mut page = Builder::new(time);
        let mut expected = Vec::new();
        let mut now = time;
        for (index, (delta, words)) in records.into_iter().enumerate() {
            let data = vec![index as u8; words * 4];
            now += delta;
            if words <= 28 { page.short(delta, &data); } else { page.long(delta, &data); }
            expected.push((now, data));
        }
        prop_assume!(page.data.len() <= 4080);
        prop_assert_eq!(read(&page.page()), expected);
    }
}
