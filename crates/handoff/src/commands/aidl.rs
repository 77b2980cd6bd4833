//! `handoff aidl`: compile, check and convert interfaces.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use handoff_aidl::diagnostic::{Diagnostics, Record, Severity};
use handoff_aidl::source::{Language, Sources};
use handoff_aidl::{
    Change, ClassOptions, Compilation, FreezeError, Options as Includes, PythonOptions, RustOptions,
    SourceFile,
};
use serde::Serialize;

use crate::output::{Advice as _, Format, Output, Verdict, counted};
use crate::results::{read, write};

const EXAMPLES: &str = "\
Examples:
  handoff aidl check aidl/                       what is wrong with the files, with places
  handoff aidl build aidl/ --out src/interfaces.rs
  handoff aidl build aidl/ --lang python --out interfaces.py
  handoff aidl build aidl/ --lang cpp --out generated    as Android's NDK backend; --lang java as its Java
  handoff aidl fmt aidl/ --check                 does every file look as it should?
  handoff aidl from-hidl 1.0/ --out aidl/        a HIDL package as AIDL
  handoff aidl compat aidl_api/sample/1 aidl/    may a client of version 1 call this?
  handoff aidl freeze aidl/ --api aidl_api/sample";

/// Compile interfaces (.aidl, .hal) to Rust, Python, C++ or Java; check, format, convert and freeze them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Subcommands,
    /// Look for imported files below this folder.
    #[arg(short = 'I', long = "include", global = true, value_name = "FOLDER")]
    includes: Vec<PathBuf>,
    /// Where HIDL packages are that begin with a name, as for hidl-gen.
    #[arg(short = 'r', long = "package-root", global = true, value_name = "NAME:FOLDER", value_parser = package_root)]
    package_roots: Vec<(String, PathBuf)>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Write proxies and stubs: Rust's traits, Python's classes, or C++ and Java as Android has them
    #[command(
        after_help = "Examples:\n  handoff aidl build aidl/ --out src/interfaces.rs\n  handoff aidl build 1.0/IBenchmark.hal\n  handoff aidl build aidl/ --lang python --out interfaces.py\n  handoff aidl build aidl/ --lang cpp --out generated\n  handoff aidl build aidl/ --lang java --out generated\n  handoff aidl build aidl/ --async --out src/interfaces.rs"
    )]
    Build {
        /// Files, or folders with files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The language to write.
        #[arg(long, value_enum, default_value_t)]
        lang: To,
        /// The file to write; standard output without. For C++ and Java the folder: `aidl/a/IFoo.h`, `a/IFoo.cpp` or `a/IFoo.java` below it.
        #[arg(long, value_name = "PATH")]
        out: Option<PathBuf>,
        /// A Rust type for a type of the files, such as a parcelable without fields; for Rust only.
        #[arg(long = "map", value_name = "NAME=RUST_PATH", value_parser = mapping)]
        types: Vec<(String, String)>,
        /// Futures beside the blocking calls: for Rust with handoff-ipc's feature tokio, for Python with asyncio.
        #[arg(long = "async")]
        asynchronous: bool,
        /// What services answer to getInterfaceVersion.
        #[arg(long, value_name = "N", requires = "hash")]
        version: Option<u32>,
        /// What services answer to getInterfaceHash.
        #[arg(long, value_name = "HASH", requires = "version")]
        hash: Option<String>,
        /// A function `logFunc` in each class that calls or serves, which is told of every call; for C++ only.
        #[arg(long)]
        log: bool,
    },
    /// Say what is wrong with files, and what to write instead
    #[command(after_help = "Examples:\n  handoff aidl check aidl/\n  handoff aidl check aidl/ --format json")]
    Check {
        /// Files, or folders with files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show what files mean: full names, transaction codes, values of constants
    #[command(
        after_help = "Examples:\n  handoff aidl dump aidl/IFoo.aidl\n  handoff aidl dump 1.0/ --format json"
    )]
    Dump {
        /// Files, or folders with files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Lay files out as Android does; comments stay
    #[command(after_help = "Examples:\n  handoff aidl fmt aidl/\n  handoff aidl fmt aidl/ --check")]
    Fmt {
        /// Files, or folders with files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Change nothing; exit status 1 if a file would change.
        #[arg(long)]
        check: bool,
    },
    /// Convert a HIDL package to AIDL, queues and memory included
    #[command(after_help = "Examples:\n  handoff aidl from-hidl vendor/sample/benchmark/1.0 --out aidl")]
    FromHidl {
        /// Files, or folders with files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The folder to write to; standard output without.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Check that clients of an older version still work with a newer one
    #[command(after_help = "Examples:\n  handoff aidl compat aidl_api/sample/1 aidl/")]
    Compat {
        /// The older version: a file or a folder.
        old: PathBuf,
        /// The newer version.
        new: PathBuf,
    },
    /// Keep the present interfaces as the next version, which never changes again
    #[command(after_help = "Examples:\n  handoff aidl freeze aidl/ --api aidl_api/sample")]
    Freeze {
        /// Files, or folders with files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The folder of the versions.
        #[arg(long, value_name = "FOLDER")]
        api: PathBuf,
    },
}

/// A language that interfaces become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// One module for each package, on handoff-ipc
    #[default]
    Rust,
    /// One module, on the package handoff
    Python,
    /// Headers and sources in the shape of Android's NDK backend, on libbinder_ndk
    Cpp,
    /// Classes in the shape of Android's, on android.os
    Java,
}

