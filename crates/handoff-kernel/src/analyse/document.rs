//! The document, in the outline of the feature study, as Markdown and as one HTML file.

use super::graph::Mark;
use super::history::Relation;
use super::interface::What;
use super::key::Rule;
use super::{Analysis, svg};
use crate::document::{self, Block, code, counted, plain};

impl Analysis {
    /// The document as Markdown; the call graph stands in it as an SVG image.
    pub fn markdown(&self) -> String {
        document::markdown(&self.blocks())
    }

    /// The document for a terminal: as Markdown, with a word on where its pictures are.
    pub fn text(&self) -> String {
        let mut blocks = self.blocks();
        for block in &mut blocks {
            if matches!(block, Block::Image(_)) {
                *block = Block::Text("(the picture is written by `--html FILE` and `--svg FILE`)".to_owned());
            }
        }
        document::markdown(&blocks).replace("&lt;", "<")
    }

    /// The document as one HTML file that opens offline.
    pub fn html(&self) -> String {
        document::html(&self.title(), &self.blocks())
    }

    /// The call graph alone.
    pub fn graph_svg(&self) -> String {
        svg::draw(&self.graph)
    }

    fn title(&self) -> String {
        match self.patches.as_slice() {
            [one] if !one.subject.is_empty() => one.subject.clone(),
            [first, ..] if !first.subject.is_empty() => {
                format!("{} (and {} more)", first.subject, self.patches.len() - 1)
            }
            _ => "A change".to_owned(),
        }
    }

    /// The document in pieces, to be part of another one.
    pub fn blocks(&self) -> Vec<Block> {
        let mut out = vec![Block::Heading(1, self.title())];
        self.principle(&mut out);
        self.history(&mut out);
        out.push(Block::Heading(2, "3 Differences".to_owned()));
        self.interface_section(&mut out);
        self.code_section(&mut out);
        self.flow_section(&mut out);
        self.key_section(&mut out);
        self.module_section(&mut out);
        self.summary(&mut out);
        self.references(&mut out);
        out
    }

