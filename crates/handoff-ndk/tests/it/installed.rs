//! The library below some folder, as a package has it: pkg-config and CMake find it there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use handoff_testkit::{built_library, require, require_tool};

use crate::built::{From, Workshop, run};
use crate::here;

const PROJECT: &str = "
cmake_minimum_required(VERSION 3.13)
project(hal CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(binder_ndk REQUIRED)
file(GLOB_RECURSE generated ${generated}/*.cpp)
foreach(name server client)
  add_executable(${name} ${sources}/${name}.cpp ${generated})
  target_include_directories(${name} PRIVATE ${generated})
  target_compile_definitions(${name} PRIVATE Byte=uint8_t)
  target_link_libraries(${name} binder_ndk::binder_ndk pthread)
endforeach()
";

fn install(prefix: &Path) {
    fs::create_dir_all(prefix.join("lib/pkgconfig")).unwrap();
    fs::create_dir_all(prefix.join("lib/cmake/binder_ndk")).unwrap();
    symlink(here().join("include"), prefix.join("include")).unwrap();
    fs::copy(built_library("binder_ndk", ".so"), prefix.join("lib/libbinder_ndk.so")).unwrap();
    let config = prefix.join("lib/cmake/binder_ndk/binder_ndk-config.cmake");
    fs::copy(here().join("binder_ndk-config.cmake"), config).unwrap();
    let package = fs::read_to_string(here().join("binder_ndk.pc.in")).unwrap();
    let package = package.replace("@version@", env!("CARGO_PKG_VERSION"));
    fs::write(prefix.join("lib/pkgconfig/binder_ndk.pc"), package).unwrap();
}

fn call(workshop: &Workshop, server: &Path, client: &Path) {
    let _server = workshop.serve(&mut workshop.command(server));
    let said = run(&mut workshop.command(client));
    // The library may say more beside it: which interface an object has instead.
    assert!(said.contains("all is well\n"), "{said}");
}

#[test]
fn a_hal_finds_the_library_by_cmake_and_by_pkg_config() {
    let cmake = require!(require_tool("cmake"));
    let pkg_config = require!(require_tool("pkg-config"));
    let compiler = require!(require_tool("g++"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("any name");
    install(&prefix);
    let workshop = Workshop::new(compiler.clone());
    let generated = workshop.generate(From::Ours);
    let sources = here().join("tests/sample");

    let find = |what: &str| {
        let mut command = Command::new(&pkg_config);
        run(command.args([what, "binder_ndk"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))
    };
    assert_eq!(find("--modversion").trim(), env!("CARGO_PKG_VERSION"));
    for name in ["server", "client"] {
        // A shell takes the flags apart, as in people's makefiles: the folder's name has a space in it.
        let compile = format!(
            "\"$0\" -std=c++17 -Wall -Werror -DByte=uint8_t {} -I\"$1\" \"$2/{name}.cpp\" $(find \"$1\" -name '*.cpp') {} -pthread -o \"$3\"",
            find("--cflags").trim(),
            find("--libs").trim()
        );
        let program = folder.path().join(name);
        run(Command::new("sh").args(["-c", &compile]).args([&compiler, &generated, &sources, &program]));
    }
    call(&workshop, &folder.path().join("server"), &folder.path().join("client"));

    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    let text = PROJECT.replace("${generated}/*", &format!("{}/*", generated.display()));
    let text = text.replace("PRIVATE ${generated}", &format!("PRIVATE {}", generated.display()));
    fs::write(project.join("CMakeLists.txt"), text.replace("${sources}", &sources.display().to_string()))
        .unwrap();
    let build = project.join("build");
    let mut configure = Command::new(&cmake);
    configure.arg("-S").arg(&project).arg("-B").arg(&build);
    run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new(&cmake).arg("--build").arg(&build));
    call(&workshop, &build.join("server"), &build.join("client"));
}
