//! Members of structures that lines of C read and write, told from their words.

use std::collections::BTreeSet;

/// Functions whose first pointer is written through: the words in their names that say so.
const WRITERS: [&str; 22] = [
    "set", "clear", "inc", "dec", "add", "sub", "xchg", "cmpxchg", "assign", "init", "store", "write", "or",
    "and", "change", "lock", "unlock", "push", "del", "insert", "put", "get",
];
/// Prefixes of functions on atomic things, bits and lists.
const KINDS: [&str; 12] = [
    "atomic",
    "atomic64",
    "atomic_long",
    "refcount",
    "WRITE_ONCE",
    "rcu_assign_pointer",
    "__set_bit",
    "__clear_bit",
    "set_bit",
    "clear_bit",
    "list",
    "smp_store_release",
];

/// A member that is reached with `.` or `->`, and whether it is written.
pub(crate) fn accesses(line: &str) -> Vec<(&str, bool)> {
    let bytes = line.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let mut out = Vec::new();
    for at in 0..bytes.len() {
        let arrow = bytes[at..].starts_with(b"->");
        let start = at + if arrow { 2 } else { 1 };
        let dot =
            bytes[at] == b'.' && at > 0 && (is_word(bytes[at - 1]) || matches!(bytes[at - 1], b')' | b']'));
        if !(arrow || dot) || !bytes.get(start).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
            continue;
        }
        // Digits in front of a dot are a number.
        let head = line[..at].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
        if dot && head.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let end = (start..bytes.len()).find(|&end| !is_word(bytes[end])).unwrap_or(bytes.len());
        let rest = after_subscripts(&line[end..]).trim_start();
        // A call through a member is no read of a value, and `a->b.c = d` writes `c`.
        if rest.starts_with('(') || rest.starts_with("->") || rest.starts_with('.') {
            continue;
        }
        let assigned = rest.starts_with('=') && !rest.starts_with("==")
            || rest.starts_with("++")
            || rest.starts_with("--")
            || ["+=", "-=", "|=", "&=", "^=", "*=", "/=", "%=", "<<=", ">>="]
                .iter()
                .any(|op| rest.starts_with(op));
        out.push((&line[start..end], assigned || is_written_by_call(&line[..at])));
    }
    out
}

/// The rest of a line behind `[...]`.
fn after_subscripts(rest: &str) -> &str {
    let mut rest = rest;
    while let Some(inside) = rest.strip_prefix('[') {
        let mut depth = 1;
        let end = inside.char_indices().find(|&(_, c)| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        });
        let Some((end, _)) = end else { return "" };
        rest = &inside[end + 1..];
    }
    rest
}

/// True if what stands in front of a member makes it the pointer that a function writes through.
fn is_written_by_call(front: &str) -> bool {
    // What is left of an arrow is no operator of its own.
    let front = front.replace("->", ".");
    let front = front.trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ']' | '['));
    if front.ends_with("++") || front.ends_with("--") {
        return true;
    }
    let (front, pointer) = match front.strip_suffix('&') {
        Some(front) => (front.trim_end(), true),
        None => (front.trim_end(), false),
    };
    // The call that is still open: its name, and whether this is an argument of it.
    let mut depth = 0;
    let Some((open, _)) = front.char_indices().rev().find(|&(_, c)| {
        depth += i32::from(c == ')') - i32::from(c == '(');
        depth < 0
    }) else {
        return false;
    };
    let name = front[..open].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
    if matches!(name, "WRITE_ONCE" | "rcu_assign_pointer" | "smp_store_release") {
        // What is stored comes second.
        return !front[open..].contains(',');
    }
    pointer
        && KINDS
            .iter()
            .any(|kind| name.starts_with(kind) || name.trim_start_matches("test_and_").starts_with(kind))
        && name.split('_').any(|word| WRITERS.contains(&word))
}

/// The members that lines only read, and those that they write; each once, in order.
pub(crate) fn of(lines: &[&str]) -> (Vec<String>, Vec<String>) {
    let all: Vec<(&str, bool)> = lines.iter().flat_map(|line| accesses(code(line))).collect();
    let mut seen = BTreeSet::new();
    let mut pick = |written: bool| -> Vec<String> {
        let picked = all.iter().filter(|(_, is)| *is == written).map(|(name, _)| *name);
        picked.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
    };
    let writes = pick(true);
    (pick(false), writes)
}

/// A line without what is a comment.
fn code(line: &str) -> &str {
    let trimmed = line.trim_start();
    if trimmed.starts_with("* ") || trimmed.starts_with("/*") && !trimmed.contains("*/") {
        return "";
    }
    let end = [line.find("/*"), line.find("//")].into_iter().flatten().min().unwrap_or(line.len());
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_told_apart() {
        for (line, want) in [
            ("if (q->head == q->tail)", &[("head", false), ("tail", false)][..]),
            ("q->head = p->next;", &[("head", true), ("next", false)]),
            ("q.ring[q.at + 1].id += 2;", &[("at", false), ("id", true)]),
            ("q->ring[i] |= 1; q->n++; --q->m;", &[("ring", true), ("n", true), ("m", true)]),
            ("atomic_sub(skb->len, &sk->used);", &[("len", false), ("used", true)]),
            ("atomic_read(&sk->used) > skb->len", &[("used", false), ("len", false)]),
            ("if (test_and_set_bit(HELD, &q->flags))", &[("flags", true)]),
            ("WRITE_ONCE(q->a, q->b);", &[("a", true), ("b", false)]),
            ("q->ops->kick(q, 1.5f);", &[]),
            ("return q->in.out;", &[("out", false)]),
        ] {
            assert_eq!(accesses(line), want, "{line}");
        }
        let (reads, writes) = of(&["\tq->a = q->b; /* q->c */", "\tq->d = q->a;", " * q->e of"]);
        assert_eq!((reads.join(" "), writes.join(" ")), ("b".to_owned(), "a d".to_owned()));
    }
}
