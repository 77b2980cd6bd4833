//! Kernel C made readable for a C parser: what only the preprocessor understands becomes blanks.
//!
//! Every byte keeps its place and every line its number, so what is found in the result can be
//! pointed at in the file. Of `#if` and `#else` one half is kept.

/// Which half of each `#if` and `#else` is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    First,
    /// What stands under the last `#else` or `#elif`, where there is one.
    Last,
}

/// Returns the text with macro idioms blanked; it is as long as `text`.
pub(super) fn blank(text: &[u8], half: Half) -> Vec<u8> {
    let mut out = text.to_vec();
    comments_and_strings(&mut out);
    let kept = match half {
        Half::First => None,
        Half::Last => Some(last_halves(&out)),
    };
    preprocessor(&mut out, kept.as_deref());
    let mut at = 0;
    while at < out.len() {
        if !starts_word(&out, at) {
            at += 1;
            continue;
        }
        let end = word_end(&out, at);
        at = word(&mut out, at, end).max(end);
    }
    out
}

/// Blanks comments and the insides of strings.
fn comments_and_strings(out: &mut [u8]) {
    let mut at = 0;
    while at < out.len() {
        match (out[at], out.get(at + 1)) {
            (b'/', Some(b'*')) => {
                let end = find(out, at + 2, b"*/").map_or(out.len(), |end| end + 2);
                clear(out, at, end);
                at = end;
            }
            (b'/', Some(b'/')) => {
                let end = find(out, at, b"\n").unwrap_or(out.len());
                clear(out, at, end);
                at = end;
            }
            (quote @ (b'"' | b'\''), _) => {
                let mut end = at + 1;
                while end < out.len() && out[end] != quote && out[end] != b'\n' {
                    end += if out[end] == b'\\' { 2 } else { 1 };
                }
                let end = end.min(out.len());
                for byte in &mut out[at + 1..end] {
                    if *byte != b'\n' {
                        *byte = b'x';
                    }
                }
                at = end + 1;
            }
            _ => at += 1,
        }
    }
}

/// True if a file has code that only the second half of a condition shows.
pub(super) fn has_halves(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| {
        let line = line.trim_ascii_start();
        line.first() == Some(&b'#') && line[1..].trim_ascii_start().starts_with(b"el")
    })
}

/// For each `#if` in order, how many `#else` and `#elif` belong to it.
fn last_halves(text: &[u8]) -> Vec<usize> {
    let (mut counts, mut open): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start) {
        let Some(directive) = line.strip_prefix(b"#").map(<[u8]>::trim_ascii_start) else { continue };
        if directive.starts_with(b"if") {
            open.push(counts.len());
            counts.push(0);
        } else if directive.starts_with(b"el") {
            open.last().into_iter().for_each(|&condition| counts[condition] += 1);
        } else if directive.starts_with(b"endif") {
            open.pop();
        }
    }
    counts
}

/// Blanks directives and all halves of conditions but one: the first, or with the counts of halves the last.
fn preprocessor(out: &mut [u8], last: Option<&[usize]>) {
    // For each open `#if`: is this half kept, and was one kept before?
    let mut open: Vec<(bool, bool)> = Vec::new();
    // For each of them, how many halves come.
    let mut coming: Vec<usize> = Vec::new();
    let mut conditions = 0;
    let mut at = 0;
    while at < out.len() {
        let mut end = find(out, at, b"\n").unwrap_or(out.len());
        let line = out[at..end].trim_ascii_start();
        if line.first() == Some(&b'#') {
            let directive = line[1..].trim_ascii();
            if directive.starts_with(b"if") {
                let never = directive == b"if 0";
                let halves = last.and_then(|counts| counts.get(conditions)).copied().unwrap_or(0);
                conditions += 1;
                let kept = halves == 0 && !never;
                open.push((kept, kept || never && last.is_some()));
                coming.push(halves);
            } else if directive.starts_with(b"el") {
                if let (Some(half), Some(coming)) = (open.last_mut(), coming.last_mut()) {
                    *coming = coming.saturating_sub(1);
                    *half = match last {
                        Some(_) => (*coming == 0, true),
                        None => (!half.1, true),
                    };
                }
            } else if directive.starts_with(b"endif") {
                open.pop();
                coming.pop();
            }
            while end < out.len() && end > 0 && out[end - 1] == b'\\' {
                end = find(out, end + 1, b"\n").unwrap_or(out.len());
            }
            clear(out, at, end);
        } else if open.iter().any(|(kept, _)| !kept) {
            clear(out, at, end);
        }
        at = end + 1;
    }
}

