//! Interface changes by kind: what others can see of a change without reading its code.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::{Facts, one_line};
use super::sysctl;

/// What kind of interface changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A member of a `struct` or `union`, an enumerator of an `enum`.
    Member,
    /// A function that appears or goes, or has another signature.
    Function,
    /// A variable of the kernel, one for each CPU among them.
    Variable,
    /// A name that modules may use.
    Export,
    /// A file under `/proc/sys`.
    Sysctl,
    /// A file of debugfs.
    Debugfs,
    /// A counter of `/proc/net/snmp` or `/proc/net/netstat`.
    Counter,
    Kconfig,
    Syscall,
    /// A definition that user space compiles against.
    Uapi,
    Tracepoint,
    /// A parameter of a module or of the kernel's command line.
    Parameter,
    /// A device tree binding.
    DeviceTree,
}

impl Kind {
    pub fn words(self) -> &'static str {
        match self {
            Self::Member => "type member",
            Self::Function => "function",
            Self::Variable => "variable",
            Self::Debugfs => "debugfs file",
            Self::Export => "exported symbol",
            Self::Sysctl => "sysctl",
            Self::Counter => "SNMP counter",
            Self::Kconfig => "Kconfig symbol",
            Self::Syscall => "system call",
            Self::Uapi => "user-space API",
            Self::Tracepoint => "tracepoint",
            Self::Parameter => "module or boot parameter",
            Self::DeviceTree => "device tree",
        }
    }
}

/// What happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Added,
    /// It is otherwise than before.
    Changed,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterfaceChange {
    pub kind: Kind,
    pub what: What,
    /// The name: `struct tcp_sock.tsq_flags`, `tcp_autocorking`.
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
    pub file: String,
}

impl InterfaceChange {
    /// True if what is shown of it only declares it.
    pub(super) fn is_declaration(&self) -> bool {
        let text = self.after.as_ref().or(self.before.as_ref());
        self.file.ends_with(".h") || text.is_some_and(|text| text.starts_with("extern "))
    }
}

type Items = BTreeMap<(Kind, String), String>;

/// Compares two versions of a file; an empty one stands for none.
pub(super) fn changes(
    path: &str,
    before: &[u8],
    after: &[u8],
    was: &Facts,
    is: &Facts,
) -> Vec<InterfaceChange> {
    let (old, new) = (items(path, before, was), items(path, after, is));
    let mut out = Vec::new();
    for (key, text) in &old {
        match new.get(key) {
            None => out.push(change(key, What::Removed, Some(text), None, path)),
            Some(other) if other != text => {
                out.push(change(key, What::Changed, Some(text), Some(other), path))
            }
            Some(_) => {}
        }
    }
    for (key, text) in &new {
        if !old.contains_key(key) {
            out.push(change(key, What::Added, None, Some(text), path));
        }
    }
    out.sort_by(|a, b| (a.kind, a.what, &a.name).cmp(&(b.kind, b.what, &b.name)));
    out
}

fn change(
    key: &(Kind, String),
    what: What,
    before: Option<&String>,
    after: Option<&String>,
    file: &str,
) -> InterfaceChange {
    InterfaceChange {
        kind: key.0,
        what,
        name: key.1.clone(),
        before: before.cloned(),
        after: after.cloned(),
        file: file.to_owned(),
    }
}

fn items(path: &str, text: &[u8], facts: &Facts) -> Items {
    let mut items = Items::new();
    let text = String::from_utf8_lossy(text);
    let file = path.rsplit('/').next().unwrap_or(path);
    if file.starts_with("Kconfig") {
        kconfig(&text, &mut items);
    } else if path.ends_with(".dts") || path.ends_with(".dtsi") || path.contains("devicetree/bindings") {
        device_tree(path, &text, &mut items);
    } else if path.ends_with(".tbl") {
        for fields in text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            if let [number, _, name, ..] = fields[..]
                && number.bytes().all(|b| b.is_ascii_digit())
            {
                items.insert((Kind::Syscall, format!("{name} (table)")), fields.join(" "));
            }
        }
    } else if path.ends_with(".c") || path.ends_with(".h") {
        code(path, &text, facts, &mut items);
    }
    items
}

