//! What may change between two versions, and how versions are frozen.

use std::path::{Path, PathBuf};

use handoff_aidl::diagnostic::Severity;
use handoff_aidl::{Builder, Compilation, FreezeError, Options, compare, compile, freeze, verify};

fn compiled(text: &str) -> Compilation {
    let mut options = Options::default();
    options.texts.insert(PathBuf::from("T.aidl"), text.to_owned());
    let compilation = compile(&options, &["T.aidl".into()]);
    assert!(!compilation.diagnostics.has_errors(), "{}", compilation.report(false));
    compilation
}

/// What is said of a change; errors only.
fn broken(old: &str, new: &str) -> Vec<String> {
    let changes = compare(&compiled(old), &compiled(new));
    let errors = changes.into_iter().filter(|change| change.severity == Severity::Error);
    errors.map(|change| change.message).collect()
}

#[test]
fn additions_at_the_end_are_allowed() {
    for (old, new) in [
        ("interface T { void a(); }", "interface T { void a(); int b(in int[] c); const int X = 1; }"),
        ("interface T { void a(int x); }", "interface T { void a(int renamed); }"),
        (
            "parcelable T { int a; }",
            "parcelable T { int a; String b = \"\"; @nullable U c; boolean d; int[] e = {}; parcelable U {} }",
        ),
        ("union T { int a; }", "union T { int a; @nullable String b; long c; }"),
        ("parcelable T { int a; enum U { A } }", "parcelable T { int a; U b; enum U { A } }"),
        // What is the same said otherwise.
        ("parcelable T { int a; float b; }", "parcelable T { int a = 0; float b = 0.0f; }"),
        ("parcelable T { U a; enum U { A, B } }", "parcelable T { U a = U.A; enum U { A, B } }"),
        // Either side may begin or cease to take null.
        ("interface T { String a(in T[] b); }", "interface T { @nullable String a(in @nullable T[] b); }"),
        ("parcelable T { @nullable String a; }", "parcelable T { String a; }"),
        (
            "parcelable T { int a; }",
            "@JavaDerive(toString=true) @RustDerive(Clone=true) parcelable T { int a; }",
        ),
        ("enum T { A }", "enum T { A, B }"),
        ("interface T { const int A = 1 + 1; }", "interface T { const int A = 2; }"),
        ("interface T { void a() = 5; }", "interface T { void b() = 4; void a() = 5; }"),
    ] {
        assert_eq!(broken(old, new), Vec::<String>::new(), "{old} -> {new}");
    }
}