/// Words that say something to the compiler or a checker, and nothing of the code's meaning.
const ATTRIBUTES: [&[u8]; 52] = [
    b"__init",
    b"__exit",
    b"__initdata",
    b"__initconst",
    b"__exitdata",
    b"__sched",
    b"__read_mostly",
    b"__ro_after_init",
    b"__cpuinit",
    b"__cpuexit",
    b"__cpuinitdata",
    b"__devinit",
    b"__devexit",
    b"__meminit",
    b"__net_init",
    b"__net_exit",
    b"__net_initdata",
    b"__user",
    b"__kernel",
    b"__rcu",
    b"__iomem",
    b"__percpu",
    b"__force",
    b"__bitwise",
    b"__must_check",
    b"__always_inline",
    b"__maybe_unused",
    b"__always_unused",
    b"__used",
    b"__weak",
    b"__pure",
    b"__cold",
    b"__hot",
    b"__visible",
    b"__packed",
    b"__deprecated",
    b"__malloc",
    b"__noreturn",
    b"__ref",
    b"__refdata",
    b"__kprobes",
    b"__latent_entropy",
    b"__cacheline_aligned",
    b"____cacheline_aligned",
    b"____cacheline_aligned_in_smp",
    b"__cacheline_aligned_in_smp",
    b"asmlinkage",
    b"notrace",
    b"noinline",
    b"noinline_for_stack",
    b"fastcall",
    b"__nocast",
];

const CALLED_ATTRIBUTES: [&[u8]; 16] = [
    b"__attribute__",
    b"__printf",
    b"__scanf",
    b"__acquires",
    b"__releases",
    b"__must_hold",
    b"__section",
    b"__aligned",
    b"__cond_lock",
    b"__bpf_md_ptr",
    b"__no_sanitize",
    b"__alloc_size",
    b"__assume_aligned",
    b"__printk_index_emit",
    b"__counted_by",
    b"__guarded_by",
];

/// Handles the word at `at..end`; returns where to go on.
fn word(out: &mut [u8], at: usize, end: usize) -> usize {
    let name = out[at..end].to_vec();
    if ATTRIBUTES.contains(&name.as_slice()) {
        clear(out, at, end);
        return end;
    }
    if matches!(&*name, b"struct" | b"union" | b"enum") {
        return type_argument(out, at, end);
    }
    let open = skip_space(out, end);
    if out.get(open) != Some(&b'(') {
        return end;
    }
    let Some(close) = closing(out, open) else { return end };
    if CALLED_ATTRIBUTES.contains(&name.as_slice()) {
        clear(out, at, close + 1);
        return close + 1;
    }
    if name.windows(8).any(|part| part == b"for_each") {
        // A loop with another name.
        clear(out, at, end);
        out[at..at + 5].copy_from_slice(b"while");
        return end;
    }
    let first_column = at == 0 || out[at - 1] == b'\n';
    let upper = !name.iter().any(u8::is_ascii_lowercase) && name.len() > 3;
    let initcall =
        name.ends_with(b"_initcall") || matches!(&*name, b"module_init" | b"module_exit" | b"core_param");
    if !first_column || !(upper || initcall || name.starts_with(b"module_param")) {
        return end;
    }
    let after = skip_space(out, close + 1);
    if out.get(after) == Some(&b'{') {
        // A macro that defines a function: `SYSCALL_DEFINE3(sendto, ...) {`.
        let inside = open + 1..word_end(out, skip_space(out, open + 1));
        let argument = out[skip_space(out, inside.start)..inside.end].to_vec();
        let prefix: &[u8] = if name.starts_with(b"SYSCALL_DEFINE") { b"long sys_" } else { b"long " };
        let call = [prefix, &argument, b"(void)"].concat();
        if call.len() <= close + 1 - at {
            clear(out, at, close + 1);
            out[at..at + call.len()].copy_from_slice(&call);
        }
        return close + 1;
    }
    if matches!(out.get(after), Some(b'=' | b'[')) {
        return close + 1;
    }
    let stop = if out.get(after) == Some(&b';') { after + 1 } else { close + 1 };
    clear(out, at, stop);
    stop
}

