//! From a model to Rust: a proxy, a stub and a trait for each interface, a type for everything else.

mod asynchronous;
mod enums;
mod finish;
mod interface;
mod items;
mod names;
mod parcelable;
mod traits;
mod types;

pub(crate) use traits::translated;

use std::collections::{BTreeMap, HashMap};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::Compilation;
use crate::model::{Def, DefId, DefKind, Model, TypeKind};

/// What the generated code is told.
#[derive(Debug, Clone, Default)]
pub struct RustOptions {
    /// Rust types that stand for types of the files: full names, and paths of Rust types, which
    /// implement `Parcelable`, `Nullable`, `Default` and `Debug`.
    pub types: BTreeMap<String, String>,
    /// What `getInterfaceVersion` answers.
    pub version: Option<u32>,
    /// What `getInterfaceHash` answers.
    pub hash: Option<String>,
    /// Traits, proxies and stubs of futures beside the blocking ones: they need `handoff_ipc`'s feature `tokio`.
    pub asynchronous: bool,
}

/// Makes Rust of everything that was compiled.
///
/// The code is one module for each package; whoever includes it puts it into a module of its own:
///
/// ```text
/// mod interfaces { include!(concat!(env!("OUT_DIR"), "/interfaces.rs")); }
/// ```
///
/// # Errors
/// What cannot be said in Rust: two names that become one, a parcelable that nothing is known of.
pub fn generate(compilation: &Compilation, options: &RustOptions) -> Result<String, Diagnostics> {
    let mut generator = Generator {
        model: &compilation.model,
        options,
        modules: HashMap::new(),
        diagnostics: Diagnostics::new(),
        shadowed: compilation.model.iter().map(|def| def.name.last().to_owned()).collect(),
    };
    generator.place_all();
    let mut root = Module::default();
    for def in compilation.model.iter() {
        if generator.is_written(def) {
            let code = generator.definition(def);
            let module = root.at(&generator.modules[&def.id]);
            module.code.push(code);
            module.says.get_or_insert_with(|| match def.parent {
                None => format!("Package `{}`.", def.name.package_text()),
                Some(outer) => format!("What is nested in `{}`.", compilation.model.def(outer).name.last()),
            });
        }
    }
    if generator.diagnostics.has_errors() {
        return Err(generator.diagnostics);
    }
    finish::finish(&root, &crate::load::header("//", compilation))
}

/// A module of the generated code.
#[derive(Debug, Default)]
struct Module {
    says: Option<String>,
    code: Vec<String>,
    inner: BTreeMap<String, Module>,
}

impl Module {
    fn at(&mut self, path: &[String]) -> &mut Module {
        path.iter().fold(self, |module, name| module.inner.entry(name.clone()).or_default())
    }
}

struct Generator<'a> {
    model: &'a Model,
    options: &'a RustOptions,
    /// The module that each definition goes into.
    modules: HashMap<DefId, Vec<String>>,
    diagnostics: Diagnostics,
    /// Names that the files define, which may hide those of the standard library.
    shadowed: std::collections::HashSet<String>,
}

impl Generator<'_> {
    /// Whether a definition becomes code of its own.
    fn is_written(&self, def: &Def) -> bool {
        let mapped = self.options.types.contains_key(&def.name.to_string());
        let generic =
            matches!(&def.kind, DefKind::Parcelable(parcelable) if !parcelable.parameters.is_empty());
        let ours = def.name.to_string() == crate::check::QUEUE;
        let is_a_name = matches!(def.kind, DefKind::Typedef(_) | DefKind::Opaque { .. });
        !(mapped || is_a_name || generic && ours)
    }

    /// Reports queues of what has no layout of its own in Rust, which would not compile.
    fn check_queues(&mut self, def: &Def) {
        let mut wrong = Vec::new();
        crate::check::each_type(def, &mut |ty, at| {
            let TypeKind::Queue { item, .. } = &ty.kind else { return };
            let TypeKind::Named(id, _) = &item.kind else { return };
            let name = self.model.def(*id).name.to_string();
            if !self.options.types.contains_key(&name) && !self.is_item(item) {
                wrong.push((at, name));
            }
        });
        for (at, name) in wrong {
            let diagnostic =
                Diagnostic::error(at, format!("a queue of `{name}` needs a type of yours in Rust")).help(
                    format!(
                        "make it a `@FixedSize` parcelable of numbers, enums and such, or name a type that implements \
                         `handoff_ipc::queue::Item`: `--map {name}=crate::Message`"
                    ),
                );
            self.error(diagnostic);
        }
    }

    fn definition(&mut self, def: &Def) -> String {
        self.check_queues(def);
        match &def.kind {
            DefKind::Interface(interface) => self.interface(def, interface),
            DefKind::Parcelable(parcelable) => self.parcelable(def, parcelable),
            DefKind::Union(fields) => self.union(def, fields),
            DefKind::Enum(of) => self.enumeration(def, of),
            DefKind::Opaque { .. } | DefKind::Typedef(_) => String::new(),
        }
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Whether an enum's values are combined somewhere.
    fn is_bitfield(&self, id: DefId) -> bool {
        let mut found = false;
        for def in self.model.iter() {
            crate::check::each_type(def, &mut |ty, _| found |= ty.kind == TypeKind::Bitfield(id));
        }
        found
    }
}