#[test]
fn what_others_rely_on_may_not_change() {
    for (old, new, what) in [
        ("interface T { void a(); void b(); }", "interface T { void b(); }", "`T.a` was removed"),
        ("interface T { void a(); }", "interface T { void b(); void a(); }", "transaction code 1 and has 2"),
        ("interface T { void a(); }", "interface T { int a(); }", "returned `void`"),
        ("interface T { void a(); }", "interface T { oneway void a(); }", "became oneway"),
        ("interface T { void a(int b); }", "interface T { void a(); }", "took 1 parameters"),
        ("interface T { void a(int b); }", "interface T { void a(long b); }", "was `in int`"),
        ("interface T { void a(in int[] b); }", "interface T { void a(inout int[] b); }", "is `inout int[]`"),
        ("interface T { String a(); }", "interface T { @utf8InCpp String a(); }", "@utf8InCpp String"),
        ("interface T { const int A = 1; }", "interface T { const int A = 2; }", "changed from `int 1`"),
        ("interface T { const int A = 1; }", "interface T {}", "constant `T.A` was removed"),
        ("parcelable T { int a; int b; }", "parcelable T { int a; }", "`T.b` was removed"),
        ("parcelable T { int a; int b; }", "parcelable T { int b; int a; }", "moved from place"),
        ("parcelable T { int a; }", "parcelable T { long a; }", "was `int` and is `long`"),
        ("parcelable T { int a = 1; }", "parcelable T { int a = 2; }", "the default of `T.a`"),
        ("parcelable T { int a = 1; }", "parcelable T { int b = 2; }", "the default of `T.a`"),
        (
            "parcelable T { U a = U.A; enum U { A } }",
            "parcelable T { U a; enum U { A } }",
            "default of `T.a`",
        ),
        ("parcelable T { int a; }", "parcelable T { int a; IBinder b; }", "new field `T.b`"),
        ("parcelable T { int a; }", "parcelable T { int a; String b; }", "new field `T.b`"),
        ("parcelable T { int a; }", "parcelable T { int a; char b; }", "new field `T.b`"),
        ("parcelable T { int a; }", "parcelable T { int a; byte[] b; }", "new field `T.b`"),
        ("parcelable T { parcelable U {} }", "parcelable T { U b; parcelable U {} }", "new field `T.b`"),
        ("parcelable T { enum U { A = 1 } }", "parcelable T { U b; enum U { A = 1 } }", "new field `T.b`"),
        ("union T { int a; }", "union T { int a; String b; }", "new field `T.b`"),
        ("parcelable T {}", "@SensitiveData interface T {}", "`@SensitiveData` was added"),
        ("@FixedSize parcelable T { int a; }", "@FixedSize parcelable T { int a; int b; }", "a field more"),
        ("@FixedSize parcelable T { int a; }", "parcelable T { int a; }", "was taken from"),
        ("union T { int a; int b; }", "union T { int b; int a; }", "moved"),
        ("enum T { A, B }", "enum T { A }", "`T.B` was removed"),
        ("enum T { A, B }", "enum T { B, A }", "was 0 and is 1"),
        ("enum T { A }", "@Backing(type=\"int\") enum T { A }", "was a `byte`"),
        ("parcelable T {}", "interface T {}", "was a parcelable"),
        ("parcelable T { parcelable U {} }", "parcelable T {}", "`T.U` was removed"),
    ] {
        let found = broken(old, new);
        assert!(found.iter().any(|message| message.contains(what)), "{old} -> {new}: {found:?}");
    }
    let renamed = compare(&compiled("parcelable T { int a; }"), &compiled("parcelable T { int b; }"));
    assert_eq!(renamed.len(), 1);
    assert_eq!(renamed[0].severity, Severity::Warning);
    let null =
        compare(&compiled("parcelable T { String a; }"), &compiled("parcelable T { @nullable String a; }"));
    assert_eq!((null.len(), null[0].severity), (1, Severity::Warning));
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_version_is_frozen_checked_and_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let (sources, api) = (folder.path().join("aidl"), folder.path().join("api"));
    let file = sources.join("a/b/IFoo.aidl");
    let compiled = || compile(&Options::default(), std::slice::from_ref(&sources));
    write(&file, "package a.b;\n/** Said. */ interface IFoo { void one(); }\n");
    let first = freeze(&compiled(), &api).unwrap();
    assert_eq!((first.version, first.hash.len()), (1, 40));
    let kept = std::fs::read_to_string(api.join("1/a/b/IFoo.aidl")).unwrap();
    assert_eq!(kept, "package a.b;\n\ninterface IFoo {\n    void one();\n}\n");
    // The hash is what `sha1sum` gives: of the lines it prints of the files, and the version before.
    assert_eq!(verify(&api.join("1")).unwrap(), first);
    assert!(matches!(freeze(&compiled(), &api), Err(FreezeError::Unchanged(1))));

    write(&file, "package a.b; interface IFoo { void two(); void one(); }");
    assert!(matches!(freeze(&compiled(), &api), Err(FreezeError::Incompatible { version: 1, .. })));
    write(&file, "package a.b; interface IFoo { void one(); void two(); }");
    let second = freeze(&compiled(), &api).unwrap();
    assert_eq!(second.version, 2);
    assert_ne!(second.hash, first.hash);
    assert!(api.join("current/a/b/IFoo.aidl").is_file() && !api.join("current/.hash").exists());

    let code = Builder::new().frozen(api.join("2")).unwrap().code().unwrap();
    assert!(code.contains("pub const VERSION: i32 = 2;") && code.contains(&second.hash), "{code}");

    write(&api.join("2/a/b/IFoo.aidl"), "package a.b; interface IFoo { void one(); }");
    assert!(matches!(freeze(&compiled(), &api), Err(FreezeError::Touched { version: 2, .. })));
    assert!(Builder::new().frozen(api.join("2")).is_err());
}

#[test]
fn the_hash_is_that_of_android_s_build() {
    let folder = tempfile::tempdir().unwrap();
    let api = folder.path().join("7");
    write(&api.join("a/IFoo.aidl"), "package a;\n");
    // printf 'package a;\n' > ./a/IFoo.aidl;
    // (find ./ -name '*.aidl' -print0 | LC_ALL=C sort -z | xargs -0 sha1sum && echo 6) | sha1sum
    write(&api.join(".hash"), "45f1dd3eacf53504a1116e06505c0418d68e550f\n");
    assert!(verify(&api).is_ok());
}
