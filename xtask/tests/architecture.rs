//! The rules of the house (`docs/book/src/design/house.md`), checked on the sources.

mod architecture {
    mod archives;
    mod arrows;
    mod circles;
    mod pages;
    mod snippets;
    mod sources;
    mod tree;
}