fn package_root(text: &str) -> Result<(String, PathBuf), String> {
    let (name, folder) = text.split_once(':').ok_or("write NAME:FOLDER, such as vendor.sample:hal")?;
    Ok((name.to_owned(), folder.into()))
}

fn mapping(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=RUST_PATH, such as a.Foo=crate::Foo")?;
    Ok((name.to_owned(), path.to_owned()))
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.what {
            Subcommands::Build { files, lang, out, types, asynchronous, version, hash, log } => {
                if *lang != To::Rust && !types.is_empty() {
                    bail!("--map is for Rust only, and --lang names another language");
                }
                if *log && *lang != To::Cpp {
                    bail!("--log is for C++ only, and --lang names another language");
                }
                let (version, hash, asynchronous) = (*version, hash.clone(), *asynchronous);
                if matches!(lang, To::Cpp | To::Java) {
                    if asynchronous {
                        bail!("--async is for Rust and Python only, and --lang names another language");
                    }
                    let Some(out) = out else {
                        bail!("C++ and Java are several files: say with --out which folder they go to");
                    };
                    let options = ClassOptions { version, hash, log: *log };
                    return self.build_classes(output, files, out, |compilation| match lang {
                        To::Java => handoff_aidl::generate_java(compilation, &options),
                        _ => handoff_aidl::generate_cpp(compilation, &options),
                    });
                }
                let is_rust = *lang == To::Rust;
                self.build(output, files, out.as_deref(), |compilation| match is_rust {
                    true => {
                        let types = types.iter().cloned().collect();
                        handoff_aidl::generate(
                            compilation,
                            &RustOptions { types, version, hash, asynchronous },
                        )
                    }
                    false => handoff_aidl::generate_python(
                        compilation,
                        &PythonOptions { version, hash, asynchronous },
                    ),
                })
            }
            Subcommands::Check { files } => {
                let compilation = self.compile(files)?;
                let found = DiagnosticList::of(&compilation, &compilation.diagnostics);
                output.result(&found)?;
                Ok(Verdict::of(found.errors == 0))
            }
            Subcommands::Dump { files } => match self.sound(output, files)? {
                Some(compilation) => {
                    output.result(&InterfaceDump(handoff_aidl::describe(&compilation)))?;
                    Ok(Verdict::Pass)
                }
                None => Ok(Verdict::Fail),
            },
            Subcommands::Fmt { files, check } => self.format(output, files, *check),
            Subcommands::FromHidl { files, out } => self.convert_hidl(output, files, out.as_deref()),
            Subcommands::Compat { old, new } => self.compat(output, old, new),
            Subcommands::Freeze { files, api } => self.freeze(output, files, api),
        }
    }

    fn compile(&self, files: &[PathBuf]) -> anyhow::Result<Compilation> {
        let options = Includes {
            includes: self.includes.clone(),
            package_roots: self.package_roots.clone(),
            ..Includes::default()
        };
        interface_files(files)?;
        Ok(handoff_aidl::compile(&options, files))
    }

    /// What files mean, unless they have errors, which are printed.
    fn sound(&self, output: &Output, files: &[PathBuf]) -> anyhow::Result<Option<Compilation>> {
        let compilation = self.compile(files)?;
        complain(output, &compilation, &compilation.diagnostics)?;
        Ok((!compilation.diagnostics.has_errors()).then_some(compilation))
    }

    fn build(
        &self,
        output: &Output,
        files: &[PathBuf],
        out: Option<&Path>,
        generate: impl FnOnce(&Compilation) -> Result<String, Diagnostics>,
    ) -> anyhow::Result<Verdict> {
        let Some(compilation) = self.sound(output, files)? else { return Ok(Verdict::Fail) };
        let code = match generate(&compilation) {
            Ok(code) => code,
            Err(wrong) => {
                complain(output, &compilation, &wrong)?;
                return Ok(Verdict::Fail);
            }
        };
        match out {
            Some(path) => write(path, code)?,
            None => output.bytes(code.as_bytes())?,
        }
        Ok(Verdict::Pass)
    }

    /// Writes the files of C++ below a folder.
    fn build_classes(
        &self,
        output: &Output,
        files: &[PathBuf],
        out: &Path,
        generate: impl FnOnce(&Compilation) -> Result<Vec<SourceFile>, Diagnostics>,
    ) -> anyhow::Result<Verdict> {
        let Some(compilation) = self.sound(output, files)? else { return Ok(Verdict::Fail) };
        let written = match generate(&compilation) {
            Ok(written) => written,
            Err(wrong) => {
                complain(output, &compilation, &wrong)?;
                return Ok(Verdict::Fail);
            }
        };
        for file in written {
            write(&out.join(file.path), &file.text)?;
        }
        Ok(Verdict::Pass)
    }

    fn format(&self, output: &Output, files: &[PathBuf], check: bool) -> anyhow::Result<Verdict> {
        let (mut good, mut changed) = (true, Vec::new());
        for path in interface_files(files)? {
            let text = read(&path)?;
            let Some(language) = Language::of(&path) else { continue };
            let mut sources = Sources::new();
            let file = sources.add(&path, text.clone(), language);
            match handoff_aidl::format(&sources, file) {
                Ok(new) if new == text => {}
                Ok(new) => {
                    if !check {
                        write(&path, &new)?;
                    }
                    changed.push(path.display().to_string());
                }
                Err(wrong) => {
                    good = false;
                    print_notes(output, &wrong.render(&sources, colour()));
                }
            }
        }
        output.result(&FormatResult { changed: changed.clone(), check })?;
        Ok(Verdict::of(good && (!check || changed.is_empty())))
    }

    fn convert_hidl(
        &self,
        output: &Output,
        files: &[PathBuf],
        out: Option<&Path>,
    ) -> anyhow::Result<Verdict> {
        let Some(compilation) = self.sound(output, files)? else { return Ok(Verdict::Fail) };
        let Ok(converted) = handoff_aidl::from_hidl(&compilation) else { return Ok(Verdict::Fail) };
        for file in &converted.files {
            match out {
                Some(folder) => write(&folder.join(&file.path), &file.text)?,
                None => output.line(format_args!("// {}\n{}", file.path.display(), file.text))?,
            }
        }
        if out.is_some() {
            output.line(format_args!("{} written", counted(converted.files.len(), "file")))?;
        }
        converted.notes.iter().for_each(|note| output.note(format_args!("note: {note}")));
        complain(output, &converted.compilation, &converted.compilation.diagnostics)?;
        Ok(Verdict::of(!converted.compilation.diagnostics.has_errors()))
    }

    fn compat(&self, output: &Output, old: &Path, new: &Path) -> anyhow::Result<Verdict> {
        let (old, new) = (&[old.to_owned()], &[new.to_owned()]);
        let (Some(old), Some(new)) = (self.sound(output, old)?, self.sound(output, new)?) else {
            return Ok(Verdict::Fail);
        };
        let changes = handoff_aidl::compare(&old, &new);
        let broken = changes.iter().any(|change| change.severity == Severity::Error);
        output.result(&VersionDifference { compatible: !broken, changes })?;
        Ok(Verdict::of(!broken))
    }

    fn freeze(&self, output: &Output, files: &[PathBuf], api: &Path) -> anyhow::Result<Verdict> {
        let Some(compilation) = self.sound(output, files)? else { return Ok(Verdict::Fail) };
        match handoff_aidl::freeze(&compilation, api) {
            Ok(frozen) => {
                let folder = frozen.folder.display().to_string();
                output.result(&FrozenVersion { version: frozen.version, hash: frozen.hash, folder })?;
                Ok(Verdict::Pass)
            }
            Err(FreezeError::Incompatible { version, changes }) => {
                output.result(&VersionDifference { compatible: false, changes })?;
                output.note(format_args!("those who use version {version} would break: nothing was frozen"));
                Ok(Verdict::Fail)
            }
            Err(error @ FreezeError::Touched { .. }) => {
                Err(error).advise("take the change back: what is frozen was promised to others")
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

fn print_notes(output: &Output, text: &str) {
    if !text.trim().is_empty() {
        output.note(text.trim_end());
    }
}

/// Says what is wrong where results do not stand: on standard error, or as JSON where that was asked for.
fn complain(output: &Output, compilation: &Compilation, wrong: &Diagnostics) -> anyhow::Result<()> {
    match output.format() {
        Format::Json if wrong.has_errors() => output.json(&DiagnosticList::of(compilation, wrong)),
        _ => {
            print_notes(output, &wrong.render(&compilation.sources, colour()));
            Ok(())
        }
    }
}

/// The interface files that arguments stand for. One that cannot be read is no fault of an interface: status 2.
fn interface_files(arguments: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = Vec::new();
    for path in arguments {
        File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        if path.is_dir() {
            folders.push(path.clone());
        } else if Language::of(path).is_some() {
            found.push(path.clone());
        } else {
            bail!("{} is no interface file: the names of such files end in .aidl or .hal", path.display());
        }
    }
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if Language::of(&path).is_some() {
                found.push(path);
            }
        }
    }
    found.sort();
    if found.is_empty() {
        let named: Vec<_> = arguments.iter().map(|folder| folder.display().to_string()).collect();
        bail!("there is no .aidl or .hal file in {}", named.join(", "));
    }
    Ok(found)
}

/// What is wrong with files.
#[derive(Serialize)]
struct DiagnosticList {
    files: usize,
    errors: usize,
    warnings: usize,
    diagnostics: Vec<Record>,
    #[serde(skip)]
    text: String,
}

impl DiagnosticList {
    fn of(compilation: &Compilation, wrong: &Diagnostics) -> Self {
        let diagnostics = wrong.records(&compilation.sources);
        DiagnosticList {
            files: compilation.inputs.len(),
            errors: wrong.errors(),
            warnings: diagnostics.iter().filter(|one| one.severity == Severity::Warning).count(),
            diagnostics,
            text: wrong.render(&compilation.sources, std::io::stdout().is_terminal()),
        }
    }
}

impl Display for DiagnosticList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        write!(
            f,
            "{}, {}, {}",
            counted(self.files, "file"),
            counted(self.errors, "error"),
            counted(self.warnings, "warning")
        )
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct InterfaceDump(Vec<handoff_aidl::Described>);

impl Display for InterfaceDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("\n\n"))
    }
}

/// Which files were, or would be, laid out anew.
#[derive(Serialize)]
struct FormatResult {
    changed: Vec<String>,
    #[serde(skip)]
    check: bool,
}

impl Display for FormatResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.check { "would change" } else { "changed" };
        self.changed.iter().try_for_each(|path| writeln!(f, "{path} {what}"))?;
        write!(f, "{} {what}", counted(self.changed.len(), "file"))
    }
}

/// What changed between two versions.
#[derive(Serialize)]
struct VersionDifference {
    compatible: bool,
    changes: Vec<Change>,
}

impl Display for VersionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(f, "{change}\n"))?;
        f.write_str(if self.compatible { "compatible" } else { "not compatible" })
    }
}

/// A version that was frozen.
#[derive(Serialize)]
struct FrozenVersion {
    version: u32,
    hash: String,
    folder: String,
}

impl Display for FrozenVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} is frozen in {}\nhash {}", self.version, self.folder, self.hash)
    }
}
