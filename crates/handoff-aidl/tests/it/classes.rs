//! Classes of C++ and Java: those that are written by hand, and methods that every class has.

use std::path::PathBuf;

use handoff_aidl::{
    ClassOptions, Compilation, Options, PythonOptions, RustOptions, compile, generate, generate_cpp,
    generate_java, generate_python,
};

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
fn a_bundle_is_imported() {
    let compilation =
        compiled(&[("a/Window.aidl", "package a; parcelable Window { PersistableBundle extras; }")]);
    let said = compilation.report(false);
    assert!(said.contains("`PersistableBundle` cannot be used here"), "{said}");
    assert!(said.contains("import android.os.PersistableBundle;"), "{said}");
}

/// No file defines it, or Android's, which names the class of a crate that is not here.
#[test]
fn every_language_has_a_class_of_bundles() {
    let user = (
        "a/Window.aidl",
        "package a; import android.os.PersistableBundle; parcelable Window { PersistableBundle x; }",
    );
    let android = "package android.os; parcelable PersistableBundle cpp_header \"binder/PersistableBundle.h\" \
                   ndk_header \"android/persistable_bundle_aidl.h\" rust_type \"binder::PersistableBundle\";";
    for files in [&[user][..], &[user, ("android/os/PersistableBundle.aidl", android)]] {
        let compilation = compiled(files);
        assert!(!compilation.diagnostics.has_errors(), "{}", compilation.report(false));
        let options = ClassOptions::default();
        let cpp = &generate_cpp(&compilation, &options).unwrap()[0].text;
        assert!(cpp.contains("#include <android/persistable_bundle_aidl.h>\n"), "{cpp}");
        let java = &generate_java(&compilation, &options).unwrap()[0].text;
        assert!(java.contains("readTypedObject(android.os.PersistableBundle.CREATOR)"), "{java}");
        let rust = generate(&compilation, &RustOptions::default()).unwrap();
        assert!(rust.contains("pub x: ::handoff_ipc::parcel::PersistableBundle"), "{rust}");
        let python = generate_python(&compilation, &PythonOptions::default()).unwrap();
        assert!(python.contains("x: _aidl.PersistableBundle = "), "{python}");
    }
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

/// A queue's items lie in memory: only a type of a fixed size says how.
#[test]
fn a_queue_of_other_than_fixed_sizes_needs_a_type_in_rust() {
    let with = |definition: &str| {
        let text = format!("package a; import a.Mode; {definition}");
        compiled(&[
            ("a/Message.aidl", &text),
            ("a/Mode.aidl", "package a; @Backing(type=\"int\") enum Mode { OFF, ON }"),
            ("a/Apart.aidl", "package a; enum Apart { ONE }"),
            (
                "a/IFoo.aidl",
                "package a; import a.Message; import android.hardware.common.fmq.MQDescriptor;\n\
                 import android.hardware.common.fmq.SynchronizedReadWrite;\n\
                 interface IFoo { MQDescriptor<Message, SynchronizedReadWrite> queue(); }",
            ),
        ])
    };
    for other in [
        "parcelable Message { int a; }",
        "@FixedSize parcelable Message {}",
        "@FixedSize union Message { int a; Mode b; }",
        "@FixedSize parcelable Message { @FixedSize union Part { int a; } Part part; }",
    ] {
        let compilation = with(other);
        let wrong = generate(&compilation, &RustOptions::default()).unwrap_err();
        let said = wrong.render(&compilation.sources, false);
        assert!(said.contains("a/IFoo.aidl:3:") && said.contains("--map a.Message=crate::Message"), "{said}");
        let types = [("a.Message".to_owned(), "crate::Message".to_owned())].into();
        let rust = generate(&compilation, &RustOptions { types, ..RustOptions::default() }).unwrap();
        let plain: String = rust.split_whitespace().collect();
        assert!(plain.contains("queue::Descriptor<crate::Message,"), "{rust}");
    }
    let rust = generate(
        &with("@FixedSize parcelable Message { long at; Mode mode; Mode[2] both; }"),
        &RustOptions::default(),
    );
    let plain: String = rust.unwrap().split_whitespace().collect();
    assert!(plain.contains("queue_item!(Message{at:i64,mode:Mode,both:[Mode;2]});"), "{plain}");
    assert!(plain.contains("queue::ItemforMode{") && !plain.contains("queue::ItemforApart"), "{plain}");
}

/// Parameters of a parcelable's type are names alone, as to Android's compiler; a queue's descriptor is such a parcelable.
#[test]
fn type_parameters_are_names_in_java_and_leave_no_trace_in_rust() {
    let of = |fields: &str| {
        compiled(&[
            ("a/Pair.aidl", &format!("package a; parcelable Pair<A, B> {{ {fields} }}")),
            (
                "a/IFoo.aidl",
                "package a; import a.Pair; import android.hardware.common.fmq.MQDescriptor;\n\
                 import android.hardware.common.fmq.SynchronizedReadWrite;\n\
                 interface IFoo { Pair<int, String>[] pairs();\n\
                 void queue(out MQDescriptor<byte, SynchronizedReadWrite> queue); }",
            ),
        ])
    };
    let compilation = of("int a;");
    assert!(!compilation.diagnostics.has_errors(), "{}", compilation.report(false));
    let files = generate_java(&compilation, &ClassOptions::default()).unwrap();
    let text = |name: &str| &files.iter().find(|file| file.path.ends_with(name)).unwrap().text;
    assert!(text("a/Pair.java").contains("public class Pair<A, B> implements android.os.Parcelable"));
    let java = text("a/IFoo.java");
    assert!(java.contains("a.Pair<java.lang.Integer, java.lang.String>[] pairs()"), "{java}");
    let queue = "android.hardware.common.fmq.MQDescriptor<java.lang.Byte, android.hardware.common.fmq.SynchronizedReadWrite>";
    assert!(java.contains(&format!("new {queue}()")), "{java}");
    // Nobody else has the code of what this compiler brings along.
    text("android/hardware/common/fmq/MQDescriptor.java");
    text("android/hardware/common/NativeHandle.java");
    let rust = generate(&compilation, &RustOptions::default()).unwrap();
    assert!(rust.contains("fn pairs(&self) -> ::handoff_ipc::Result<Vec<Pair>>"), "{rust}");
    // A value of a parameter's type would have no size.
    let compilation = of("int a; A b;");
    let java = generate_java(&compilation, &ClassOptions::default()).unwrap_err();
    let rust = generate(&compilation, &RustOptions::default()).unwrap_err();
    for wrong in [java, rust] {
        let said = wrong.render(&compilation.sources, false);
        assert!(said.contains("a/Pair.aidl:1:45") && said.contains("a field of a type parameter"), "{said}");
    }
}
