//! An interface a type, in every direction that the type can go, between the code of both compilers.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use handoff_aidl::ClassOptions;
use handoff_testkit::{require, require_file, require_guest, require_tool};

use crate::built::{From, Workshop, debian, files, ours, run};
use crate::here;

/// A type: its interface's package, AIDL, C++, and two values of it. `out` says whether parameters of it can be.
type Row = (&'static str, bool, &'static str, &'static str, &'static str, &'static str);

const IN: bool = false;
const OUT: bool = true;

/// What the compiler of Android 10 knows, which is Debian's.
const KNOWN: [Row; 40] = [
    ("flag", IN, "boolean", "bool", "true", "false"),
    ("small", IN, "byte", "int8_t", "-128", "127"),
    ("letter", IN, "char", "char16_t", "u'ß'", "0xffff"),
    ("number", IN, "int", "int32_t", "INT32_MIN", "77"),
    ("big", IN, "long", "int64_t", "INT64_MIN", "INT64_MAX"),
    ("half", IN, "float", "float", "0.5f", "-1e30f"),
    ("third", IN, "double", "double", "1.0 / 3", "-1e300"),
    ("text", IN, "String", "std::string", r#""käse 🧀""#, r#""""#),
    ("utf", IN, "@utf8InCpp String", "std::string", r#"std::string("a\0b", 3)"#, r#""a""#),
    ("text_or", IN, "@nullable String", "std::optional<std::string>", r#""abc""#, "std::nullopt"),
    ("utf_or", IN, "@nullable @utf8InCpp String", "std::optional<std::string>", "\"\"", "std::nullopt"),
    ("object", IN, "IBinder", "SpAIBinder", "done->asBinder()", "SharedRefBase::make<Done>()->asBinder()"),
    ("object_or", IN, "@nullable IBinder", "SpAIBinder", "done->asBinder()", "nullptr"),
    ("callback", IN, "IDone", "std::shared_ptr<IDone>", "done", "SharedRefBase::make<Done>()"),
    ("callback_or", IN, "@nullable IDone", "std::shared_ptr<IDone>", "done", "nullptr"),
    ("file", OUT, "ParcelFileDescriptor", "ScopedFileDescriptor", "file()", "file()"),
    (
        "file_or",
        OUT,
        "@nullable ParcelFileDescriptor",
        "ScopedFileDescriptor",
        "file()",
        "ScopedFileDescriptor()",
    ),
    ("leaf", OUT, "Leaf", "Leaf", r#"leaf(1, "one")"#, "Leaf()"),
    ("tree", OUT, "Tree", "Tree", "tree(0)", "tree(3)"),
    ("held", OUT, "Held", "Held", r#"held("a")"#, r#"held("b")"#),
    ("flags", OUT, "boolean[]", "std::vector<bool>", "{true, false, true}", "{}"),
    ("smalls", OUT, "byte[]", "std::vector<Byte>", "{1, 127, 3}", "{}"),
    ("letters", OUT, "char[]", "std::vector<char16_t>", "{u'ß', 0}", "{}"),
    ("numbers", OUT, "int[]", "std::vector<int32_t>", "{1, -1}", "{0}"),
    ("bigs", OUT, "long[]", "std::vector<int64_t>", "{1, INT64_MIN}", "{}"),
    ("halves", OUT, "float[]", "std::vector<float>", "{0.5f}", "{}"),
    ("thirds", OUT, "double[]", "std::vector<double>", "{0.5, -0.25}", "{}"),
    ("texts", OUT, "String[]", "std::vector<std::string>", r#"{"", "a", "ßß"}"#, "{}"),
    ("utfs", OUT, "@utf8InCpp String[]", "std::vector<std::string>", r#"{"x"}"#, r#"{"y", ""}"#),
    ("leaves", OUT, "Leaf[]", "std::vector<Leaf>", r#"{leaf(1, "a"), leaf(2, "")}"#, "{}"),
    (
        "flags_or",
        OUT,
        "@nullable boolean[]",
        "std::optional<std::vector<bool>>",
        "{{true, false}}",
        "std::nullopt",
    ),
    (
        "smalls_or",
        OUT,
        "@nullable byte[]",
        "std::optional<std::vector<Byte>>",
        "{{1, 2, 3, 4, 5}}",
        "std::nullopt",
    ),
    (
        "letters_or",
        OUT,
        "@nullable char[]",
        "std::optional<std::vector<char16_t>>",
        "{{u'a', u'b'}}",
        "std::nullopt",
    ),
    ("numbers_or", OUT, "@nullable int[]", "std::optional<std::vector<int32_t>>", "{{3, 4}}", "std::nullopt"),
    ("bigs_or", OUT, "@nullable long[]", "std::optional<std::vector<int64_t>>", "{{5, 6}}", "std::nullopt"),
    ("halves_or", OUT, "@nullable float[]", "std::optional<std::vector<float>>", "{{1, 2}}", "std::nullopt"),
    (
        "thirds_or",
        OUT,
        "@nullable double[]",
        "std::optional<std::vector<double>>",
        "{{3, 4}}",
        "std::nullopt",
    ),
    ("texts_or", OUT, "@nullable String[]", TEXTS, r#"{{"a", std::nullopt, ""}}"#, "std::nullopt"),
    ("utfs_or", OUT, "@nullable @utf8InCpp String[]", TEXTS, r#"{{"y", std::nullopt}}"#, "std::nullopt"),
    // The default of a compiler's code, too.
    ("trees", OUT, "Tree[]", "std::vector<Tree>", "{tree(2), Tree(), tree(1)}", "{}"),
];

/// What later compilers know; ours is one.
const NEWER: [Row; 22] = [
    ("mode", IN, "Mode", "Mode", "Mode::SLOW", "Mode::FAST"),
    ("range", IN, "Range", "Range", "Range::FAR", "Range::NEAR"),
    ("modes", OUT, "Mode[]", "std::vector<Mode>", "{Mode::SLOW, Mode::FAST}", "{}"),
    (
        "ranges_or",
        OUT,
        "@nullable Range[]",
        "std::optional<std::vector<Range>>",
        "{{Range::FAR}}",
        "std::nullopt",
    ),
    ("leaf_or", OUT, "@nullable Leaf", "std::optional<Leaf>", r#"leaf(1, "one")"#, "std::nullopt"),
    ("leaves_or", OUT, "@nullable Leaf[]", LEAVES, r#"{{leaf(1, "a"), std::nullopt}}"#, "std::nullopt"),
    ("list", OUT, "List<String>", "std::vector<std::string>", r#"{"a", ""}"#, "{}"),
    ("list_or", OUT, "@nullable List<String>", TEXTS, r#"{{"a", std::nullopt}}"#, "std::nullopt"),
    ("leaf_list", OUT, "List<Leaf>", "std::vector<Leaf>", r#"{leaf(3, "c")}"#, "{}"),
    ("files", OUT, "ParcelFileDescriptor[]", "std::vector<ScopedFileDescriptor>", "files(2)", "files(0)"),
    ("objects", OUT, "IBinder[]", "std::vector<SpAIBinder>", "{done->asBinder(), done->asBinder()}", "{}"),
    ("callbacks", OUT, "IDone[]", "std::vector<std::shared_ptr<IDone>>", "{done}", "{}"),
    (
        "shape",
        OUT,
        "Shape",
        "Shape",
        "Shape::make<Shape::number>(3)",
        "Shape::make<Shape::leaf>(leaf(1, \"a\"))",
    ),
    ("shapes", OUT, "Shape[]", "std::vector<Shape>", "{Shape(), Shape::make<Shape::texts>()}", "{}"),
    ("triple", OUT, "int[3]", "std::array<int32_t, 3>", "{1, 2, 3}", "{}"),
    ("grid", OUT, "@utf8InCpp String[2][1]", GRID, r#"{{{"a"}, {"b"}}}"#, "{}"),
    (
        "grid_or",
        OUT,
        "@nullable @utf8InCpp String[2][1]",
        GRID_OR,
        r#"{{{{"a"}, {std::nullopt}}}}"#,
        "std::nullopt",
    ),
    ("node", OUT, "Node", "Node", "node(3)", "node(0)"),
    ("tag", IN, "Shape.Tag", "Shape::Tag", "Shape::Tag::texts", "Shape::Tag::number"),
    ("pair", OUT, "Pair<int, String>", "Pair<int32_t, std::string>", "{1, \"one\"}", "{}"),
    ("extended", OUT, "Extended", "Extended", "extended(1)", "Extended()"),
    ("queue", OUT, QUEUE, "Queue", "queue(3)", "queue(0)"),
];

const QUEUE: &str =
    "android.hardware.common.fmq.MQDescriptor<int, android.hardware.common.fmq.SynchronizedReadWrite>";

const LEAVES: &str = "std::optional<std::vector<std::optional<Leaf>>>";
const GRID: &str = "std::array<std::array<std::string, 1>, 2>";
const GRID_OR: &str = "std::optional<std::array<std::array<std::optional<std::string>, 1>, 2>>";
const TEXTS: &str = "std::optional<std::vector<std::optional<std::string>>>";

/// Writes the interfaces of rows, and of the types that they name.
fn interfaces(rows: &[Row], types: &[&str], into: &Path) -> Vec<PathBuf> {
    let mut written = Vec::new();
    let mut write = |path: PathBuf, text: &str| {
        fs::create_dir_all(into.join(&path).parent().unwrap()).unwrap();
        fs::write(into.join(&path), text).unwrap();
        written.push(path);
    };
    let mut imports = String::new();
    for name in types {
        let path = Path::new("sample/forty").join(format!("{name}.aidl"));
        let text = fs::read_to_string(here().join("tests/sample/forty").join(&path)).unwrap();
        write(path, &text);
        let _ = writeln!(imports, "import sample.forty.{name};");
    }
    for (number, (name, out, aidl, ..)) in rows.iter().enumerate() {
        let copy = format!("void copy(in {aidl} first, out {aidl} second, inout {aidl} third);");
        let copy = if *out { copy } else { String::new() };
        let text = format!(
            "package sample.forty.of_{name};\n{imports}\ninterface IEcho {{\n\
             const int NUMBER = {number};\nconst String NAME = \"{name}\";\n\
             {aidl} echo(in {aidl} value);\noneway void later(in {aidl} value, in IDone done);\n\
             {aidl} last();\n{copy}\n}}\n"
        );
        write(PathBuf::from(format!("sample/forty/of_{name}/IEcho.aidl")), &text);
    }
    written
}

/// Compiles the program for rows with what a compiler makes of their interfaces.
fn program(workshop: &Workshop, from: From, rows: &[Row], types: &[&str], flags: &[&str]) -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let written = interfaces(rows, types, folder.path());
    let out = workshop.folder(from);
    match from {
        From::Debian => debian(folder.path(), &written, &out),
        From::Ours => ours(folder.path(), &out, &ClassOptions::default()),
    }
    // One file of all: the compiler reads the headers once, not once for each of a hundred files.
    let mut code = String::new();
    for source in files(&out, Some("cpp")) {
        code.push_str(&fs::read_to_string(&source).unwrap());
        fs::remove_file(source).unwrap();
    }
    fs::write(out.join("all.cpp"), code).unwrap();
    let (mut headers, mut serves, mut calls) = (String::new(), String::new(), String::new());
    for name in types {
        let name = if *name == "IDone" { "BnDone" } else { name };
        let _ = writeln!(headers, "#include <aidl/sample/forty/{name}.h>");
    }
    for (number, (name, out, _, cpp, first, second)) in rows.iter().enumerate() {
        let suffix = if *out { "Out" } else { "" };
        let _ = writeln!(headers, "#include <aidl/sample/forty/of_{name}/BnEcho.h>");
        let made = format!("SharedRefBase::make<Echo{suffix}<of_{name}::BnEcho, {cpp}>>()");
        let served = match flags {
            [] => made,
            // Later compilers make a class that serves what another one implements.
            _ => format!("SharedRefBase::make<of_{name}::IEchoDelegator>({made})"),
        };
        let _ = writeln!(serves, "serve({served});");
        let _ = writeln!(
            calls,
            "call{suffix}<of_{name}::IEcho, {cpp}>(\"sample.forty.of_{name}.IEcho\", {number}, {first}, {second});"
        );
    }
    fs::write(out.join("headers.h"), format!("#pragma once\n{headers}")).unwrap();
    let rows = format!("void serveAll() {{\n{serves}}}\nvoid callAll() {{\n{calls}}}\n");
    fs::write(out.join("rows.h"), rows).unwrap();
    workshop.compile_with("forty.cpp", from, &out, flags)
}

fn call(workshop: &Workshop, client: &Path, server: &Path) {
    let _server = workshop.serve(&mut workshop.command(server));
    let said = run(workshop.command(client).arg("call"));
    assert!(said.ends_with("all is well\n"), "{said}");
}

#[test]
fn forty_interfaces_call_each_other_whosever_compiler_made_them() {
    let compiler = require!(require_tool("g++"));
    require!(require_tool("aidl"));
    let types = ["IDone", "Leaf", "Tree", "Held"];
    let workshop = Workshop::new(compiler);
    let debian = program(&workshop, From::Debian, &KNOWN, &types, &[]);
    let ours = program(&workshop, From::Ours, &KNOWN, &types, &[]);
    for (client, server) in [(&debian, &debian), (&ours, &ours), (&debian, &ours), (&ours, &debian)] {
        call(&workshop, client, server);
    }
}

/// Puts programs into a folder for a guest, with every library that they need and the loader; gives the loader's name.
fn put_together(workshop: &Workshop, programs: &[(&Path, &str)], into: &Path) -> String {
    let mut loader = String::new();
    for (program, name) in programs {
        fs::copy(program, into.join(name)).unwrap();
        let listed = run(Command::new("ldd")
            .arg(program)
            .env("LD_LIBRARY_PATH", workshop.command(program).get_envs().find_map(library_path).unwrap()));
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let name = Path::new(library).file_name().unwrap();
            fs::copy(library, into.join(name)).unwrap();
            if name.to_string_lossy().starts_with("ld-") {
                loader = name.to_string_lossy().into_owned();
            }
        }
    }
    loader
}

fn library_path<'a>((name, value): (&OsStr, Option<&'a OsStr>)) -> Option<&'a OsStr> {
    value.filter(|_| name == "LD_LIBRARY_PATH")
}

#[test]
fn forty_interfaces_call_each_other_on_the_driver_of_a_guest() {
    let compiler = require!(require_tool("g++"));
    require!(require_tool("aidl"));
    require!(require_guest());
    // Beside the folder of this test; cargo builds it with all tests, and not with those of this package alone.
    let handoff = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("handoff");
    let handoff = require!(require_file(handoff).map_err(|why| format!("{why}: cargo build -p handoff-cli")));
    let types = ["IDone", "Leaf", "Tree", "Held"];
    let workshop = Workshop::new(compiler);
    let debian = program(&workshop, From::Debian, &KNOWN, &types, &[]);
    let ours = program(&workshop, From::Ours, &KNOWN, &types, &[]);
    let folder = tempfile::tempdir().unwrap();
    let programs = [(&*debian, "debian"), (&*ours, "ours"), (&*handoff, "handoff")];
    let loader = put_together(&workshop, &programs, folder.path());
    let script = format!(
        "cd /root/forty; export HANDOFF_ENGINE=binder; run='./{loader} --library-path .'
        $run ./handoff servicemanager --driver binder & manager=$!
        for server in debian ours; do
            # Its names are free when the manager has heard that the last one is dead.
            for try in 1 2 3 4 5 6 7 8 9; do
                $run ./$server >said & serving=$!
                while [ ! -s said ] && kill -0 $serving; do sleep 0.1; done
                kill -0 $serving && break
            done
            for client in debian ours; do $run ./$client call && echo of $server || exit 1; done
            kill $serving; wait $serving; echo the server ended with $?; : >said
        done
        $run ./handoff servicemanager --driver binder
        kill $manager; wait $manager; echo the manager ended with $?"
    );
    let put = format!("{}:/root/forty", folder.path().display());
    let mut guest = Command::new(&handoff);
    guest.args(["guest", "run", "--accel", "tcg", "--timeout", "0", "--put", &put, "--raw", "--"]);
    let said = run(guest.args(["sh", "-c", &script]));
    assert_eq!(said.matches("all is well\n").count(), 4, "{said}");
    assert_eq!(said.matches("the server ended with 143\n").count(), 2, "{said}");
    assert!(said.contains("one manager at a time has this place"), "{said}");
    assert!(said.contains("the manager ended with 0"), "{said}");
}

#[test]
fn what_came_after_android_10_is_echoed() {
    let compiler = require!(require_tool("g++"));
    let workshop = Workshop::new(compiler);
    let types = ["IDone", "Leaf", "Mode", "Range", "Shape", "Node", "Pair", "Extended", "Watched"];
    let program = program(&workshop, From::Ours, &NEWER, &types, &["-DNEWER"]);
    call(&workshop, &program, &program);
}
