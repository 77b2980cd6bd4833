//! Reads a C file: a parser that goes on after what it does not know, which a kernel has plenty of.

use std::collections::btree_map::Entry;

use tree_sitter::{Node, Parser};

use super::blank::{Half, blank, has_halves};
use super::facts::{Facts, Function, digest, one_line};
use crate::port::functions_by_braces;

/// What a file says.
pub(super) fn read(text: &[u8]) -> Facts {
    let mut facts = half(text, Half::First);
    facts.exports = exports(text);
    if has_halves(text) {
        // What stands under `#else` exists too, in another configuration.
        let other = half(text, Half::Last);
        let new: Vec<Function> =
            other.functions.into_iter().filter(|function| facts.function(&function.name).is_none()).collect();
        facts.functions.extend(new);
        facts.functions.sort_by_key(|function| function.start);
        for (name, members) in other.types {
            let known = facts.types.entry(name).or_default();
            for member in members {
                if !known.iter().any(|(name, _)| *name == member.0) {
                    known.push(member);
                }
            }
        }
        for (name, variable) in other.variables {
            match facts.variables.entry(name) {
                Entry::Vacant(free) => _ = free.insert(variable),
                Entry::Occupied(mut first) if *first.get() != variable => {
                    first.get_mut().push_str(&format!(" or {variable}"));
                }
                Entry::Occupied(_) => {}
            }
        }
        facts.tables.extend(other.tables);
        facts.tables.sort();
        facts.tables.dedup();
        facts.unread.extend(other.unread);
    }
    facts.unread.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    facts.unread.dedup();
    let known = |start: usize, end: usize| {
        facts.functions.iter().any(|function| function.start <= end && start <= function.end)
    };
    facts.missed = functions_by_braces(text)
        .filter(|(name, start, end)| facts.function(name).is_none() && !known(*start, *end))
        .map(|(name, start, _)| (name, start))
        .collect();
    facts
}

fn half(text: &[u8], half: Half) -> Facts {
    let clean = blank(text, half);
    let mut parser = Parser::new();
    let mut facts = Facts::default();
    if parser.set_language(&tree_sitter_c::LANGUAGE.into()).is_err() {
        return facts;
    }
    if let Some(tree) = parser.parse(&clean, None) {
        let reader = Reader { clean: &clean, text };
        reader.walk(tree.root_node(), &mut facts);
        reader.variables(tree.root_node(), &mut facts);
    }
    facts
}

struct Reader<'a> {
    clean: &'a [u8],
    text: &'a [u8],
}

impl<'a> Reader<'a> {
    fn text(&self, node: Node<'_>) -> &'a str {
        std::str::from_utf8(&self.clean[node.byte_range()]).unwrap_or("")
    }

    /// The text as it stands in the file, on one line.
    fn original(&self, from: usize, to: usize) -> String {
        one_line(&String::from_utf8_lossy(&self.text[from..to]))
    }

    fn walk(&self, root: Node<'_>, facts: &mut Facts) {
        // An explicit stack: hostile input may nest deeper than ours.
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            match node.kind() {
                "function_definition" => self.function(node, facts),
                "struct_specifier" | "union_specifier" | "enum_specifier" => self.r#type(node, facts),
                "init_declarator" => self.table(node, facts),
                _ => {}
            }
            if node.kind() != "function_definition" {
                let mut cursor = node.walk();
                stack.extend(node.children(&mut cursor));
            }
        }
        facts.functions.sort_by_key(|function| function.start);
    }

    fn function(&self, node: Node<'_>, facts: &mut Facts) {
        let (Some(declarator), Some(body)) =
            (node.child_by_field_name("declarator"), node.child_by_field_name("body"))
        else {
            return;
        };
        let Some(name) = self.declared(declarator) else { return };
        let head = self.original(node.start_byte(), body.start_byte());
        if node.has_error() {
            facts.unread.push((name.clone(), node.start_position().row + 1));
        }
        let mut function = Function {
            name,
            start: node.start_position().row + 1,
            end: node.end_position().row + 1,
            is_static: head.split_whitespace().any(|word| word == "static"),
            signature: head,
            calls: Vec::new(),
            indirect: Vec::new(),
            body: digest(&self.text[body.byte_range()]),
        };
        let mut stack = vec![body];
        let mut calls = Vec::new();
        while let Some(node) = stack.pop() {
            if node.kind() == "call_expression"
                && let Some(called) = node.child_by_field_name("function")
            {
                match called.kind() {
                    "identifier" => calls.push((node.start_byte(), self.text(called).to_owned(), false)),
                    "field_expression" => {
                        if let Some(field) = called.child_by_field_name("field") {
                            calls.push((node.start_byte(), self.text(field).to_owned(), true));
                        }
                    }
                    _ => {}
                }
            }
            let mut cursor = node.walk();
            stack.extend(node.children(&mut cursor));
        }
        calls.sort();
        for (_, name, indirect) in calls {
            let list = if indirect { &mut function.indirect } else { &mut function.calls };
            if !list.contains(&name) {
                list.push(name);
            }
        }
        facts.functions.push(function);
    }

