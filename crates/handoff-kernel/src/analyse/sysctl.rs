//! Rows of `ctl_table`s: the file below `/proc/sys`, and what the kernel starts with.

use std::collections::BTreeMap;

use super::facts::{Facts, one_line};
use super::interface::{InterfaceChange, Kind, calls, string_after};

/// A file below `/proc/sys`.
pub(super) struct Row {
    /// As `sysctl` names it, with dots, as far as the file says where its table is.
    pub path: String,
    /// The row on one line, with the default where the file has it.
    pub text: String,
}

/// A table of a file, with its rows' text.
struct Table<'a> {
    name: &'a str,
    rows: Vec<&'a str>,
}

/// The rows of all tables in a file.
pub(super) fn rows(text: &str) -> Vec<Row> {
    let tables = tables(text);
    let places = places(text, &tables);
    let mut out = Vec::new();
    for table in tables.iter().filter(|table| !is_path(text, table.name)) {
        for row in &table.rows {
            let Some(name) = name_of(row) else { continue };
            let path = match places.get(table.name) {
                Some(place) => format!("{place}.{name}"),
                None => name,
            };
            let mut line = one_line(row.trim_start_matches('{')).trim_end_matches(',').to_owned();
            if let Some(value) = data(row).and_then(|variable| default(text, variable)) {
                line.push_str(&format!("; starts as {value}"));
            }
            out.push(Row { path, text: line });
        }
    }
    out
}

/// Each `struct ctl_table name[] = { ... };` and alike.
fn tables(text: &str) -> Vec<Table<'_>> {
    let mut out = Vec::new();
    for (at, word) in text.match_indices("struct ctl_").chain(text.match_indices("ctl_table ")) {
        let line = text[at..].lines().next().unwrap_or("");
        let Some((head, _)) = line.split_once('[').filter(|_| line.contains('=')) else { continue };
        let name = head.rsplit([' ', '*']).next().unwrap_or("");
        if name.is_empty() || word == "ctl_table " && text[..at].ends_with("struct ") {
            continue;
        }
        let Some(open) = text[at..].find('{') else { continue };
        out.push(Table { name, rows: braced(&text[at + open..]) });
    }
    out
}

/// The parts in braces inside the first braces.
fn braced(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => {
                depth += 1;
                if depth == 2 {
                    start = at;
                }
            }
            '}' => {
                depth = depth.saturating_sub(1);
                match depth {
                    0 => break,
                    1 => out.push(&text[start..at]),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    out
}

fn is_path(text: &str, table: &str) -> bool {
    text.contains(&format!("struct ctl_path {table}["))
}

/// Where tables are: by a registration, or as the child of a row.
fn places(text: &str, tables: &[Table<'_>]) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let path_of = |name: &str| -> Option<String> {
        let table = tables.iter().find(|table| table.name == name && is_path(text, name))?;
        let parts: Vec<String> = table.rows.iter().filter_map(|row| name_of(row)).collect();
        (!parts.is_empty()).then(|| parts.join("."))
    };
    for name in [
        "register_sysctl",
        "register_sysctl_init",
        "register_sysctl_sz",
        "register_sysctl_paths",
        "register_net_sysctl",
        "register_net_sysctl_sz",
        "register_net_sysctl_table",
        "register_net_sysctl_rotable",
    ] {
        for arguments in calls(text, name) {
            let place = arguments.iter().find_map(|argument| match argument.strip_prefix('"') {
                Some(path) => Some(path.trim_end_matches('"').replace('/', ".")),
                None => path_of(argument),
            });
            let (Some(place), Some(given)) =
                (place, arguments.iter().rev().find(|argument| is_name(argument)))
            else {
                continue;
            };
            // A name space gets a copy of the table.
            let is_meant = |table: &&Table<'_>| {
                table.name == given
                    || text.contains(&format!("{given} = kmemdup({},", table.name))
                    || text.contains(&format!("{given} = {};", table.name))
            };
            for table in tables.iter().filter(is_meant) {
                out.insert(table.name.to_owned(), place.clone());
            }
        }
    }
    for (table, row) in tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table.name, row))) {
        let child = row.split_once(".child").map(|(_, rest)| rest.trim_start_matches([' ', '\t', '=']));
        let child = child.and_then(|rest| rest.split([',', '\n', ' ', '}']).next());
        if let (Some(child), Some(name)) = (child, name_of(row)) {
            let place = match out.get(table) {
                Some(above) => format!("{above}.{name}"),
                None => name,
            };
            out.entry(child.to_owned()).or_insert(place);
        }
    }
    out
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['"', '&'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_>-.".contains(&b))
}

