//! The book's table of functions is what the library exports.

use std::collections::BTreeSet;
use std::fs;

use handoff_testkit::built_library;
use object::{Object as _, ObjectSymbol as _};

use crate::here;

#[test]
fn the_books_table_is_what_the_library_exports() {
    let page = fs::read_to_string(here().join("../../docs/book/src/reference/ndk.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let of = |is_here: &str| -> BTreeSet<String> {
        rows.iter().filter(|row| row[2] == is_here).map(|row| row[1].trim_matches('`').to_owned()).collect()
    };
    let (present, absent) = (of("yes"), of("no"));
    assert_eq!(present.len() + absent.len(), rows.len(), "each function once, with yes or no");
    assert!(rows.iter().all(|row| !row[3].is_empty()), "each has its reason");
    let library = fs::read(built_library("binder_ndk", ".so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let exported: BTreeSet<String> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| Some(symbol.name().ok()?.to_owned()))
        .filter(|name| {
            let of = [
                "AIBinder",
                "AParcel",
                "APersistable",
                "AStatus",
                "AServiceManager",
                "ABinder",
                "AMessageQueue",
                "AEventFlag",
            ];
            of.iter().any(|of| name.starts_with(of))
        })
        .collect();
    assert!(exported.len() > 100, "{}", exported.len());
    assert_eq!(present, exported);
}
