//! Programs out of the sample's sources and what a compiler made of its interfaces.

mod cache;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use handoff_aidl::{ClassOptions, compile, generate_cpp};
use handoff_ipc::Runtime;
use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_testkit::built_library;

use super::here;

/// Whose compiler made the C++ of the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Debian's `aidl`, which is that of Android 10.
    Debian,
    /// `handoff aidl build --lang cpp`.
    Ours,
}

/// A folder with an installed library, where programs are built, and a manager that they find.
pub(crate) struct Workshop {
    folder: tempfile::TempDir,
    pub(crate) manager: Runtime,
    compiler: PathBuf,
}

impl Workshop {
    pub(crate) fn new(compiler: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib");
        fs::create_dir_all(&lib).unwrap();
        fs::copy(built_library("binder_ndk", ".so"), lib.join("libbinder_ndk.so")).unwrap();
        Workshop { folder, manager: Runtime::private().unwrap(), compiler }
    }

    /// Where what a compiler makes is put.
    pub(crate) fn folder(&self, from: From) -> PathBuf {
        let out = self.folder.path().join(format!("{from:?}"));
        fs::create_dir_all(&out).unwrap();
        out
    }

    /// What a compiler makes of the sample's interfaces; gives the folder.
    pub(crate) fn generate(&self, from: From) -> PathBuf {
        let out = self.folder(from);
        let interfaces = here().join("tests/sample/aidl10");
        match from {
            From::Debian => {
                let names = ["ILampCallback", "LampState", "ILamp"];
                debian(&interfaces, &names.map(|name| format!("sample/hal/{name}.aidl").into()), &out);
            }
            From::Ours => ours(&interfaces, &out, &ClassOptions::default()),
        }
        out
    }

    /// Compiles a program of the sample with everything that was generated.
    pub(crate) fn compile(&self, source: &str, from: From, more: &[&str]) -> PathBuf {
        self.compile_with(source, from, &self.generate(from), more)
    }

    /// Compiles a program with everything in a folder.
    pub(crate) fn compile_with(&self, source: &str, from: From, generated: &Path, more: &[&str]) -> PathBuf {
        let program = self.folder.path().join(format!("{source}-{from:?}"));
        let (headers, sources) = (here().join("include"), here().join("tests/sample"));
        let mut flags: Vec<String> = ["-std=c++17", "-Wall", "-Werror", "-g1"].map(str::to_owned).into();
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        // Since Android 11, bytes of arrays are unsigned.
        flags.push(format!("-DByte={}", if from == From::Debian { "int8_t" } else { "uint8_t" }));

        let version = run(Command::new(&self.compiler).arg("-v"));
        let words = [&[version, cache::exports()], &flags[..]].concat();
        let inputs = cache::inputs(&words, &[&headers, &sources, generated]);
        let name = [&[source, &format!("{from:?}")], more].concat().join("").replace('/', "_");
        cache::kept(&name, inputs, &program, || {
            let mut compiler = Command::new(&self.compiler);
            compiler.args(&flags).arg("-I").arg(&headers).arg("-I").arg(generated).arg("-o").arg(&program);
            compiler.arg(sources.join(source)).args(files(generated, Some("cpp")));
            compiler.arg("-L").arg(self.folder.path().join("lib")).args(["-lbinder_ndk", "-pthread"]);
            run(&mut compiler);
        });
        program
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", self.folder.path().join("lib"))
            .env(SOCKET_VARIABLE, self.manager.socket().unwrap());
        command
    }

    /// Starts a server, and waits until it says that it is ready.
    pub(crate) fn serve(&self, program: &mut Command) -> Server {
        let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = Server(child);
        assert_eq!(line, "ready\n");
        server
    }
}

/// What Debian's compiler makes of files in a folder.
pub(crate) fn debian(interfaces: &Path, files: &[PathBuf], out: &Path) {
    for file in files {
        let mut aidl = Command::new("aidl");
        aidl.args(["--lang=ndk", "--structured", "-I", ".", "-o"]).arg(out).arg("-h").arg(out);
        run(aidl.arg(file).current_dir(interfaces));
    }
}

/// What our compiler makes of every interface below a folder.
pub(crate) fn ours(interfaces: &Path, out: &Path, options: &ClassOptions) {
    let compilation = compile(&handoff_aidl::Options::default(), &[interfaces.to_owned()]);
    assert!(!compilation.diagnostics.has_errors(), "{}", compilation.report(false));
    let files = generate_cpp(&compilation, options)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render(&compilation.sources, false)));
    for file in files {
        let path = out.join(file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.text).unwrap();
    }
}

/// A process that does not outlive its test.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Waits for one that was asked to end, and that has found nothing wrong until then.
    pub(crate) fn ends_well(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Every file below a folder, or those whose names end so, sorted.
pub(crate) fn files(folder: &Path, ending: Option<&str>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if ending.is_none_or(|ending| path.extension().is_some_and(|extension| extension == ending)) {
            found.push(path);
        }
    }
    // The same in each run, whatever the file system's order is.
    found.sort();
    found
}

/// Runs a program that must succeed; gives what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}