fn code(path: &str, text: &str, facts: &Facts, items: &mut Items) {
    let uapi = path.contains("/uapi/");
    for (name, members) in &facts.types {
        for (member, declaration) in members {
            // Enumerators are numbers: user space sees them only of uapi headers.
            let kind = if uapi { Kind::Uapi } else { Kind::Member };
            items.insert((kind, format!("{name}.{member}")), declaration.clone());
        }
    }
    for function in &facts.functions {
        items.insert((Kind::Function, function.name.clone()), function.signature.clone());
    }
    for (name, declaration) in prototypes(text) {
        // A function that the parser found is described by its definition.
        let kind = if declaration.ends_with(')') { Kind::Function } else { Kind::Variable };
        items.entry((kind, name)).or_insert(declaration);
    }
    for (name, declaration) in &facts.variables {
        // What only one file sees is no interface, and a definition says more than a declaration.
        if !declaration.starts_with("static ") {
            items.insert((Kind::Variable, name.clone()), declaration.clone());
        }
    }
    per_cpu(text, items);
    debugfs(text, items);
    for name in &facts.exports {
        items.insert((Kind::Export, name.clone()), name.clone());
    }
    for row in sysctl::rows(text) {
        also(items, (Kind::Sysctl, row.path), &row.text);
    }
    for (offset, _) in text.match_indices(".compatible") {
        if let Some(name) = string_after(&text[offset..]) {
            items.insert((Kind::DeviceTree, name.clone()), name);
        }
    }
    for (macros, kind, argument) in [
        (&["SNMP_MIB_ITEM"][..], Kind::Counter, 0),
        (&["SYSCALL_DEFINE", "COMPAT_SYSCALL_DEFINE"], Kind::Syscall, 0),
        (
            &["TRACE_EVENT", "DECLARE_EVENT_CLASS", "DECLARE_TRACE", "TRACE_EVENT_CONDITION"],
            Kind::Tracepoint,
            0,
        ),
        (&["DEFINE_EVENT", "DEFINE_EVENT_PRINT"], Kind::Tracepoint, 1),
        (
            &[
                "module_param",
                "module_param_array",
                "module_param_string",
                "core_param",
                "__setup",
                "early_param",
            ],
            Kind::Parameter,
            0,
        ),
        (&["module_param_named"], Kind::Parameter, 0),
    ] {
        for name in macros {
            for arguments in calls(text, name) {
                if let Some(found) = arguments.get(argument) {
                    let found = found.trim_matches('"').to_owned();
                    items.insert((kind, found), format!("{name}({})", arguments.join(", ")));
                }
            }
        }
    }
    if uapi {
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("#define")) {
            let line = one_line(line);
            let name = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
            if !name.is_empty() && line.len() > name.len() {
                items.insert((Kind::Uapi, name.to_owned()), line.clone());
            }
        }
    }
}

/// Variables that every CPU has one of.
fn per_cpu(text: &str, items: &mut Items) {
    for name in [
        "DEFINE_PER_CPU",
        "DECLARE_PER_CPU",
        "DEFINE_PER_CPU_SHARED_ALIGNED",
        "DECLARE_PER_CPU_SHARED_ALIGNED",
        "DEFINE_PER_CPU_READ_MOSTLY",
        "DECLARE_PER_CPU_READ_MOSTLY",
        "DEFINE_PER_CPU_ALIGNED",
        "DECLARE_PER_CPU_ALIGNED",
        "DEFINE_PER_CPU_FIRST",
        "DECLARE_PER_CPU_FIRST",
    ] {
        for arguments in calls(text, name) {
            if let [kind, variable, ..] = &arguments[..] {
                let what = format!("{kind}, one for each CPU");
                items.insert((Kind::Variable, variable.trim_end_matches("[]").to_owned()), what);
            }
        }
    }
}

/// Adds what a name is in another place: under another condition, in another folder.
fn also(items: &mut Items, key: (Kind, String), text: &str) {
    let known = items.entry(key).or_default();
    if known.is_empty() {
        known.push_str(text);
    } else if !known.split(" or ").any(|one| one == text) {
        known.push_str(&format!(" or {text}"));
    }
}

/// Files that are made in debugfs: their name, their mode and the folder.
fn debugfs(text: &str, items: &mut Items) {
    const ENDS: [&str; 14] = [
        "file",
        "file_unsafe",
        "u8",
        "u16",
        "u32",
        "u64",
        "ulong",
        "x8",
        "x16",
        "x32",
        "x64",
        "size_t",
        "atomic_t",
        "bool",
    ];
    for end in ENDS {
        for arguments in calls(text, &format!("debugfs_create_{end}")) {
            if let [name, mode, folder, ..] = &arguments[..]
                && let Some(name) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'))
            {
                let text = format!("mode {mode}, debugfs_create_{end}, in {folder}");
                also(items, (Kind::Debugfs, name.to_owned()), &text);
            }
        }
    }
    for arguments in calls(text, "debugfs_create_dir") {
        if let Some(name) = arguments[0].strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            items.insert((Kind::Debugfs, format!("{name}/")), "folder".to_owned());
        }
    }
}

