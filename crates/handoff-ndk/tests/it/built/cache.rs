//! Programs that were compiled before, by another test or in another run: a compiler takes seconds for each.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use handoff_testkit::built_library;
use object::{Object as _, ObjectSymbol as _};

use super::files;

/// What a program is made of, as one number: words, such as flags, and every file below folders, by its name there.
pub(super) fn inputs(words: &[String], folders: &[&Path]) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    for folder in folders {
        let found = files(folder, None);
        found.len().hash(&mut hasher);
        for file in found {
            file.strip_prefix(folder).unwrap().hash(&mut hasher);
            fs::read(&file).unwrap().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What the library exports: a program that is not linked anew would not notice that a function went.
pub(super) fn exports() -> String {
    let library = fs::read(built_library("binder_ndk", ".so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let defined = library.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let mut names: Vec<_> = defined.map(|symbol| symbol.name().unwrap().to_owned()).collect();
    names.sort();
    names.join(" ")
}

/// Puts a program of these inputs at `program`: the last one of that name, or what `compile` puts there.
///
/// Tests are processes of their own: those that want the same program wait for the one that compiles it.
pub(super) fn kept(name: &str, inputs: u64, program: &Path, compile: impl FnOnce()) {
    kept_in(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp"), name, inputs, program, compile);
}

fn kept_in(folder: &Path, name: &str, inputs: u64, program: &Path, compile: impl FnOnce()) {
    let of = |ending: &str| -> PathBuf { folder.join(format!("{name}.{ending}")) };
    fs::create_dir_all(folder).unwrap();
    let lock = File::create(of("lock")).unwrap();
    lock.lock().unwrap();
    let (last, mark, inputs) = (of("program"), of("inputs"), inputs.to_string());
    if fs::read_to_string(&mark).is_ok_and(|of_last| of_last == inputs) {
        fs::copy(last, program).unwrap();
        return;
    }
    // Whoever is killed between leaves a program without a mark.
    drop(fs::remove_file(&mark));
    compile();
    fs::copy(program, last).unwrap();
    fs::write(mark, inputs).unwrap();
}

#[test]
fn what_changed_is_compiled_anew_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (sources, cache) = (folder.path().join("sources"), folder.path().join("cache"));
    let (source, program) = (sources.join("below/a.h"), folder.path().join("program"));
    fs::create_dir_all(source.parent().unwrap()).unwrap();
    fs::write(&source, "one").unwrap();
    let compiles = |flag: &str| {
        let mut compiled = false;
        let inputs = inputs(&[flag.to_owned()], &[&sources]);
        kept_in(&cache, "a", inputs, &program, || {
            fs::copy(&source, &program).unwrap();
            compiled = true;
        });
        assert_eq!(fs::read(&program).unwrap(), fs::read(&source).unwrap());
        compiled
    };
    assert!(compiles("-O1"));
    assert!(!compiles("-O1"), "nothing changed");
    assert!(compiles("-O2"), "a flag changed");
    fs::write(&source, "two").unwrap();
    assert!(compiles("-O2"), "a file changed");
    fs::write(sources.join("b.h"), "").unwrap();
    assert!(compiles("-O2"), "there is a file more");
    fs::rename(sources.join("b.h"), sources.join("c.h")).unwrap();
    assert!(compiles("-O2"), "a file has another name");
    assert!(!compiles("-O2"), "nothing changed");
}