/// `container_of(p, struct x, m)`: a type as an argument becomes a name.
fn type_argument(out: &mut [u8], at: usize, end: usize) -> usize {
    let before = out[..at].iter().rposition(|byte| !byte.is_ascii_whitespace()).map(|index| out[index]);
    let name = skip_space(out, end);
    let after = skip_space(out, word_end(out, name));
    let argument = matches!(before, Some(b',' | b'(')) && name < after;
    if argument && matches!(out.get(after), Some(b',' | b')')) {
        clear(out, at, end);
    }
    end
}

fn clear(out: &mut [u8], from: usize, to: usize) {
    for byte in &mut out[from..to] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn find(out: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = out.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn starts_word(out: &[u8], at: usize) -> bool {
    is_word(out[at]) && !out[at].is_ascii_digit() && (at == 0 || !is_word(out[at - 1]))
}

fn word_end(out: &[u8], at: usize) -> usize {
    (at..out.len()).find(|&index| !is_word(out[index])).unwrap_or(out.len())
}

fn skip_space(out: &[u8], at: usize) -> usize {
    (at..out.len()).find(|&index| !out[index].is_ascii_whitespace()).unwrap_or(out.len())
}

fn closing(out: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (index, byte) in out.iter().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return Some(index);
                }
            }
            b'{' | b'}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blanked(text: &str) -> String {
        let out = String::from_utf8(blank(text.as_bytes(), Half::First)).unwrap();
        assert_eq!(out.len(), text.len());
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn idioms_become_c() {
        for (text, want) in [
            ("static int __init f(void __user *p)\n\t__acquires(&l)\n{\n}\n", "static int f(void *p) { }"),
            ("SYSCALL_DEFINE2(dup, int, a, int, b)\n{\n}\n", "long sys_dup(void) { }"),
            ("EXPORT_SYMBOL(f);\nint a;\n", "int a;"),
            ("\tlist_for_each_entry(p, h, l)\n\t\tf(p);", "while (p, h, l) f(p);"),
            ("x = container_of(p, struct x, m);", "x = container_of(p, x, m);"),
            ("#ifdef A\nint a;\n#else\nint b;\n#endif\nint c;", "int a; int c;"),
            ("#if 0\nint a;\n#else\nint b;\n#endif\n", "int b;"),
            ("#define A(x) \\\n\t{ x\nint a; /* { */ // {\n", "int a;"),
            ("DEFINE_PER_CPU(int, x) = 3;", "DEFINE_PER_CPU(int, x) = 3;"),
        ] {
            assert_eq!(blanked(text), want, "{text}");
        }
    }

    #[test]
    fn each_half_of_a_condition_can_be_had() {
        let last = |text: &str| {
            let out = String::from_utf8(blank(text.as_bytes(), Half::Last)).unwrap();
            out.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(last("#ifdef A\nint a;\n#else\nint b;\n#endif\nint c;"), "int b; int c;");
        assert_eq!(last("#ifdef A\nint a;\n#endif\n#if 0\nint n;\n#endif\nint c;"), "int a; int c;");
        assert_eq!(
            last(
                "#if A\nint a;\n#elif B\nint b;\n# else\n#ifdef D\nint d;\n#else\nint e;\n#endif\nint f;\n#endif\n"
            ),
            "int e; int f;"
        );
        assert_eq!(last("#else\nint a;\n#endif\n#endif\n#if\n"), "int a;");
    }

    proptest! {
        #[test]
        fn nothing_moves(text in "[a-zE_(){}#\"'/*\\\\\n ;,=]{0,120}") {
            for half in [Half::First, Half::Last] {
                let out = blank(text.as_bytes(), half);
                prop_assert_eq!(out.len(), text.len());
                for (a, b) in text.bytes().zip(&out) {
                    prop_assert_eq!(a == b'\n', *b == b'\n');
                }
            }
        }
    }
}
