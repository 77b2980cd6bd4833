//! The policy as people write it: a TOML file. See the book's reference of the policy file.
//!
//! ```toml
//! others = "open"            # names that no rule mentions: "open" (the default) or "closed"
//!
//! [limits]
//! names_per_user = 4096
//! watches_per_user = 4096
//!
//! [[rule]]
//! names = ["camera/*", "sensors"]
//! add = ["daemon", "2000-2999"]
//! find = ["*"]
//! replace = ["root"]
//! ```

use std::fmt;
use std::io::Read as _;
use std::ops::Range as Span;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use toml::Spanned;

use super::policy::{NamePattern, Policy, Principal, Range, Rule};
use super::types::MAX_NAME;
use super::users::Names;

/// Most bytes of a policy.
const LONGEST: u64 = 1 << 20;

/// A policy that cannot be used: which file, where in it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1, and the text of the line; `None` if the file cannot be read.
    pub place: Option<(usize, usize, String)>,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.place {
            None => write!(f, "{file}: {}", self.what),
            Some((line, column, text)) => {
                let margin = " ".repeat(line.to_string().len());
                writeln!(f, "{file}:{line}:{column}: {}", self.what)?;
                writeln!(f, "{line} | {text}")?;
                write!(f, "{margin} | {}^", " ".repeat(column - 1))
            }
        }
    }
}

impl std::error::Error for PolicyError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    others: Option<Others>,
    limits: Option<Limits>,
    #[serde(default)]
    rule: Vec<FileRule>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Others {
    Open,
    Closed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    names_per_user: u32,
    watches_per_user: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let open = Policy::open();
        Limits { names_per_user: open.names_per_user as u32, watches_per_user: open.watches_per_user as u32 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    names: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    add: Vec<Spanned<String>>,
    #[serde(default)]
    find: Vec<Spanned<String>>,
    #[serde(default)]
    replace: Vec<Spanned<String>>,
}

/// What is wrong, and with which bytes.
type Fault = (Option<Span<usize>>, String);

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`PolicyError`] with line and column. So is a file that says nothing: whoever writes a file anew leaves it empty for a
    /// moment, and who means to let everybody in writes that.
    pub fn read(file: &Path) -> Result<Self, PolicyError> {
        let text = text_of(file).map_err(|error| PolicyError {
            file: file.to_owned(),
            place: None,
            what: format!("the policy cannot be read: {error}"),
        })?;
        Policy::parse(&text, file)
    }

    /// Reads a policy from a text; `file` is for messages.
    ///
    /// # Errors
    /// [`PolicyError`] with line and column.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PolicyError> {
        let accounts = Accounts {
            users: Names::read(Path::new("/etc/passwd")),
            groups: Names::read(Path::new("/etc/group")),
        };
        interpret(text, &accounts).map_err(|(span, what)| PolicyError {
            file: file.to_owned(),
            place: Some(place(text, span.map_or(0, |span| span.start))),
            what,
        })
    }
}

/// The text of a policy. A pipe has its text once: read again it is empty, and an empty policy lets everybody in. Nor is a
/// manager to wait for a writer, or to hold a file that has no end, while it serves.
fn text_of(file: &Path) -> std::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = std::fs::File::from(rustix::fs::open(file, flags, Mode::empty())?);
    let found = opened.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is no regular file: write the policy to one, and name that"));
    }
    let mut text = String::new();
    opened.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(std::io::Error::other(format!("it has more than {LONGEST} bytes")));
    }
    Ok(text)
}

struct Accounts {
    users: Names,
    groups: Names,
}

fn interpret(text: &str, accounts: &Accounts) -> Result<Policy, Fault> {
    let file: File =
        toml::from_str(text).map_err(|error| (error.span(), error.message().trim().to_owned()))?;
    if file.others.is_none() && file.limits.is_none() && file.rule.is_empty() {
        return Err((None, "it says nothing: write others = \"open\" to let everybody in".to_owned()));
    }
    let limits = file.limits.unwrap_or_default();
    let rules = file.rule.into_iter().map(|rule| self::rule(rule, accounts)).collect::<Result<_, _>>()?;
    Ok(Policy {
        rules,
        others_open: file.others != Some(Others::Closed),
        names_per_user: limits.names_per_user as usize,
        watches_per_user: limits.watches_per_user as usize,
    })
}