/// Declarations of functions and of variables that start in the first column with `extern` or end `);`.
fn prototypes(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut pending = String::new();
    for line in text.lines() {
        let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let label = line.split_once(':').is_some_and(|(name, _)| is_word(name));
        let starts = line.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && !label;
        if starts {
            pending = line.to_owned();
        } else if !pending.is_empty() && line.starts_with([' ', '\t']) {
            pending.push_str(line);
        } else {
            pending.clear();
        }
        if pending.contains('{') || pending.contains('=') || pending.starts_with("typedef") {
            pending.clear();
        } else if pending.trim_end().ends_with(';') {
            let declaration = one_line(pending.trim_end().trim_end_matches(';'));
            let head = declaration.split('(').next().unwrap_or("");
            let name = head
                .rsplit([' ', '*'])
                .next()
                .unwrap_or("")
                .trim_end_matches(']')
                .split('[')
                .next()
                .unwrap_or("");
            let is_function = declaration.ends_with(')') && head.contains(' ');
            if !name.is_empty() && (is_function || declaration.starts_with("extern ")) {
                out.push((name.to_owned(), declaration.clone()));
            }
            pending.clear();
        }
    }
    out
}

/// The arguments of each call of a macro whose name starts with `name` at the start of a word.
pub(super) fn calls(text: &str, name: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for (at, _) in text.match_indices(name) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = text[..at].rsplit('\n').next().unwrap_or("").trim_start();
        if line.starts_with('#') || line.starts_with('*') || line.starts_with("//") {
            continue;
        }
        let rest = &text[at + name.len()..];
        // `SYSCALL_DEFINE3(`, but not `TRACE_EVENT_FLAGS(`.
        let rest = if name.ends_with("SYSCALL_DEFINE") {
            rest.trim_start_matches(|c: char| c.is_ascii_digit())
        } else {
            rest
        };
        let Some(inside) = rest.strip_prefix('(') else { continue };
        let mut depth = 0i32;
        let end = inside.char_indices().find(|&(_, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth < 0
        });
        let Some((end, _)) = end else { continue };
        let text = one_line(&inside[..end]);
        out.push(text.split(',').take(8).map(|argument| argument.trim().to_owned()).collect());
    }
    out
}

/// The first string constant of the line.
pub(super) fn string_after(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    Some(line.split('"').nth(1)?.to_owned())
}

fn kconfig(text: &str, items: &mut Items) {
    let mut symbol: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let named = trimmed.strip_prefix("config ").or_else(|| trimmed.strip_prefix("menuconfig "));
        if let Some(name) = named.filter(|_| !line.starts_with([' ', '\t'])) {
            symbol = Some(name.trim().to_owned());
            items.insert((Kind::Kconfig, format!("CONFIG_{}", name.trim())), String::new());
        } else if !line.starts_with([' ', '\t']) && !trimmed.is_empty()
            || trimmed.starts_with("help")
            || trimmed.starts_with("---help")
        {
            symbol = None;
        } else if let Some(name) = &symbol
            && let Some(text) = items.get_mut(&(Kind::Kconfig, format!("CONFIG_{name}")))
            && !trimmed.is_empty()
        {
            text.push_str(if text.is_empty() { "" } else { "; " });
            text.push_str(&one_line(trimmed));
        }
    }
}

fn device_tree(path: &str, text: &str, items: &mut Items) {
    let binding = path.contains("devicetree/bindings");
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.contains("compatible")
            || binding && (trimmed.starts_with("- const:") || trimmed.starts_with("const:"))
        {
            for value in trimmed.split('"').skip(1).step_by(2) {
                items.insert((Kind::DeviceTree, value.to_owned()), one_line(trimmed));
            }
            if let Some((_, value)) = trimmed.split_once("const:") {
                items.insert((Kind::DeviceTree, value.trim().to_owned()), one_line(trimmed));
            }
        } else if binding && line.starts_with("  ") && !line.starts_with("   ") && trimmed.ends_with(':') {
            items.insert((Kind::DeviceTree, trimmed.trim_end_matches(':').to_owned()), "property".to_owned());
        } else if !binding && let Some((name, value)) = trimmed.split_once(" = ") {
            let name = name.trim();
            if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.contains(',') {
                items.insert((Kind::DeviceTree, name.to_owned()), value.trim_end_matches(';').to_owned());
            }
        }
    }
}
