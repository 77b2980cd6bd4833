//! The C library's archive: unpacked anywhere, found by CMake and by pkg-config, linked both ways, and used.

use std::fs;
use std::path::Path;
use std::process::Command;

use handoff_testkit::{require, require_tool};

use super::built::{Manager, dist, run, said};

const PROJECT: &str = "
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(handoff WANTED REQUIRED)
add_executable(shared greeter.c)
target_link_libraries(shared handoff::handoff)
add_executable(static greeter.c)
target_link_libraries(static handoff::static)
";

fn configure(cmake: &Path, project: &Path, wanted: &str, prefix: &Path) -> Command {
    fs::write(project.join("CMakeLists.txt"), PROJECT.replace("WANTED", wanted)).expect("written");
    let mut command = Command::new(cmake);
    command.arg("-S").arg(project).arg("-B").arg(project.join(format!("build-{wanted}")));
    command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    command
}

#[test]
fn c_programs_find_the_library_by_cmake_and_by_pkg_config() {
    let cmake = require!(require_tool("cmake"));
    let pkg_config = require!(require_tool("pkg-config"));
    let compiler = require!(require_tool("cc"));
    let files = dist("program,c");
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new("tar").arg("-xzf").arg(&files[1]).arg("-C").arg(folder.path()));
    // Nothing in it knows where it is: it works under any name.
    let unpacked =
        fs::read_dir(folder.path()).expect("listed").next().expect("one folder").expect("its entry");
    let prefix = folder.path().join("any name");
    fs::rename(unpacked.path(), &prefix).expect("renamed");

    let project = folder.path().join("project");
    fs::create_dir(&project).expect("made");
    fs::copy(prefix.join("share/doc/handoff/examples/greeter.c"), project.join("greeter.c")).expect("copied");
    run(&mut configure(&cmake, &project, "0.1", &prefix));
    run(Command::new(&cmake).arg("--build").arg(project.join("build-0.1")));
    for other in ["0.2", "1", "0.0.9"] {
        let output = configure(&cmake, &project, other, &prefix).output().expect("cmake runs");
        assert!(!output.status.success() && said(&output).contains("0.1.0"), "{other}: {}", said(&output));
    }
    let built = |name: &str| Command::new(project.join("build-0.1").join(name));
    let manager = Manager::start(&files[0]);
    manager.greets(built("shared").arg("serve"), built("static").args(["greet", "Ada"]));
    manager.greets(built("static").arg("serve"), built("shared").args(["greet", "Ada"]));

    let flags = run(Command::new(pkg_config)
        .args(["--cflags", "--libs", "handoff"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let program = folder.path().join("place");
    // A shell takes the flags apart, as in people's makefiles: the folder's name has a space in it.
    let compile = format!("\"$0\" -o \"$1\" \"$2\" {}", flags.trim());
    let source = prefix.join("share/doc/handoff/examples/place.c");
    run(Command::new("sh").args(["-c", &compile]).arg(compiler).arg(&program).arg(source));
    let placed = run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert!(placed.contains("restored: 1"), "{placed}");
}
