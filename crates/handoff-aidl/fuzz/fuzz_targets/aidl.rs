//! Compiles any text as AIDL: diagnostics or code, never a panic.
#![no_main]

mod compile;

use handoff_aidl::source::Language;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| compile::any_text("IFoo.aidl", Language::Aidl, text));