    /// The variables of the file: `int limit = 3;`, `extern int limit;`, but no prototypes.
    fn variables(&self, root: Node<'_>, facts: &mut Facts) {
        let mut cursor = root.walk();
        for node in
            root.children(&mut cursor).filter(|node| node.kind() == "declaration" && !node.has_error())
        {
            let mut inner = node.walk();
            for declarator in node.children_by_field_name("declarator", &mut inner) {
                let is_function = |node: Node<'_>| {
                    let mut node = Some(node);
                    while let Some(one) = node {
                        if one.kind() == "function_declarator" {
                            return one
                                .child_by_field_name("declarator")
                                .is_some_and(|d| d.kind() == "identifier");
                        }
                        node = one.child_by_field_name("declarator");
                    }
                    false
                };
                let Some(name) = self.declared(declarator).filter(|_| !is_function(declarator)) else {
                    continue;
                };
                // A table's rows are shown for themselves.
                let value = declarator.child_by_field_name("value");
                let list = value.filter(|value| value.kind() == "initializer_list");
                let end = list.map_or(node.end_byte(), |list| list.start_byte());
                let text = self.original(node.start_byte(), end);
                let text = text.trim_end_matches([';', ' ', '=']).to_owned();
                facts.variables.insert(name, text);
            }
        }
    }

    /// The name in a declarator, whatever pointers and parameters surround it.
    fn declared(&self, declarator: Node<'_>) -> Option<String> {
        let mut node = declarator;
        loop {
            match node.kind() {
                "identifier" | "field_identifier" | "type_identifier" => {
                    return Some(self.text(node).to_owned());
                }
                "parenthesized_declarator" | "attributed_declarator" => node = node.named_child(0)?,
                _ => node = node.child_by_field_name("declarator")?,
            }
        }
    }

    fn r#type(&self, node: Node<'_>, facts: &mut Facts) {
        let Some(body) = node.child_by_field_name("body") else { return };
        let keyword = node.kind().trim_end_matches("_specifier");
        let name = match node.child_by_field_name("name") {
            Some(name) => format!("{keyword} {}", self.text(name)),
            // Enumerators without a type are names of the whole file; inner structures are members.
            None if keyword == "enum" => keyword.to_owned(),
            None => return,
        };
        let mut members = Vec::new();
        let mut stack = vec![body];
        while let Some(node) = stack.pop() {
            match node.kind() {
                "field_declaration" => {
                    let text = self.original(node.start_byte(), node.end_byte());
                    let mut cursor = node.walk();
                    for declarator in node.children_by_field_name("declarator", &mut cursor) {
                        if let Some(name) = self.declared(declarator) {
                            members.push((name, text.trim_end_matches(';').to_owned()));
                        }
                    }
                }
                "enumerator" => {
                    if let Some(name) = node.child_by_field_name("name") {
                        members.push((self.text(name).to_owned(), self.text(node).to_owned()));
                    }
                }
                _ => {}
            }
            let mut cursor = node.walk();
            let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
            stack.extend(children.into_iter().rev());
        }
        facts.types.entry(name).or_default().extend(members);
    }

    fn table(&self, node: Node<'_>, facts: &mut Facts) {
        let (Some(declarator), Some(value)) =
            (node.child_by_field_name("declarator"), node.child_by_field_name("value"))
        else {
            return;
        };
        if value.kind() != "initializer_list" {
            return;
        }
        let Some(table) = self.declared(declarator) else { return };
        let mut stack = vec![value];
        while let Some(node) = stack.pop() {
            if node.kind() == "initializer_pair"
                && let (Some(member), Some(value)) =
                    (node.child_by_field_name("designator"), node.child_by_field_name("value"))
                && value.kind() == "identifier"
            {
                let member = self.text(member).trim_start_matches('.').to_owned();
                facts.tables.push((table.clone(), member, self.text(value).to_owned()));
            }
            let mut cursor = node.walk();
            stack.extend(node.children(&mut cursor));
        }
        facts.tables.sort();
    }
}

/// What `EXPORT_SYMBOL` and its kin name first: `EXPORT_SYMBOL_NS_GPL`, `EXPORT_INDIRECT_CALLABLE`, `EXPORT_IPV6_MOD`.
fn exports(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.strip_prefix("EXPORT_")?.split_once('('))
        .filter(|(kind, _)| kind.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'))
        .filter_map(|(_, rest)| Some(rest.split([',', ')']).next()?.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_functions_types_and_tables() {
        let facts = read(
            b"struct q {\n\tint head; /* of it */\n\tstruct { u32 a, *b; } in;\n};\nenum e { A, B = 2 };\n\
              static int __init f(struct q *q)\n{\n\tif (likely(q))\n\t\tg(q->ops->kick(q), h());\n\treturn g(0);\n}\n\
              SYSCALL_DEFINE1(dup, int, fd)\n{\n\treturn f(0);\n}\nEXPORT_SYMBOL_GPL(f);\nEXPORT_INDIRECT_CALLABLE(g);\n\
              static const struct ops o = { .kick = f, .n = 3 };\n",
        );
        let names: Vec<_> = facts.functions.iter().map(|f| (f.name.as_str(), f.is_static)).collect();
        assert_eq!(names, [("f", true), ("sys_dup", false)]);
        assert_eq!(facts.functions[0].calls, ["likely", "g", "h"]);
        assert_eq!(facts.functions[0].indirect, ["kick"]);
        assert_eq!(facts.functions[0].signature, "static int __init f(struct q *q)");
        assert_eq!((facts.functions[0].start, facts.functions[0].end), (6, 11));
        let members: Vec<_> = facts.types["struct q"].iter().map(|m| m.0.as_str()).collect();
        assert_eq!(members, ["head", "in", "a", "b"]);
        assert_eq!(facts.types["enum e"][1], ("B".to_owned(), "B = 2".to_owned()));
        assert_eq!(facts.tables, [("o".to_owned(), "kick".to_owned(), "f".to_owned())]);
        assert_eq!(facts.exports, ["f", "g"]);
        assert_eq!((facts.unread, facts.missed), (Vec::new(), Vec::new()));
    }
}
