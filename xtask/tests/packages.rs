//! Each package, built, installed and used as its people would: `cargo xtask test --all -- packages`.

mod packages {
    mod built;
    mod c;
    mod deb;
    mod java;
    mod oci;
    mod python;
}
