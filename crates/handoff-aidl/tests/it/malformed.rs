//! Files with faults: each gets diagnostics, in the expected words where they were written by hand,
//! and none makes the compiler panic or hang.

use std::path::PathBuf;

use crate::common::{corpus, options};
use handoff_aidl::source::Language;
use handoff_aidl::{Options, RustOptions, compile, generate};

/// Compiles one text as a file.
fn report(path: &str, text: &str, options: &Options) -> (String, bool) {
    let mut options = options.clone();
    options.texts.insert(PathBuf::from(path), text.to_owned());
    let compilation = compile(&options, &[path.into()]);
    if compilation.diagnostics.has_errors() {
        return (compilation.report(false), true);
    }
    match generate(&compilation, &RustOptions::default()) {
        Ok(_) => (compilation.report(false), false),
        Err(wrong) => (wrong.render(&compilation.sources, false), true),
    }
}

/// What is expected is in `malformed.txt`; `UPDATE_EXPECTED=1` writes it anew, to be read and committed.
#[test]
fn faults_are_shown_with_place_and_advice() {
    let cases = include_str!("../malformed_cases.txt");
    let mut found = String::new();
    for (number, case) in cases.split("=== ").skip(1).enumerate() {
        let (name, text) = case.split_once('\n').expect("a name, then a file");
        let (text_of, has_errors) = report(name, text, &Options::default());
        assert!(!text_of.is_empty(), "case {number}, {name}, has nothing wrong:\n{text}");
        assert!(has_errors || text_of.contains("warning"), "{name}");
        found.push_str(&format!("=== {}\n{}", number + 1, text_of));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/malformed.txt");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    for (found, expected) in found.split("=== ").zip(expected.split("=== ")) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// What a file may do to the stack or to the time of whoever compiles it is bounded, and said at its place.
#[test]
fn names_and_definitions_have_an_end() {
    let of = |text: &str| report("IFoo.aidl", text, &Options::default()).0;
    let package = format!("package {};\ninterface IFoo {{}}", vec!["a"; 100_000].join("."));
    assert!(of(&package).contains("error: a name of more than 64 parts\n --> IFoo.aidl:1:9\n"));
    let members = |one: fn(usize) -> String| (0..16_385).map(one).collect::<String>();
    for (text, line) in [
        (format!("enum IFoo {{\n{}}}", members(|n| format!("V{n},\n"))), 16_386),
        (format!("parcelable IFoo {{\n{}}}", members(|n| format!("int f{n};\n"))), 16_386),
        (format!("interface IFoo {{\n{}}}", members(|n| format!("void m{n}();\n"))), 16_386),
    ] {
        let said = of(&text);
        assert!(said.contains("error: more than 16384 members\n"), "{said}");
        assert!(said.contains(&format!(" IFoo.aidl:{line}:1\n")), "{said}");
    }
    let constants: String = (0..16_384).map(|n| format!("const int C{n} = {n};\n")).collect();
    assert_eq!(of(&format!("interface IFoo {{\n{constants}}}")), "");
}

#[test]
fn what_is_no_utf_8_is_shown_where_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("IFoo.aidl");
    std::fs::write(&path, b"package a;\n// caf\xe9\ninterface IFoo {}\n").unwrap();
    let said = compile(&Options::default(), &[path]).report(false);
    assert!(said.contains("IFoo.aidl is not UTF-8\n") && said.contains("IFoo.aidl:2:7\n"), "{said}");
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // Marsaglia's xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// A file with one to three things wrong.
fn damaged(text: &str, numbers: &mut Numbers) -> String {
    let signs = [
        "{",
        "}",
        "(",
        ")",
        ";",
        ",",
        "<",
        ">",
        "=",
        "@",
        "\"",
        "/*",
        "'",
        "1e",
        "0x",
        "é",
        "\0",
        "interface",
        "@1.0",
        "[]",
        "::",
        "const",
    ];
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(characters.len());
        let length = numbers.below(12).min(characters.len() - at);
        match numbers.below(5) {
            0 => drop(characters.drain(at..at + length)),
            1 => {
                let sign = signs[numbers.below(signs.len())];
                characters.splice(at..at, sign.chars());
            }
            2 => characters.truncate(at),
            3 => {
                let piece: Vec<char> = characters[at..at + length].to_vec();
                let to = numbers.below(characters.len());
                characters.splice(to..to, piece);
            }
            _ => {
                let other = numbers.below(characters.len().max(1));
                if !characters.is_empty() {
                    let last = characters.len() - 1;
                    characters.swap(at.min(last), other);
                }
            }
        }
    }
    characters.into_iter().collect()
}

#[test]
fn no_damage_makes_the_compiler_panic() {
    let options = options();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut wrong, mut all) = (0, 0);
    for (path, text) in corpus() {
        for _ in 0..16 {
            let (_, has_errors) = report(path, &damaged(text, &mut numbers), &options);
            wrong += usize::from(has_errors);
            all += 1;
        }
    }
    assert!(all > 400 && wrong > 300, "only {wrong} of {all} had errors: is damage still done?");
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let n = 20_000;
    for (language, text) in [
        (Language::Aidl, format!("interface x {{ const int A = {}; }}", deep("(", "1", ")", n))),
        (Language::Aidl, format!("interface x {{ const int A = {}1; }}", "-".repeat(n))),
        (Language::Aidl, format!("interface x {{ const int A = 1{}; }}", "+1".repeat(n))),
        (Language::Aidl, format!("interface x {{ const int[] A = {}; }}", deep("{", "1", "}", n))),
        (Language::Aidl, format!("interface x {{ void f(in {} a); }}", deep("List<", "int", ">", n))),
        (Language::Aidl, format!("interface x {{ void f(in int{} a); }}", "[2]".repeat(n))),
        (Language::Aidl, deep("parcelable x {", "", "}", n)),
        (Language::Aidl, "interface x {".repeat(n)),
        (Language::Aidl, "parcelable x { int[1000000][1000000] a; }".to_owned()),
        (Language::Aidl, "@x(".repeat(n)),
        (Language::Hidl, format!("package a@1.0; typedef {} x;", deep("vec<", "bool", ">", n))),
        (Language::Hidl, format!("package a@1.0; enum x : uint8_t {{ A = {}1 }};", "1 ? 2 : ".repeat(n))),
        (Language::Hidl, format!("package a@1.0; {}", "struct x {".repeat(n))),
    ] {
        let path = if language == Language::Aidl { "x.aidl" } else { "x.hal" };
        let (text_of, has_errors) = report(path, &text, &Options::default());
        assert!(has_errors, "{}...\n{text_of}", &text[..40]);
    }
    // Long chains of constants, each of which needs the next.
    let chain: String = (0..5000).map(|n| format!("const int A{n} = A{} + 1;\n", n + 1)).collect();
    assert!(
        report("x.aidl", &format!("interface x {{ {chain} const int A5000 = 0; }}"), &Options::default()).1
    );
    // Parcelables that hold each other in a long chain are fine.
    let chain: String =
        (0..300).map(|n| format!("parcelable P{n} {{ @nullable P{} a; }}\n", n + 1)).collect();
    assert!(!report("x.aidl", &format!("{chain} parcelable P300 {{ int a; }}"), &Options::default()).1);
}