/// The file that a row stands for.
fn name_of(row: &str) -> Option<String> {
    row.find(".procname").and_then(|at| string_after(&row[at..]))
}

/// The variable that a row shows.
fn data(row: &str) -> Option<&str> {
    let rest = row.split_once(".data")?.1.trim_start_matches([' ', '\t', '=', '&']);
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// Adds the default to rows whose variable another file defines.
pub(super) fn complete(
    changes: &mut [InterfaceChange],
    was: &BTreeMap<String, Facts>,
    is: &BTreeMap<String, Facts>,
) {
    for change in changes.iter_mut().filter(|change| change.kind == Kind::Sysctl) {
        for (text, files) in [(&mut change.before, was), (&mut change.after, is)] {
            let Some(row) = text.as_mut().filter(|row| !row.contains("; starts as ")) else { continue };
            let Some(variable) = data(row) else { continue };
            let declared = files.values().filter_map(|facts| facts.variables.get(variable));
            // Under another condition it may start as something else.
            let values = |text: &str| -> Vec<String> {
                let starts = text.split(" or ").filter_map(|text| text.split_once('='));
                starts.map(|(_, value)| value.trim().to_owned()).collect()
            };
            if let Some(values) = declared.map(|text| values(text)).find(|values| !values.is_empty()) {
                row.push_str(&format!("; starts as {}", values.join(" or ")));
            }
        }
    }
}

/// The value that a file gives a variable.
pub(super) fn default(text: &str, variable: &str) -> Option<String> {
    for (at, _) in text.match_indices(variable) {
        let line = text[..at].rsplit('\n').next().unwrap_or("");
        let own = line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && line.ends_with([' ', '*', '\t']);
        let rest = &text[at + variable.len()..];
        let Some((between, value)) = rest.split_once(';')?.0.split_once('=') else { continue };
        let words = between.split_whitespace().all(|word| word.starts_with("__"));
        if own && words && !line.contains('(') {
            return Some(one_line(value.split(',').next().unwrap_or(value)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_path_and_a_default() {
        let text = "int sysctl_q_cork __read_mostly = 1;\nstatic int limit = 3, other;\n\
            static struct ctl_table q_table[] = {\n\t{\n\t\t.procname = \"q_cork\",\n\t\t.data = &sysctl_q_cork,\n\t},\n\t{ }\n};\n\
            static struct ctl_table kern_table[] = {\n\t{ .procname = \"limit\", .data = &limit, },\n\t{ }\n};\n\
            static struct ctl_table root[] = {\n\t{ .procname = \"kernel\", .child = kern_table, },\n\t{ }\n};\n\
            struct ctl_path old_path[] = {\n\t{ .procname = \"net\", },\n\t{ .procname = \"old\", },\n\t{ },\n};\n\
            static struct ctl_table old_table[] = {\n\t{ .procname = \"age\" },\n};\n\
            void init(void)\n{\n\tregister_net_sysctl(&init_net, \"net/q\", q_table);\n\tregister_net_sysctl_table(net, old_path, old_table);\n}\n";
        let rows = rows(text);
        let seen: Vec<(&str, bool)> =
            rows.iter().map(|row| (row.path.as_str(), row.text.ends_with("; starts as 1"))).collect();
        assert_eq!(
            seen,
            [("net.q.q_cork", true), ("kernel.limit", false), ("kernel", false), ("net.old.age", false)]
        );
        assert_eq!(default(text, "limit").as_deref(), Some("3"));
    }
}