fn rule(rule: FileRule, accounts: &Accounts) -> Result<Rule, Fault> {
    if rule.names.get_ref().is_empty() {
        return Err((Some(rule.names.span()), "a rule that names nothing has no effect".into()));
    }
    let names = rule.names.into_inner().into_iter().map(pattern).collect::<Result<_, _>>()?;
    let principals = |list: Vec<Spanned<String>>| -> Result<Vec<Principal>, Fault> {
        list.into_iter()
            .map(|word| {
                let span = word.span();
                principal(word.get_ref(), accounts).map_err(|what| (Some(span), what))
            })
            .collect()
    };
    Ok(Rule {
        names,
        add: principals(rule.add)?,
        find: principals(rule.find)?,
        replace: principals(rule.replace)?,
    })
}

fn pattern(word: Spanned<String>) -> Result<NamePattern, Fault> {
    let (span, text) = (word.span(), word.into_inner());
    let odd = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"_-./:@*?".contains(*c));
    let what = match odd {
        Some(odd) => format!("{odd:?} occurs in no name: {text:?} would match nothing"),
        None if text.is_empty() => "an empty pattern matches nothing".to_owned(),
        None if text.len() > MAX_NAME => {
            format!("a pattern of {} bytes: names have {MAX_NAME} at most", text.len())
        }
        None => return Ok(NamePattern::new(text)),
    };
    Err((Some(span), what))
}

/// `*`, or `user:` (which may be left out) or `group:` and a number, a range or a name.
fn principal(word: &str, accounts: &Accounts) -> Result<Principal, String> {
    if word == "*" {
        return Ok(Principal::Anyone);
    }
    let (kind, who) = word.split_once(':').unwrap_or(("user", word));
    match kind {
        "user" | "uid" => range(who, &accounts.users).map(Principal::Users),
        "group" | "gid" => range(who, &accounts.groups).map(Principal::Groups),
        other => Err(format!("{other:?} is no kind of principal: write user:WHO, group:WHO or *")),
    }
}

fn range(who: &str, names: &Names) -> Result<Range, String> {
    // No account has a name that begins with a digit and goes on like a number or a range.
    if !who.starts_with(|c: char| c.is_ascii_digit()) {
        return if who.is_empty() {
            Err("nobody is named here: write a number, a range such as 1000-1999, a name or *".into())
        } else {
            names.id(who).map(Range::one)
        };
    }
    let number = |text: &str| -> Result<u32, String> {
        text.parse().map_err(|_| format!("{text:?} is not an id (0 to {})", u32::MAX))
    };
    match who.split_once('-') {
        None => number(who).map(Range::one),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("the range {first}-{last} is empty: the smaller id goes first"));
            }
            Ok(Range { first, last })
        }
    }
}

