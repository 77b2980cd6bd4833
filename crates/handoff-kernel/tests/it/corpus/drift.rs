//! Cases that are made, so that the right place of each hunk is known: a source file is written, changed, and
//! carried to a tree that drifted away from it in one of several ways.

use std::fs;
use std::path::Path;

/// How many source files are written; each is changed once and carried to every kind of tree.
const FILES: u64 = 26;

/// How the tree differs from the file that the patch was made for.
const DRIFTS: [Drift; 14] = [
    Drift::None,
    Drift::LongerAbove,
    Drift::FunctionAbove,
    Drift::Moved,
    Drift::ContextOtherwise,
    Drift::NeighbourOtherwise,
    Drift::NeighbourGone,
    Drift::LineBetween,
    Drift::Twin,
    Drift::WhiteSpace,
    Drift::AlreadyThere,
    Drift::Gone,
    Drift::OtherPath,
    Drift::Several,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drift {
    None,
    LongerAbove,
    FunctionAbove,
    Moved,
    ContextOtherwise,
    NeighbourOtherwise,
    NeighbourGone,
    LineBetween,
    Twin,
    WhiteSpace,
    AlreadyThere,
    Gone,
    OtherPath,
    Several,
}

/// Numbers that are the same on every machine (Knuth's MMIX generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

const VERBS: [&str; 12] = [
    "alloc", "attach", "check", "clear", "drain", "fetch", "init", "mark", "queue", "reset", "sync", "update",
];
const NOUNS: [&str; 12] =
    ["buf", "cache", "desc", "entry", "frame", "group", "header", "inode", "lock", "ring", "slot", "timer"];

/// A function, as its lines; its calls have names of their own, its frame looks like that of every other.
fn function(numbers: &mut Numbers, name: &str) -> Vec<String> {
    let mut out = vec![
        format!("static int {name}(struct {} *ctx, unsigned long flags)", numbers.of(&NOUNS)),
        "{".to_owned(),
        "\tint err = 0;".to_owned(),
        String::new(),
    ];
    for step in 0..6 + numbers.below(5) {
        let (verb, noun) = (numbers.of(&VERBS), numbers.of(&NOUNS));
        match numbers.below(4) {
            0 => {
                out.push(format!("\terr = {verb}_{noun}_{step}(ctx, {});", numbers.below(64)));
                out.push("\tif (err)".to_owned());
                out.push("\t\tgoto out;".to_owned());
            }
            1 => {
                out.push(format!("\tctx->{noun}_{step} = {verb}_{noun}(ctx->{}, flags);", numbers.of(&NOUNS)))
            }
            2 => {
                out.push(format!("\tif (flags & {}_{}_{step})", verb.to_uppercase(), noun.to_uppercase()));
                out.push(format!("\t\t{verb}_{noun}(&ctx->{noun}_list);"));
            }
            _ => out.push(format!("\t{verb}_{noun}_{step}(ctx);")),
        }
    }
    out.extend(["out:", "\treturn err;", "}", ""].map(str::to_owned));
    out
}

/// A source file in parts: what stands in front, and functions.
fn parts(numbers: &mut Numbers, seed: u64) -> Vec<Vec<String>> {
    let names = |kind: &str, count: usize, line: &dyn Fn(usize) -> String| {
        let mut out = vec![format!("{kind} {{")];
        out.extend((0..count).map(line));
        out.extend(["};".to_owned(), String::new()]);
        out
    };
    let mut out = vec![
        vec!["#include <linux/kernel.h>".to_owned(), "#include <linux/module.h>".to_owned(), String::new()],
        names(&format!("struct state_{seed}"), 7, &|n| {
            format!("\tunsigned int {}_{};", NOUNS[n % 12], VERBS[(n + seed as usize) % 12])
        }),
        names(&format!("static struct option options_{seed}[] ="), 6, &|n| {
            format!(
                "\t{{ \"{}-{}\", set_{}_{n}, 0644 }},",
                VERBS[n],
                NOUNS[(n + seed as usize) % 12],
                NOUNS[n]
            )
        }),
    ];
    for index in 0..5 {
        let name = format!("{}_{}_{seed}_{index}", numbers.of(&VERBS), numbers.of(&NOUNS));
        out.push(function(numbers, &name));
    }
    out
}

/// What the patch does at a line of a part.
#[derive(Clone)]
enum Edit {
    Insert(Vec<String>),
    Replace(String),
    Remove,
}

fn apply(part: &[String], at: usize, edit: &Edit) -> Vec<String> {
    let mut out = part.to_vec();
    match edit {
        Edit::Insert(lines) => drop(out.splice(at + 1..at + 1, lines.iter().cloned())),
        Edit::Replace(line) => out[at].clone_from(line),
        Edit::Remove => drop(out.remove(at)),
    }
    out
}

/// Lines of a part that say something of their own, away from its edges.
fn telling(part: &[String]) -> Vec<usize> {
    let own = |line: &String| line.starts_with('\t') && line.len() > 12 && line.ends_with([';', ',']);
    let plain =
        |at: usize| own(&part[at]) && !part[at].starts_with("\t\t") && !part[at - 1].starts_with("\tif");
    (4..part.len().saturating_sub(4)).filter(|&at| plain(at) && part[at + 1] != "\tif (err)").collect()
}

fn otherwise(line: &str) -> String {
    match line.rfind(')') {
        Some(at) => format!("{}, GFP_NOIO{}", &line[..at], &line[at..]),
        None => line.replace("unsigned int", "unsigned long"),
    }
}

fn write(folder: &Path, path: &str, parts: &[Vec<String>]) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("the folder can be made");
    fs::write(file, parts.concat().join("\n") + "\n").expect("the file can be written");
}

