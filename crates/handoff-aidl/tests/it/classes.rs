//! Classes of C++ and Java: those that are written by hand, and methods that every class has.

use std::path::PathBuf;

use handoff_aidl::{ClassOptions, Compilation, Options, compile, generate_cpp, generate_java};

const USER: (&str, &str) = (
    "a/Window.aidl",
    "package a; import b.Region; import android.os.PersistableBundle;\n\
     @VintfStability parcelable Window { @nullable Region region; PersistableBundle extras; }",
);

fn compiled(files: &[(&str, &str)]) -> Compilation {
    let texts = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
    let inputs: Vec<PathBuf> = files.iter().map(|(path, _)| path.into()).collect();
    compile(&Options { texts, ..Options::default() }, &inputs)
}

#[test]
fn the_header_that_a_file_names_has_the_class() {
    let compilation = compiled(&[
        USER,
        ("b/Region.aidl", "package b; @NdkOnlyStableParcelable parcelable Region ndk_header \"b/region.h\";"),
        (
            "android/os/PersistableBundle.aidl",
            "package android.os; @NdkOnlyStableParcelable parcelable PersistableBundle ndk_header \"bundle.h\";",
        ),
    ]);
    assert!(!compilation.diagnostics.has_errors(), "{}", compilation.report(false));
    let options = ClassOptions::default();
    let cpp = generate_cpp(&compilation, &options).unwrap();
    let paths: Vec<String> = cpp.iter().map(|file| file.path.display().to_string()).collect();
    assert_eq!(paths, ["aidl/a/Window.h", "a/Window.cpp"]);
    assert!(cpp[0].text.contains("#include <b/region.h>\n#include <bundle.h>\n"), "{}", cpp[0].text);
    assert!(cpp[0].text.contains("std::optional<::aidl::b::Region> region;"), "{}", cpp[0].text);
    // Java finds the class by its name.
    let java = generate_java(&compilation, &options).unwrap();
    assert_eq!(java.len(), 1);
    assert!(java[0].text.contains("public b.Region region;"), "{}", java[0].text);
}

#[test]
fn without_a_header_the_error_stands_at_the_parcelable() {
    let compilation = compiled(&[("b/Region.aidl", "package b; parcelable Region;")]);
    let wrong = generate_cpp(&compilation, &ClassOptions::default()).unwrap_err();
    let said = wrong.render(&compilation.sources, false);
    assert!(said.contains("b/Region.aidl:1:23") && said.contains("ndk_header"), "{said}");
}

#[test]
fn a_bundle_that_no_file_defines_is_refused() {
    let compilation =
        compiled(&[("a/Window.aidl", "package a; parcelable Window { PersistableBundle extras; }")]);
    let said = compilation.report(false);
    assert!(said.contains("`PersistableBundle` cannot be used here"), "{said}");
}

#[test]
fn java_has_methods_beside_those_of_every_class_if_their_parameters_differ() {
    let java = |methods: &str| {
        let text = format!("package a; interface IFoo {{ {methods} }}");
        generate_java(&compiled(&[("a/IFoo.aidl", &text)]), &ClassOptions::default())
    };
    assert!(java("void notify(int what); void wait(String a); void wake(int notify);").is_ok());
    for methods in ["void notify();", "void wait(long a);", "void wait(long a, int b);", "String toString();"]
    {
        assert!(java(methods).is_err(), "{methods}");
    }
}
