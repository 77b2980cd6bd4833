//! What a C file says: its functions and whom they call, its types, tables and exports. `reader.rs` reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    /// Its first line, from 1.
    pub start: usize,
    /// Its last line, from 1.
    pub end: usize,
    /// True for a `static` one.
    pub is_static: bool,
    /// Return type, name and parameters on one line.
    pub signature: String,
    /// The functions that it calls by name, in order, each once.
    pub calls: Vec<String>,
    /// The members through which it calls (`ops->sendmsg`).
    pub indirect: Vec<String>,
    /// The body without white space, to see whether it changed.
    pub body: u64,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its functions, in order.
    pub functions: Vec<Function>,
    /// Members of each `struct` and `union`, with their declarations; enumerators of each `enum`.
    pub types: BTreeMap<String, Vec<(String, String)>>,
    /// The file's variables, with their declarations.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// `.member = function` of initialised tables: table, member, function.
    pub tables: Vec<(String, String, String)>,
    /// Names that are exported to modules.
    pub exports: Vec<String>,
    /// Functions in which the parser met what it could not read, with their first lines.
    pub unread: Vec<(String, usize)>,
    /// Functions that the parser did not find, which their braces show, with their first lines.
    pub missed: Vec<(String, usize)>,
}

impl Facts {
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }
}

pub(super) fn one_line(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("/*") {
        let end = text[start..].find("*/").map_or(text.len(), |end| start + end + 2);
        text.replace_range(start..end, " ");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// FNV-1a over everything but white space.
pub(super) fn digest(text: &[u8]) -> u64 {
    text.iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
