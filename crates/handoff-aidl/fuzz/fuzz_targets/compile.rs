//! What both targets do: compile a text, and check what must hold whatever it says.

use std::path::PathBuf;

use handoff_aidl::source::{Language, Sources};
use handoff_aidl::{
    Options, PythonOptions, RustOptions, Style, compile, describe, format, generate, generate_python, print,
};

/// Compiles any text; one without errors becomes Rust, is described and printed.
pub fn any_text(path: &str, language: Language, text: &str) {
    let mut options = Options::default();
    options.texts.insert(PathBuf::from(path), text.to_owned());
    let compilation = compile(&options, &[path.into()]);
    let report = compilation.report(false);
    assert_eq!(compilation.diagnostics.is_empty(), report.is_empty());
    if !compilation.diagnostics.has_errors() {
        let both_kinds = RustOptions { asynchronous: true, ..RustOptions::default() };
        if let Ok(code) = generate(&compilation, &both_kinds) {
            assert!(code.starts_with("// Generated"));
        }
        if let Ok(module) = generate_python(&compilation, &PythonOptions::default()) {
            assert!(module.starts_with("# Generated"));
        }
        describe(&compilation);
        print(&compilation.model, compilation.model.iter(), Style::Api);
    }
    let laid_out = |text: &str| {
        let mut sources = Sources::new();
        let file = sources.add(path, text, language);
        format(&sources, file)
    };
    if let Ok(once) = laid_out(text) {
        let twice = laid_out(&once).expect("what was laid out is still understood");
        assert_eq!(once, twice);
    }
}
