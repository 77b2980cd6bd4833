//! Who looks after a file: the `MAINTAINERS` of a tree.

use serde::Serialize;

/// An entry of `MAINTAINERS`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Subsystem {
    pub name: String,
    /// `M:` lines.
    pub maintainers: Vec<String>,
    /// `L:` lines.
    pub lists: Vec<String>,
    /// `S:`, for example `Maintained`.
    pub status: String,
    /// Which of the changed files it covers.
    pub files: Vec<String>,
    #[serde(skip)]
    patterns: Vec<String>,
    #[serde(skip)]
    excluded: Vec<String>,
}

/// The entries that cover `files`, the most specific first; catch-all ones only where no other does.
pub(super) fn covering(text: &str, files: &[String]) -> Vec<Subsystem> {
    let mut found: Vec<(usize, Subsystem)> = Vec::new();
    for mut entry in parse(text) {
        let covered: Vec<(usize, &String)> =
            files.iter().filter_map(|file| Some((entry.covers(file)?, file))).collect();
        let Some(best) = covered.iter().map(|(depth, _)| *depth).max() else { continue };
        entry.files = covered.into_iter().map(|(_, file)| file.clone()).collect();
        found.push((best, entry));
    }
    let all = found.iter().any(|(depth, _)| *depth > 0);
    found.retain(|(depth, _)| *depth > 0 || !all);
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    found.into_iter().map(|(_, entry)| entry).collect()
}

impl Subsystem {
    /// How specific the pattern is that covers `file`: its folders, 0 for a catch-all.
    fn covers(&self, file: &str) -> Option<usize> {
        if self.excluded.iter().any(|pattern| matches(pattern, file)) {
            return None;
        }
        let patterns = self.patterns.iter().filter(|pattern| matches(pattern, file));
        patterns
            .map(|pattern| pattern.split('/').filter(|part| !part.is_empty() && *part != "*").count())
            .max()
    }
}

fn parse(text: &str) -> Vec<Subsystem> {
    let mut entries: Vec<Subsystem> = Vec::new();
    let mut title = "";
    for line in text.lines() {
        let field = line
            .split_once(':')
            .filter(|(key, _)| key.len() == 1 && key.starts_with(|c: char| c.is_ascii_uppercase()));
        let Some((key, value)) = field else {
            title = line.trim();
            continue;
        };
        if !title.is_empty() {
            entries.push(Subsystem { name: title.to_owned(), ..Subsystem::default() });
            title = "";
        }
        let (Some(entry), value) = (entries.last_mut(), value.trim().to_owned()) else { continue };
        match key {
            "M" => entry.maintainers.push(value),
            "L" => entry.lists.push(value.split_whitespace().next().unwrap_or("").to_owned()),
            "S" => entry.status = value,
            "F" => entry.patterns.push(value),
            "X" => entry.excluded.push(value),
            _ => {}
        }
    }
    entries
}

/// `F:` patterns: a folder with everything below it (`net/ipv4/`), or a file with wildcards that do not
/// cross folders (`kernel/sched/*`).
fn matches(pattern: &str, file: &str) -> bool {
    if let Some(folder) = pattern.strip_suffix('/') {
        let parts = folder.split('/').count();
        let head: Vec<&str> = file.split('/').collect();
        return head.len() > parts && wild(folder, &head[..parts].join("/"));
    }
    wild(pattern, file)
}

fn wild(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len()
            && (pattern[p] == b'?' && text[t] != b'/' || pattern[p] == text[t] && pattern[p] != b'*')
        {
            p += 1;
            t += 1;
        } else if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if let Some((at, from)) = star.filter(|&(_, from)| text[from] != b'/') {
            p = at + 1;
            t = from + 1;
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "List of maintainers\n\nNETWORKING [IPv4/IPv6]\nM:\tA <a@b>\nL:\tnetdev@example.org (open)\nS:\tMaintained\n\
        F:\tnet/ipv4/\nF:\tinclude/net/ip*\nX:\tnet/ipv4/netfilter/\n\nTHE REST\nM:\tL <l@k>\nS:\tBuried\nF:\t*\nF:\t*/\n";

    #[test]
    fn the_most_specific_entry_is_found() {
        let found = covering(TEXT, &["net/ipv4/tcp.c".into(), "include/net/ip_fib.h".into()]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].lists[0].as_str()),
            ("NETWORKING [IPv4/IPv6]", "netdev@example.org")
        );
        assert_eq!(found[0].files.len(), 2);
        assert_eq!(covering(TEXT, &["net/ipv4/netfilter/x.c".into()])[0].name, "THE REST");
    }

    #[test]
    fn wildcards_stay_in_their_folder() {
        assert!(matches("kernel/sched/*", "kernel/sched/fair.c"));
        assert!(!matches("kernel/*", "kernel/sched/fair.c"));
        assert!(matches("drivers/*/x/", "drivers/net/x/y/z.c"));
        assert!(wild("a*c?", "abbcd") && !wild("a*c", "abbcd"));
    }
}