/// Writes all cases below `root`, each in a folder as those of `port-corpus` are.
pub(super) fn write_all(root: &Path) {
    for seed in 0..FILES {
        let mut numbers = Numbers(seed * 7919 + 17);
        let base = parts(&mut numbers, seed);
        // Most changes are made in functions, some in a type or a table.
        let part = if seed % 5 == 4 { 1 + numbers.below(2) } else { 3 + numbers.below(5) };
        let places = telling(&base[part]);
        if places.is_empty() {
            continue;
        }
        let at = places[numbers.below(places.len())];
        let added = |n: usize| match part {
            1 => format!("\tunsigned int added_{seed}_{n};"),
            2 => format!("\t{{ \"added-{seed}-{n}\", set_added_{n}, 0444 }},"),
            _ => format!("\tadded_call_{seed}_{n}(ctx, flags);"),
        };
        let edit = match seed % 3 {
            0 => Edit::Insert((0..1 + numbers.below(3)).map(added).collect()),
            1 => Edit::Replace(added(0)),
            _ if part < 3 => Edit::Insert(vec![added(0)]),
            _ => Edit::Remove,
        };
        for drift in DRIFTS {
            let folder = root.join(format!("{drift:?}-{seed:02}"));
            case(&folder, &base, part, at, &edit, drift, &mut numbers);
        }
    }
}

fn case(
    folder: &Path,
    base: &[Vec<String>],
    part: usize,
    at: usize,
    edit: &Edit,
    drift: Drift,
    numbers: &mut Numbers,
) {
    let (there, here) = match drift {
        Drift::OtherPath => ("include/uapi/linux/x.h", "include/linux/x.h"),
        _ => ("net/x.c", "net/x.c"),
    };
    let mut after = base.to_vec();
    after[part] = apply(&base[part], at, edit);
    write(&folder.join("a"), there, base);
    write(&folder.join("b"), there, &after);

    // The tree, and what the patch should make of it: the same drift on both sides of the change.
    let mut tree = base.to_vec();
    let mut want = after;
    let mut expect = "applied|moved|fuzzy";
    let shift = if let Edit::Insert(lines) = edit { lines.len() } else { 0 };
    // Where a line `by` behind the changed one stands after the change.
    let below = |by: usize| if matches!(edit, Edit::Remove) { at + by - 1 } else { at + by + shift };
    let both = |tree: &mut Vec<Vec<String>>, want: &mut Vec<Vec<String>>, index: usize, new: Vec<String>| {
        tree.insert(index, new.clone());
        want.insert(index, new);
    };
    if matches!(drift, Drift::LongerAbove | Drift::Several) {
        let new = (0..4).flat_map(|n| function(numbers, &format!("early_{n}"))).collect();
        both(&mut tree, &mut want, 1, new);
    }
    // Parts in front of the changed one were put in.
    let part = part + usize::from(matches!(drift, Drift::LongerAbove | Drift::Several));
    match drift {
        Drift::None | Drift::LongerAbove | Drift::OtherPath => {}
        Drift::FunctionAbove => both(&mut tree, &mut want, part, function(numbers, "just_above")),
        Drift::Moved => {
            for side in [&mut tree, &mut want] {
                let moved = side.remove(part);
                side.push(moved);
            }
        }
        Drift::ContextOtherwise | Drift::Several => {
            tree[part][at + 2] = otherwise(&tree[part][at + 2].clone());
            want[part][below(2)].clone_from(&tree[part][at + 2]);
        }
        Drift::NeighbourOtherwise => {
            tree[part][at + 1] = otherwise(&tree[part][at + 1].clone());
            want[part][below(1)].clone_from(&tree[part][at + 1]);
        }
        Drift::NeighbourGone => {
            tree[part].remove(at - 1);
            want[part].remove(at - 1);
        }
        Drift::LineBetween => {
            tree[part].insert(at - 1, "\tlocal_only(0);".to_owned());
            want[part].insert(at - 1, "\tlocal_only(0);".to_owned());
        }
        Drift::Twin => {
            let twin = twin_of(&tree[part]);
            both(&mut tree, &mut want, part, twin);
        }
        Drift::WhiteSpace => {
            let spaced = tree[part][at - 1].replace('\t', "        ");
            tree[part][at - 1].clone_from(&spaced);
            want[part][at - 1] = spaced;
        }
        Drift::AlreadyThere => {
            tree = want.clone();
            // Of lines that are only removed, nothing is left to tell; of others they stand there.
            expect = if matches!(edit, Edit::Remove) { "present|fuzzy" } else { "present" };
        }
        Drift::Gone => {
            tree.remove(part);
            want = tree.clone();
            expect = "conflict";
        }
    }
    write(&folder.join("tree"), here, &tree);
    write(&folder.join("want"), here, &want);
    fs::write(folder.join("expect"), format!("{there} 1 {expect}\n")).expect("it can be written");
}

/// The same definition under another name.
fn twin_of(part: &[String]) -> Vec<String> {
    let mut twin = part.to_vec();
    twin[0] = twin[0]
        .replacen("static int ", "static int other_", 1)
        .replacen("struct state_", "struct other_state_", 1)
        .replacen("option options_", "option other_options_", 1);
    twin
}