/// Line and column of a byte, and the line.
fn place(text: &str, at: usize) -> (usize, usize, String) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count();
    (line + 1, column + 1, text.lines().nth(line).unwrap_or("").to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::policy::Action;
    use super::*;
    use crate::identity::CallingIdentity;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse(text, Path::new("p.toml"))
    }

    #[test]
    fn the_policy_that_the_book_shows_is_accepted() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reference/service-policy.md");
        let page = std::fs::read_to_string(page).expect("the book's page is in the repository");
        let shown = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
        parse(shown).unwrap();
    }

    #[test]
    fn a_policy_is_a_file_that_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let why = |name: &str| Policy::read(&at(name)).unwrap_err().to_string();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).unwrap();
        for (link, leads_to) in [("to-fifo", at("fifo")), ("to-nothing", "/dev/null".into())] {
            std::os::unix::fs::symlink(leads_to, at(link)).unwrap();
            assert!(why(link).contains("no regular file"), "{}", why(link));
        }
        assert!(why("fifo").contains("no regular file"), "{}", why("fifo"));
        assert!(why(".").contains("no regular file"), "{}", why("."));
        // Nothing of it is on a disk.
        std::fs::File::create(at("large")).unwrap().set_len(1 << 30).unwrap();
        assert!(why("large").contains("more than 1048576 bytes"), "{}", why("large"));
        for blank in ["", "\n\n", "# To be written.\n"] {
            std::fs::write(at("empty"), blank).unwrap();
            assert!(why("empty").contains("it says nothing"), "{}", why("empty"));
        }
        for (open, close) in [("[", "]"), ("{a=", "}")] {
            let deep = format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
            std::fs::write(at("deep"), deep).unwrap();
            assert!(why("deep").contains("recurs"), "{}", why("deep"));
        }
        std::fs::write(at("good"), "others = \"closed\"").unwrap();
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        assert!(!Policy::read(&at("link")).unwrap().others_open);
    }

    #[test]
    fn a_policy_says_who_may_do_what() {
        let policy = parse(
            r#"
            others = "closed"
            [limits]
            names_per_user = 10
            [[rule]]
            names = ["camera/*", "sensors"]
            add = ["root", "2000-2999", "group:root"]
            find = ["*"]
            replace = ["user:7", "gid:8-9"]
            "#,
        )
        .unwrap();
        assert_eq!((policy.names_per_user, policy.watches_per_user), (10, Policy::open().watches_per_user));
        assert!(!policy.others_open);
        let one = Range::one;
        let rule = &policy.rules[0];
        assert_eq!(
            rule.add,
            [
                Principal::Users(one(0)),
                Principal::Users(Range { first: 2000, last: 2999 }),
                Principal::Groups(one(0))
            ]
        );
        assert_eq!(rule.find, [Principal::Anyone]);
        assert_eq!(rule.replace, [Principal::Users(one(7)), Principal::Groups(Range { first: 8, last: 9 })]);
        let who = CallingIdentity { pid: 1, uid: 2500, gid: 3 };
        assert!(policy.allows(who, Action::Add, "camera/0"));
        assert_eq!(parse("others = \"open\"").unwrap(), Policy::open());
        assert_eq!(parse("[limits]").unwrap(), Policy::open());
    }

    #[test]
    fn faults_are_shown_where_they_are() {
        for (text, line, column, what) in [
            ("others = \"shut\"", 1, 10, "unknown variant `shut`"),
            ("\n[[rule]]\nnames = [\"a\"]\nad = []\n", 4, 1, "unknown field `ad`"),
            ("[[rule]]\nadd = []\n", 1, 1, "missing field `names`"),
            ("[[rule]]\nnames = []\n", 2, 9, "names nothing"),
            ("[[rule]]\nnames = [\"a b\"]\n", 2, 10, "' ' occurs in no name"),
            ("[[rule]]\nnames = [\"\"]\n", 2, 10, "an empty pattern"),
            (
                "[[rule]]\nnames = [\"a\"]\nadd = [\"0\", \"no-such-account\"]\n",
                3,
                13,
                "no \"no-such-account\" in",
            ),
            ("[[rule]]\nnames = [\"a\"]\nadd = [\"9-3\"]\n", 3, 8, "smaller id goes first"),
            ("[[rule]]\nnames = [\"a\"]\nadd = [\"4294967296\"]\n", 3, 8, "is not an id"),
            ("[[rule]]\nnames = [\"a\"]\nadd = [\"context:x\"]\n", 3, 8, "no kind of principal"),
            ("[[rule]]\nnames = [\"a\"]\nadd = [\"group:\"]\n", 3, 8, "nobody is named"),
            ("limits = 3", 1, 10, "invalid type"),
            ("[limits]\nnames_per_user = -1", 2, 18, "invalid value"),
            ("x = [", 1, 6, ""),
        ] {
            let error = parse(text).unwrap_err();
            let place = error.place.as_ref().map(|(line, column, _)| (*line, *column));
            assert_eq!(place, Some((line, column)), "{error}");
            assert!(error.what.contains(what), "{error}");
        }
        let shown = parse("é = 1\nothers = \"shut\"\n").unwrap_err().to_string();
        assert!(shown.starts_with("p.toml:1:1: "), "{shown}");
        let shown = parse("others = \"shut\"\n").unwrap_err().to_string();
        assert!(shown.ends_with("1 | others = \"shut\"\n  |          ^"), "{shown}");
        let missing = Policy::read(Path::new("/no/such/policy.toml")).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_text_is_a_policy_or_an_error_with_a_place(text in "(\\[\\[rule\\]\\]\n|names|find|add|=|\\[|\\]|\"|[a-c0-9*:\\-]|,| |\n|é){0,40}") {
            match parse(&text) {
                Ok(policy) => prop_assert!(policy.rules.len() <= text.len()),
                Err(error) => {
                    let (line, column, shown) = error.place.clone().unwrap();
                    prop_assert!(line >= 1 && line <= text.lines().count() + 1);
                    prop_assert!(column >= 1 && column <= shown.chars().count() + 1);
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}
