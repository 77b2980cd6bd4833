//! Finds and reads the files of a compilation: those that were named, and what they need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::ast::{Document, Import, Item, ItemKind, Member, TypeExpr};
use crate::check::{self, Parsed};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::Model;
use crate::parse::parse;
use crate::prelude;
use crate::source::{FileId, Language, Sources, Span};

/// Files that one compilation may need.
const MOST_FILES: usize = 10_000;

/// Where files are looked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Folders below which `a/b/C.aidl` defines `a.b.C`, and `a/b/1.0/*.hal` the package `a.b@1.0`.
    pub includes: Vec<PathBuf>,
    /// HIDL packages that begin with a name, and the folder that stands for this beginning, as in
    /// `hidl-gen -r android.hardware:hardware/interfaces`.
    pub package_roots: Vec<(String, PathBuf)>,
    /// Files that are taken from here instead of the disk.
    pub texts: BTreeMap<PathBuf, String>,
}

/// Everything that came of some files.
#[derive(Debug)]
pub struct Compilation {
    pub sources: Sources,
    pub documents: Vec<Parsed>,
    /// The files that were named, in order. The others are only needed by them.
    pub inputs: Vec<FileId>,
    /// What they mean. Not to be used if there are errors.
    pub model: Model,
    /// What is wrong with them.
    pub diagnostics: Diagnostics,
}

impl Compilation {
    /// The diagnostics as text for people.
    pub fn report(&self, colour: bool) -> String {
        self.diagnostics.render(&self.sources, colour)
    }

    /// The tree of a file.
    pub fn document(&self, file: FileId) -> Option<&Document> {
        self.documents.iter().find(|parsed| parsed.file == file).map(|parsed| &parsed.document)
    }
}

/// Reads, parses and checks files; a folder stands for every file below it.
pub fn compile(options: &Options, inputs: &[PathBuf]) -> Compilation {
    let mut loader = Loader {
        options,
        roots: options.includes.clone(),
        sources: Sources::new(),
        documents: Vec::new(),
        diagnostics: Diagnostics::new(),
    };
    let mut named = Vec::new();
    for input in inputs {
        for path in loader.expand(input) {
            named.extend(loader.load(&path, None));
        }
    }
    if named.is_empty() && !loader.diagnostics.has_errors() {
        loader.diagnostics.push(
            Diagnostic::general("there is nothing to compile")
                .help("name files that end in .aidl or .hal, or folders with such files"),
        );
    }
    loader.derive_roots(&named);
    loader.load_needed();
    let Loader { sources, documents, mut diagnostics, .. } = loader;
    let model = check::check(&documents, &mut diagnostics);
    diagnostics.sort();
    Compilation { sources, documents, inputs: named, model, diagnostics }
}

struct Loader<'a> {
    options: &'a Options,
    roots: Vec<PathBuf>,
    sources: Sources,
    documents: Vec<Parsed>,
    diagnostics: Diagnostics,
}