    fn principle(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(2, "1 The feature and its principle".to_owned()));
        out.push(Block::Prompt(
            "what the feature is for and why it works: the problem, the idea, and what it costs. The words of those who \
             made it stand below; a machine cannot judge them."
                .to_owned(),
        ));
        for patch in &self.patches {
            let id =
                patch.commit.as_deref().map_or(String::new(), |id| format!(" ({})", &id[..id.len().min(12)]));
            out.push(Block::Text(format!("Commit message of **{}**{id}:", plain(&patch.subject))));
            let message =
                if patch.message.is_empty() { "(the patch has no message)" } else { &patch.message };
            out.push(Block::Quote(message.to_owned()));
        }
        for (file, text) in &self.documentation {
            out.push(Block::Text(format!("What it adds to {}:", code(file))));
            out.push(Block::Quote(text.clone()));
        }
    }

    fn history(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(2, "2 History and iterations".to_owned()));
        let rows = self.patches.iter().map(|patch| {
            vec![
                patch.date.clone().unwrap_or_default(),
                patch.commit.as_deref().map_or(String::new(), |id| format!("`{}`", &id[..id.len().min(12)])),
                plain(&patch.subject),
                patch.author.clone().unwrap_or_default(),
            ]
        });
        out.push(Block::table(&["date", "commit", "subject", "author"], rows.collect()));
        if self.related.is_empty() {
            out.push(Block::Text(
                "No follow-up, fix or revert was found: the tree has no history, or the history names none."
                    .to_owned(),
            ));
        } else {
            let rows = self.related.iter().map(|related| {
                let relation = match related.relation {
                    Relation::Fixes => "fixes it",
                    Relation::Reverts => "reverts it",
                    Relation::Mentions => "names it",
                    Relation::FollowUp => "changes the same files later",
                    Relation::Fixed => "is fixed by it",
                };
                let id = &related.id[..related.id.len().min(12)];
                vec![related.date.clone(), format!("`{id}`"), plain(&related.subject), relation.to_owned()]
            });
            out.push(Block::table(&["date", "commit", "subject", "relation"], rows.collect()));
        }
        out.push(Block::Prompt(
            "how the feature came to be: earlier versions, discussions, and why it was changed.".to_owned(),
        ));
    }

    fn interface_section(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(3, "3.1 Interface changes".to_owned()));
        if self.interfaces.is_empty() {
            out.push(Block::Text("None was found.".to_owned()));
            return;
        }
        let rows = self.interfaces.iter().map(|change| {
            let what = match change.what {
                What::Added => "added",
                What::Changed => "changed",
                What::Removed => "removed",
            };
            let detail = match (&change.before, &change.after) {
                (Some(before), Some(after)) => format!("{} → {}", code(before), code(after)),
                (Some(one), None) | (None, Some(one)) if *one != change.name => code(one),
                _ => String::new(),
            };
            vec![
                change.kind.words().to_owned(),
                what.to_owned(),
                code(&change.name),
                detail,
                code(&change.file),
            ]
        });
        out.push(Block::table(&["kind", "what", "name", "as it is", "file"], rows.collect()));
    }

    fn code_section(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(3, "3.2 Code changes".to_owned()));
        let rows = self.stats.iter().map(|stat| {
            let note = match stat.unfit {
                0 => String::new(),
                1 => "1 hunk does not fit this tree and is not analysed".to_owned(),
                count => format!("{count} hunks do not fit this tree and are not analysed"),
            };
            vec![code(&stat.file), format!("+{}", stat.added), format!("-{}", stat.removed), note]
        });
        out.push(Block::table(&["file", "added", "removed", "note"], rows.collect()));
        let rows = self.functions.iter().map(|function| {
            let place = format!("{}:{}", function.file, function.line);
            vec![
                code(&function.name),
                word(function.mark).to_owned(),
                code(&place),
                function.lines.to_string(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() {
            out.push(Block::table(&["function", "what", "where", "lines touched"], rows));
        }
    }

    fn flow_section(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(3, "3.3 Call flow".to_owned()));
        if self.graph.vertices.is_empty() {
            out.push(Block::Text("No function changes, so there is no flow to draw.".to_owned()));
            return;
        }
        if self.graph.by_file {
            out.push(Block::Text(
                "There are too many functions for one picture, so files stand for them.".to_owned(),
            ));
        }
        if self.graph.folded > 0 {
            out.push(Block::Text(format!(
                "The picture has the functions that change and, for each, the shortest way down to it from an entry; {} beside \
                 these ways, which do not change, are left out.",
                counted(self.graph.folded, "function")
            )));
        }
        let tables = self.graph.edges.iter().filter(|edge| edge.through.is_some()).count();
        if tables > 0 {
            out.push(Block::Text(format!(
                "{} through a table of operations (dashed): which of its functions runs is decided at run time.",
                if tables == 1 { "1 call goes".to_owned() } else { format!("{tables} calls go") }
            )));
        }
        out.push(Block::Image(svg::draw(&self.graph)));
        let changes: Vec<String> = self
            .graph
            .edges
            .iter()
            .filter(|edge| edge.mark != Mark::Same)
            .map(|edge| {
                let calls = if edge.mark == Mark::Removed { "now no longer calls" } else { "now calls" };
                let (from, to) = (code(&edge.from), code(&edge.to));
                match &edge.through {
                    None => format!("{from} {calls} {to}"),
                    Some(member) => format!("{from} {calls} through `.{member}`, which may be {to}"),
                }
            })
            .collect();
        if !changes.is_empty() {
            out.push(Block::List(changes));
        }
        let (files, functions, unread) = self.read;
        out.push(Block::Text(format!(
            "Read from {files} files with {functions} functions; in {unread} of them the parser met what it could not read, so \
             calls may lack there."
        )));
        self.unread_section(out);
    }

    fn unread_section(&self, out: &mut Vec<Block>) {
        const SHOWN: usize = 8;
        if self.unread.is_empty() {
            return;
        }
        out.push(Block::Text("Not read, or in part only:".to_owned()));
        let rows = self.unread.iter().take(SHOWN).map(|one| {
            let names: Vec<String> =
                one.functions.iter().map(|(name, line)| format!("{} ({line})", code(name))).collect();
            vec![code(&one.file), names.join(", "), plain(&one.why)]
        });
        out.push(Block::table(&["file", "functions (line)", "why"], rows.collect()));
        if let more @ 1.. = self.unread.len().saturating_sub(SHOWN) {
            let rows = counted(more, "row");
            out.push(Block::Text(format!(
                "{rows} more, of files beside the change: `--format json` has all."
            )));
        }
    }

    fn key_section(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(3, "3.4 Key functions".to_owned()));
        if self.key_functions.is_empty() {
            out.push(Block::Text(
                "No changed function is an entry, the core, or a place where modules meet.".to_owned(),
            ));
        }
        for function in &self.key_functions {
            out.push(Block::Heading(4, format!("{} ({})", code(&function.name), word(function.mark))));
            out.push(Block::Text(format!("{}, in {}", code(&function.signature), code(&function.file))));
            let mut items: Vec<String> = function
                .reasons
                .iter()
                .map(|(rule, seen)| {
                    let rule = match rule {
                        Rule::Entry => "entry",
                        Rule::Core => "core",
                        Rule::Interaction => "interaction",
                    };
                    format!("{rule}: {seen}")
                })
                .collect();
            let list = |names: &[String]| names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ");
            if !function.calls.is_empty() {
                items.push(format!("calls {}", list(&function.calls)));
            }
            if !function.calls_elsewhere.is_empty() {
                let names = list(&function.calls_elsewhere);
                items.push(format!(
                    "calls what no file that was read defines (`--also` adds some), or macros: {names}"
                ));
            }
            if !function.new_calls.is_empty() {
                items.push(format!("new calls: {}", list(&function.new_calls)));
            }
            let (reads, writes) = &function.members;
            for (names, verb) in [(reads, "read"), (writes, "write")] {
                if !names.is_empty() {
                    items.push(format!("added lines {verb} the members {}", list(names)));
                }
            }
            out.push(Block::List(items));
            if !function.diff.is_empty() {
                out.push(Block::Diff(function.diff.join("\n")));
            }
            out.push(Block::Prompt(format!("what {} does, step by step, and why so.", code(&function.name))));
        }
    }

    fn module_section(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(3, "3.5 Modules that it affects".to_owned()));
        if self.subsystems.is_empty() {
            out.push(Block::Text("The tree has no `MAINTAINERS` that covers these files.".to_owned()));
        } else {
            let rows = self.subsystems.iter().map(|subsystem| {
                let people = subsystem
                    .maintainers
                    .iter()
                    .chain(&subsystem.lists)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ");
                let files = subsystem.files.iter().map(|file| code(file)).collect::<Vec<_>>().join(", ");
                vec![subsystem.name.clone(), subsystem.status.clone(), people, files]
            });
            out.push(Block::table(&["subsystem", "status", "people and lists", "files"], rows.collect()));
        }
        out.push(Block::Prompt(
            "how each of them is affected: at run time, in memory, in its timing, in its tests.".to_owned(),
        ));
    }

    fn summary(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(2, "4 Summary".to_owned()));
        let (added, removed): (usize, usize) =
            self.stats.iter().fold((0, 0), |(a, r), stat| (a + stat.added, r + stat.removed));
        let of = |mark| self.functions.iter().filter(|function| function.mark == mark).count();
        out.push(Block::Text(format!(
            "{}, +{added} -{removed} lines; functions: {} added, {} changed, {} removed; {}. {}",
            counted(self.stats.len(), "file"),
            of(Mark::Added),
            of(Mark::Changed),
            of(Mark::Removed),
            counted(self.interfaces.len(), "interface change"),
            if self.present {
                "The tree already holds the change."
            } else {
                "The tree does not hold the change."
            }
        )));
        out.push(Block::Prompt(
            "whether the feature is worth having here, and what was measured.".to_owned(),
        ));
    }

    fn references(&self, out: &mut Vec<Block>) {
        out.push(Block::Heading(2, "References".to_owned()));
        let mut items = Vec::new();
        for patch in &self.patches {
            if let Some(id) = &patch.commit {
                items.push(format!("{} {}", code(id), plain(&patch.subject)));
            }
            for word in patch.message.split_whitespace() {
                let link = word.trim_matches(['<', '>', '(', ')', ',', '.']);
                if link.starts_with("http://") || link.starts_with("https://") {
                    items.push(plain(link));
                }
            }
        }
        items.dedup();
        if items.is_empty() {
            items.push("the patch names none".to_owned());
        }
        out.push(Block::List(items));
    }
}

fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Same => "unchanged",
        Mark::Added => "added",
        Mark::Changed => "changed",
        Mark::Removed => "removed",
    }
}
