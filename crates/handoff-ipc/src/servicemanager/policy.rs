//! Who may add, find and replace which names.
//!
//! A name that some rule mentions is closed to everybody whom no such rule lets in; a name that no
//! rule mentions is open, unless the policy says otherwise.

use std::fmt;

use crate::identity::CallingIdentity;

/// What somebody wants with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Register it, or take back one's own registration.
    Add,
    /// Look it up, hear of it, see it listed.
    Find,
    /// Register it although a process of another user has it.
    Replace,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Add => "add",
            Action::Find => "find",
            Action::Replace => "replace",
        })
    }
}

/// Ids from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl Range {
    /// Just this one.
    pub fn one(id: u32) -> Self {
        Range { first: id, last: id }
    }

    fn contains(self, id: u32) -> bool {
        (self.first..=self.last).contains(&id)
    }
}

/// Somebody, or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// Everybody.
    Anyone,
    /// Processes with one of these effective user ids.
    Users(Range),
    /// Processes with one of these effective group ids (supplementary groups do not count).
    Groups(Range),
}

impl Principal {
    fn covers(self, who: CallingIdentity) -> bool {
        match self {
            Principal::Anyone => true,
            Principal::Users(range) => range.contains(who.uid),
            Principal::Groups(range) => range.contains(who.gid),
        }
    }
}

/// A pattern of names: `*` stands for any run of characters, `?` for any one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// A pattern.
    pub fn new(pattern: impl Into<String>) -> Self {
        NamePattern(pattern.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if it has no wildcard: it stands for one name.
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether it stands for `name`. Takes time proportional to the product of both lengths at most.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut p, mut n) = (0, 0);
        // Where the last star stood, and how much of the name it has swallowed: on a mismatch it
        // swallows one more. Earlier stars need not be tried again.
        let mut star = None;
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(&wanted) if wanted == b'?' || wanted == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match &mut star {
                    Some((at, swallowed)) => {
                        *swallowed += 1;
                        (p, n) = (*at + 1, *swallowed);
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

/// Who may do what with some names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The names it mentions.
    pub names: Vec<NamePattern>,
    /// Who may add them.
    pub add: Vec<Principal>,
    /// Who may find them.
    pub find: Vec<Principal>,
    /// Who may replace a registration of another user.
    pub replace: Vec<Principal>,
}

impl Rule {
    fn mentions(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name))
    }

    fn lets(&self, action: Action, who: CallingIdentity) -> bool {
        let principals = match action {
            Action::Add => &self.add,
            Action::Find => &self.find,
            Action::Replace => &self.replace,
        };
        principals.iter().any(|principal| principal.covers(who))
    }
}

/// All rules, and what holds where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// In any order: whoever one rule lets in is in.
    pub rules: Vec<Rule>,
    /// Whether names that no rule mentions may be added and found by everybody.
    pub others_open: bool,
    /// Names that processes of one user may hold at one time.
    pub names_per_user: usize,
    /// Names that processes of one user may wait for at one time.
    pub watches_per_user: usize,
}

impl Policy {
    /// Everybody may add and find everything.
    pub fn open() -> Self {
        Policy { rules: Vec::new(), others_open: true, names_per_user: 4096, watches_per_user: 4096 }
    }

    /// Whether `who` may do this.
    pub fn allows(&self, who: CallingIdentity, action: Action, name: &str) -> bool {
        let mut mentioned = false;
        for rule in self.rules.iter().filter(|rule| rule.mentions(name)) {
            if rule.lets(action, who) {
                return true;
            }
            mentioned = true;
        }
        // Nobody may take a name away from another user unless a rule says so.
        !mentioned && self.others_open && action != Action::Replace
    }

    /// Whether some rule mentions the name: its owner, or its absence, is on purpose.
    pub fn mentions(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.mentions(name))
    }

    /// The instances of an interface that rules name exactly: of `a.IFoo/default` it is `default`.
    pub fn declared_instances(&self, interface: &str) -> Vec<String> {
        let instance = |pattern: &NamePattern| -> Option<String> {
            let instance = pattern.as_str().strip_prefix(interface)?.strip_prefix('/')?;
            pattern.is_exact().then(|| instance.to_owned())
        };
        let mut found: Vec<_> = self.rules.iter().flat_map(|rule| &rule.names).filter_map(instance).collect();
        found.sort();
        found.dedup();
        found
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who(uid: u32, gid: u32) -> CallingIdentity {
        CallingIdentity { pid: 1, uid, gid }
    }

    #[test]
    fn a_name_that_is_mentioned_is_closed_to_others() {
        let policy = Policy {
            rules: vec![
                Rule {
                    names: vec![NamePattern::new("sensor.*")],
                    add: vec![Principal::Users(Range { first: 10, last: 19 })],
                    find: vec![Principal::Anyone],
                    ..Rule::default()
                },
                Rule {
                    names: vec![NamePattern::new("sensor.secret")],
                    find: vec![Principal::Groups(Range::one(5))],
                    replace: vec![Principal::Users(Range::one(0))],
                    ..Rule::default()
                },
            ],
            ..Policy::open()
        };
        use Action::*;
        for (uid, gid, action, name, allowed) in [
            (10, 0, Add, "sensor.light", true),
            (19, 0, Add, "sensor.light", true),
            (20, 0, Add, "sensor.light", false),
            (0, 0, Add, "sensor.light", false),
            (20, 0, Find, "sensor.light", true),
            (20, 0, Find, "sensor.secret", true),
            (20, 0, Add, "audio", true),
            (20, 0, Find, "audio", true),
            (0, 0, Replace, "audio", false),
            (0, 0, Replace, "sensor.secret", true),
            (0, 0, Replace, "sensor.light", false),
        ] {
            assert_eq!(policy.allows(who(uid, gid), action, name), allowed, "{uid} {action} {name}");
        }
        let closed = Policy { others_open: false, ..policy };
        assert!(!closed.allows(who(0, 0), Add, "audio"));
        assert!(closed.allows(who(15, 0), Add, "sensor.x"));
        assert!(closed.mentions("sensor.x") && !closed.mentions("audio"));
    }

    #[test]
    fn instances_are_declared_by_their_whole_name() {
        let names = ["a.IFoo/default", "a.IFoo/two", "a.IFoo/*", "a.IFooBar/x", "a.IFoo"];
        let rule = Rule { names: names.map(NamePattern::new).into(), ..Rule::default() };
        let policy = Policy { rules: vec![rule.clone(), rule], ..Policy::open() };
        assert_eq!(policy.declared_instances("a.IFoo"), ["default", "two"]);
    }

    /// The definition, in exponential time.
    fn matches_by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=name.len()).any(|n| matches_by_definition(rest, &name[n..])),
            (Some((b'?', rest)), Some((_, more))) => matches_by_definition(rest, more),
            (Some((a, rest)), Some((b, more))) => a == b && matches_by_definition(rest, more),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_match_by_their_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let expected = matches_by_definition(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(NamePattern::new(pattern).matches(&name), expected);
        }
    }
}
