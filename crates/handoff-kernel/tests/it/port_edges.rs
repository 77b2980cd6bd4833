//! Where lists, logs and files begin and end, when nothing that stood beside an added line is here.

use handoff_kernel::port::Outcome;

use crate::port_honest::{hunk, patch, quiet, run, tree};

#[test]
fn of_thousands_of_equal_places_the_one_that_the_patch_names_is_taken() {
    // Each place looks for the heading above it: that must not take a walk through the file.
    let file = "\t{ 0, 0 },\n".repeat(100_000);
    let body = " \t{ 0, 0 },\n".repeat(3) + "+\t{ 1, 0 },\n" + &" \t{ 0, 0 },\n".repeat(3);
    let folder = tree(&[("x.c", &format!("int a[] = {{\n{file}}};\n"))]);
    let report = run(&folder, &patch(&[(50_001, "int a[] = {", &body)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, Outcome::Fuzzy, "{report}");
}