impl Loader<'_> {
    /// The files that an argument stands for.
    fn expand(&mut self, input: &Path) -> Vec<PathBuf> {
        if self.options.texts.contains_key(input) || !input.is_dir() {
            return vec![input.to_owned()];
        }
        let mut found = Vec::new();
        let mut folders = vec![(input.to_owned(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                self.diagnostics.push(Diagnostic::general(format!("cannot read {}", folder.display())));
                continue;
            };
            for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
                if path.is_dir() && !path.is_symlink() && depth < 32 {
                    folders.push((path, depth + 1));
                } else if Language::of(&path).is_some() {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    fn exists(&self, path: &Path) -> bool {
        self.options.texts.contains_key(path) || prelude::text(path).is_some() || path.is_file()
    }

    /// Reads and parses a file, once.
    fn load(&mut self, path: &Path, because: Option<Span>) -> Option<FileId> {
        if let Some(file) = self.sources.find(path) {
            return Some(file);
        }
        let complain = |loader: &mut Self, message: String, help: &str| {
            let mut diagnostic = Diagnostic::general(message);
            diagnostic.span = because;
            loader.diagnostics.push(if help.is_empty() { diagnostic } else { diagnostic.help(help) });
        };
        let Some(language) = Language::of(path) else {
            if path.exists() {
                let message = format!("{} is no interface file", path.display());
                complain(self, message, "the names of such files end in .aidl or .hal");
            } else {
                complain(self, format!("there is no file or folder {}", path.display()), "");
            }
            return None;
        };
        if self.documents.len() >= MOST_FILES {
            complain(self, format!("more than {MOST_FILES} files are needed"), "");
            return None;
        }
        let text = match (self.options.texts.get(path), prelude::text(path)) {
            (Some(text), _) => text.clone(),
            (None, Some(text)) => text.to_owned(),
            (None, None) => match std::fs::read(path).map(String::from_utf8) {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => {
                    let at = error.utf8_error().valid_up_to();
                    let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                    let file = self.sources.add(path, text, language);
                    let span = Span { file, start: at as u32, end: at as u32 };
                    let diagnostic = Diagnostic::error(span, format!("{} is not UTF-8", path.display()));
                    self.diagnostics.push(diagnostic.label("from here on").help("save it as UTF-8"));
                    return None;
                }
                Err(error) => {
                    complain(self, format!("cannot read {}: {error}", path.display()), "");
                    return None;
                }
            },
        };
        let file = self.sources.add(path, text, language);
        let document = parse(&self.sources, file, &mut self.diagnostics);
        self.documents.push(Parsed { file, document });
        Some(file)
    }

    /// The folders below which the named files' packages begin.
    fn derive_roots(&mut self, named: &[FileId]) {
        for file in named {
            let Some(parsed) = self.documents.iter().find(|parsed| parsed.file == *file) else { continue };
            let path = self.sources.file(*file).path().to_owned();
            let names: Vec<String> = match &parsed.document.package {
                Some(package) => {
                    let names = package.names.iter().map(|name| name.text.clone());
                    names.chain(package.version.map(|version| version.to_string())).collect()
                }
                None => Vec::new(),
            };
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut root = Some(folder);
            for name in names.iter().rev() {
                root = match root {
                    Some(inner) if inner.file_name().is_some_and(|own| own == name.as_str()) => {
                        inner.parent()
                    }
                    _ => None,
                };
            }
            match root {
                Some(root) if self.roots.iter().any(|known| known == root) => {}
                Some(root) => self.roots.push(root.to_owned()),
                None if parsed.document.language == Language::Aidl && self.is_included(folder) => {
                    let Some(package) = &parsed.document.package else { continue };
                    let expected = names.join("/");
                    let message =
                        format!("files of package `{}` are in a folder `{expected}`", names.join("."));
                    let diagnostic = Diagnostic::warning(package.span, message)
                        .label(format!("this one is in {}", folder.display()));
                    self.diagnostics.push(diagnostic);
                }
                None => {}
            }
        }
        self.check_file_names(named);
    }

    fn is_included(&self, folder: &Path) -> bool {
        self.options.includes.iter().any(|include| folder.starts_with(include))
    }

    /// A file of AIDL is named after the one type that it defines.
    fn check_file_names(&mut self, named: &[FileId]) {
        for parsed in self.documents.iter().filter(|parsed| named.contains(&parsed.file)) {
            let path = self.sources.file(parsed.file).path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if parsed.document.language == Language::Hidl {
                continue;
            }
            if parsed.document.items.is_empty() {
                let span = Span { file: parsed.file, start: 0, end: 0 };
                let diagnostic = Diagnostic::warning(span, "this file defines nothing")
                    .help(format!("a file of AIDL defines one type, here `{stem}`"));
                self.diagnostics.push(diagnostic);
                continue;
            }
            if !parsed.document.items.iter().any(|item| item.name.text == stem) {
                let item = &parsed.document.items[0];
                let message = format!("`{}` is looked for in `{}.aidl`", item.name.text, item.name.text);
                let diagnostic = Diagnostic::warning(item.name.span, message)
                    .label(format!("this file is `{stem}.aidl`"))
                    .help("rename the file or the type, so that others can import it");
                self.diagnostics.push(diagnostic);
            }
        }
    }

    /// Loads what the loaded files need, until nothing is missing that can be found.
    fn load_needed(&mut self) {
        let mut next = 0;
        while next < self.documents.len() {
            let parsed = self.documents[next].clone();
            next += 1;
            match parsed.document.language {
                Language::Aidl => self.load_for_aidl(&parsed.document),
                Language::Hidl => self.load_for_hidl(&parsed),
            }
        }
    }

    fn load_for_aidl(&mut self, document: &Document) {
        for Import { path } in &document.imports {
            let names: Vec<&str> = path.names.iter().map(|name| name.text.as_str()).collect();
            self.load_type(&names, path.span);
        }
        let package: Vec<&str> = match &document.package {
            Some(package) => package.names.iter().map(|name| name.text.as_str()).collect(),
            None => Vec::new(),
        };
        let mut used = Vec::new();
        document.items.iter().for_each(|item| paths(item, &mut used));
        for (names, span) in used {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            if names == ["ParcelableHolder"] {
                self.load(&prelude::path(Path::new(prelude::HOLDER)), Some(span));
            }
            if names.len() == 1 && check::is_built_in(names[0]) {
                continue;
            }
            let imported = document.imports.iter().any(|import| {
                import.path.names.last().map(|name| name.text.as_str()) == names.first().copied()
            });
            if !imported {
                let beside: Vec<&str> = package.iter().chain(&names).copied().collect();
                self.load_type(&beside, span);
                if names.len() > 1 {
                    self.load_type(&names, span);
                }
            }
        }
    }

    /// Loads the file that defines `a.b.C`, or `C` of `a.b.C.D`.
    fn load_type(&mut self, names: &[&str], because: Span) {
        for end in (1..=names.len()).rev() {
            let relative: PathBuf = names[..end].iter().collect::<PathBuf>().with_extension("aidl");
            let places = self.roots.iter().map(|root| root.join(&relative)).chain([prelude::path(&relative)]);
            if let Some(path) = places.into_iter().find(|path| self.exists(path)) {
                self.load(&path, Some(because));
                return;
            }
        }
    }

    fn load_for_hidl(&mut self, parsed: &Parsed) {
        let mut used = Vec::new();
        parsed.document.items.iter().for_each(|item| paths(item, &mut used));
        if used.iter().any(|(names, _)| names.len() == 1 && names[0] == "handle") {
            self.load(&prelude::path(Path::new(prelude::NATIVE_HANDLE)), None);
        }
        let own = self.sources.file(parsed.file).path().parent().unwrap_or(Path::new("")).to_owned();
        let document = &parsed.document;
        for import in &document.imports {
            if import.path.version.is_none() {
                continue; // Of the same package.
            }
            let names: Vec<&str> = if import.path.package.is_empty() {
                document
                    .package
                    .iter()
                    .flat_map(|package| &package.names)
                    .map(|name| name.text.as_str())
                    .collect()
            } else {
                import.path.package.iter().map(|name| name.text.as_str()).collect()
            };
            let version = import.path.version.map(|version| version.to_string()).unwrap_or_default();
            let found = self.package_folder(&names, &version);
            if !found.into_iter().any(|folder| self.load_folder(&folder)) {
                let text = import.path.text();
                let text = text.trim_end_matches("::");
                let diagnostic = Diagnostic::error(import.path.span, format!("`{text}` was not found"))
                    .label("no folder has this package")
                    .help(format!(
                        "expected `{}/{version}/*.hal` below an include folder (-I), or below a package root (-r)",
                        names.join("/")
                    ));
                self.diagnostics.push(diagnostic);
            }
        }
        self.load_folder(&own);
    }

    fn package_folder(&self, names: &[&str], version: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for root in &self.roots {
            found.push(root.join(names.iter().collect::<PathBuf>()).join(version));
        }
        for (prefix, folder) in &self.options.package_roots {
            let prefix: Vec<&str> = prefix.split('.').collect();
            if let Some(rest) = names.strip_prefix(prefix.as_slice()) {
                found.push(folder.join(rest.iter().collect::<PathBuf>()).join(version));
            }
        }
        found
    }

    /// Loads every `.hal` file of a folder.
    fn load_folder(&mut self, folder: &Path) -> bool {
        let is_ours = |path: &Path| path.extension().is_some_and(|extension| extension == "hal");
        let mut files: Vec<PathBuf> = self
            .options
            .texts
            .keys()
            .filter(|path| is_ours(path) && path.parent() == Some(folder))
            .cloned()
            .collect();
        let on_disk = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if let Ok(entries) = std::fs::read_dir(on_disk) {
            let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
            files.extend(names.map(|name| folder.join(name)).filter(|path| is_ours(path)));
        }
        files.sort();
        files.dedup();
        for file in &files {
            self.load(file, None);
        }
        !files.is_empty()
    }
}

/// The names of types that a declaration uses, with where.
fn paths(item: &Item, found: &mut Vec<(Vec<String>, Span)>) {
    let members = match &item.kind {
        ItemKind::Interface { members, .. }
        | ItemKind::Parcelable { members, .. }
        | ItemKind::Union { members, .. } => members,
        ItemKind::Typedef { target } => return type_paths(target, found),
        ItemKind::Opaque { .. } | ItemKind::Enum { .. } => return,
    };
    for member in members {
        match member {
            Member::Method(method) => {
                method.returns.iter().for_each(|ty| type_paths(ty, found));
                let parameters = method.parameters.iter().chain(&method.results);
                parameters.for_each(|parameter| type_paths(&parameter.ty, found));
            }
            Member::Const(constant) => {
                type_paths(&constant.ty, found);
                value_paths(&constant.value, found);
            }
            Member::Field(field) => {
                type_paths(&field.ty, found);
                field.default.iter().for_each(|value| value_paths(value, found));
            }
            Member::Item(inner) => paths(inner, found),
        }
    }
}

fn type_paths(ty: &TypeExpr, found: &mut Vec<(Vec<String>, Span)>) {
    found.push((ty.path.names.iter().map(|name| name.text.clone()).collect(), ty.path.span));
    ty.arguments.iter().for_each(|argument| type_paths(argument, found));
    for dimension in &ty.dimensions {
        if let crate::ast::Dimension::Fixed(size) = dimension {
            value_paths(size, found);
        }
    }
}

fn value_paths(expr: &crate::ast::Expr, found: &mut Vec<(Vec<String>, Span)>) {
    use crate::ast::ExprKind;
    match &expr.kind {
        ExprKind::Name(path) if path.names.len() > 1 => {
            let holder = &path.names[..path.names.len() - 1];
            found.push((holder.iter().map(|name| name.text.clone()).collect(), path.span));
        }
        ExprKind::List(items) => items.iter().for_each(|item| value_paths(item, found)),
        ExprKind::Unary(_, inner) => value_paths(inner, found),
        ExprKind::Binary(_, left, right) => {
            value_paths(left, found);
            value_paths(right, found);
        }
        ExprKind::Choice(condition, then, otherwise) => {
            [condition, then, otherwise].into_iter().for_each(|part| value_paths(part, found));
        }
        _ => {}
    }
}
/// The first line of generated code, as a comment.
pub(crate) fn header(comment: &str, compilation: &Compilation) -> String {
    let of: Vec<String> = compilation
        .inputs
        .iter()
        .filter_map(|file| compilation.sources.file(*file).path().file_name())
        .map(|name| name.to_string_lossy().replace(|c: char| c.is_control(), " "))
        .collect();
    format!(
        "{comment} Generated by Handoff's interface compiler from {}. Changes made here are lost.\n",
        of.join(", ")
    )
}
