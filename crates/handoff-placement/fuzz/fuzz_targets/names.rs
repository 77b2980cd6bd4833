//! Reads any text as CPUs, a selector, a priority, a deadline or an I/O priority: what is read is printed so
//! that it is read again as the same.
#![no_main]

use handoff_placement::{CpuSet, Deadline, IoPriority, Priority, Selector};
use libfuzzer_sys::fuzz_target;
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn there_and_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>().ok().as_ref(), Some(&value), "{printed}");
    }
}

fuzz_target!(|text: &str| {
    there_and_back::<CpuSet>(text);
    there_and_back::<Selector>(text);
    there_and_back::<Priority>(text);
    there_and_back::<IoPriority>(text);
    let _ = text.parse::<Deadline>();
});
