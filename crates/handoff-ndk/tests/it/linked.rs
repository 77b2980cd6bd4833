//! What a call runs is still where `call.ld` says: a function that has gone, or has another name, would be forgotten there.

use std::fs;

use handoff_testkit::built_library;
use object::{Object as _, ObjectSymbol as _};

use crate::here;

#[test]
fn each_function_that_is_put_beside_the_others_is_there() {
    let script = fs::read_to_string(here().join("call.ld")).unwrap();
    let wanted: Vec<_> = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("*(.text.")?.strip_suffix(')'))
        // What compilers put behind a name.
        .map(|name| name.trim_end_matches('*'))
        .collect();
    assert!(wanted.len() > 20, "{wanted:?}");
    let library = fs::read(built_library("binder_ndk", ".so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let names: Vec<&str> = library.symbols().filter_map(|symbol| symbol.name().ok()).collect();
    for wanted in wanted {
        assert!(names.iter().any(|name| name.starts_with(wanted)), "{wanted}");
    }
}
