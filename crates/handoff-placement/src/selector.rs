//! Names for sets of CPUs that mean the same on every machine: `big`, `llc:0`, `beside:1234`.

use crate::cpuset::{CpuId, CpuSet};
use crate::process::Status;
use crate::root::Root;
use crate::selector_error::SelectorError;
use crate::tid::Tid;
use crate::topology::{Group, Topology};
use std::fmt;
use std::str::FromStr;

/// A wish for CPUs, to be resolved on a machine.
///
/// Terms are joined by commas; each adds CPUs, or takes them away with `!` before it. A term is
/// one or more parts joined by `&`, of which only the common CPUs count.
///
/// | part | CPUs |
/// |---|---|
/// | `3`, `0-3`, `0-8:2` | by number, in the kernel's list format |
/// | `all` | every online CPU |
/// | `big`, `mid`, `little` | the fastest, middle, slowest class |
/// | `class:N` | the N-th class, from 0, slowest first |
/// | `cluster:N`, `llc:N`, `node:N`, `package:N` | those that share cluster, last-level cache, NUMA node, package |
/// | `core:CPU` | the SMT siblings of a CPU |
/// | `one-per-core` | one CPU of each core |
/// | `isolated` | CPUs kept from the load balancer |
/// | `on:TID` | the CPU that a thread runs on (or ran on last) |
/// | `beside:TID` | those that share a last-level cache with that CPU |
///
/// ```
/// # use handoff_placement::{Selector, Topology};
/// let wish: Selector = "big,!0".parse()?;
/// let machine = Topology::read()?;
/// match wish.resolve(&machine) {
///     Ok(cpus) => println!("{wish} is {cpus} here"),
///     Err(reason) => println!("{reason}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    minus: bool,
    // By number: what all lists of the term have in common. Not among the parts, because a list of
    // several ranges is several terms when it is printed: `!0,2` takes one away and adds one.
    list: Option<CpuSet>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    All,
    Big,
    Mid,
    Little,
    Class(u32),
    Cluster(u32),
    Llc(u32),
    Node(u32),
    Package(u32),
    Core(CpuId),
    OnePerCore,
    Isolated,
    On(Tid),
    Beside(Tid),
}

impl Selector {
    /// The CPUs that are meant on this machine.
    ///
    /// On a machine whose cores are all alike, every class is all of them.
    ///
    /// # Errors
    ///
    /// If the machine has no such class, cluster, cache, node, package or thread, or if nothing is
    /// left; the message tells what there is.
    pub fn resolve(&self, machine: &Topology) -> Result<CpuSet, SelectorError> {
        self.resolve_under(machine, &Root::host())
    }

    /// [`Selector::resolve`] with threads looked up in a tree.
    pub fn resolve_under(&self, machine: &Topology, root: &Root) -> Result<CpuSet, SelectorError> {
        // What only takes away, takes from everything.
        let mut chosen =
            if self.terms.iter().all(|term| term.minus) { machine.online.clone() } else { CpuSet::new() };
        for term in &self.terms {
            let mut common = term.list.clone();
            for part in &term.parts {
                let cpus = part.resolve(machine, root)?;
                common = Some(common.map_or(cpus.clone(), |common| common.intersection(&cpus)));
            }
            let cpus = common.unwrap_or_default();
            chosen = if term.minus { chosen.difference(&cpus) } else { chosen.union(&cpus) };
        }
        if chosen.is_empty() {
            return Err(SelectorError::new(self, "leaves no CPU"));
        }
        Ok(chosen)
    }
}

impl From<CpuSet> for Selector {
    fn from(cpus: CpuSet) -> Self {
        Self { terms: vec![Term { minus: false, list: Some(cpus), parts: Vec::new() }] }
    }
}

impl Part {
    fn resolve(&self, machine: &Topology, root: &Root) -> Result<CpuSet, SelectorError> {
        let class = |index: Option<usize>| match index.and_then(|index| machine.classes.get(index)) {
            Some(class) => Ok(class.cpus.intersection(&machine.online)),
            None => {
                let has = machine.classes.iter().map(|class| format!("{} ({})", class.name, class.cpus));
                let has = has.collect::<Vec<_>>().join(", ");
                Err(SelectorError::new(self, format!("is not a class of this machine, which has {has}")))
            }
        };
        let last = machine.classes.len().saturating_sub(1);
        match self {
            Self::All => Ok(machine.online.clone()),
            Self::Little => class(Some(0)),
            Self::Big => class(Some(last)),
            Self::Mid if last == 0 => class(Some(0)),
            Self::Mid if last == 1 => class(None),
            Self::Mid => (1..last).try_fold(CpuSet::new(), |all, index| Ok(all.union(&class(Some(index))?))),
            Self::Class(index) => class(usize::try_from(*index).ok()),
            Self::Cluster(id) => self.group(&machine.clusters, *id),
            Self::Llc(id) => self.group(&machine.llcs, *id),
            Self::Node(id) => self.group(&machine.nodes, *id),
            Self::Package(id) => self.group(&machine.packages, *id),
            Self::Core(id) => match machine.cpu(*id) {
                Some(cpu) => Ok(cpu.siblings.clone()),
                None => Err(SelectorError::new(self, format!("is not there: CPUs are {}", machine.present))),
            },
            Self::OnePerCore => Ok(machine.one_per_core()),
            Self::Isolated if machine.isolated.is_empty() => {
                Err(SelectorError::new(self, "is empty here: no CPU was isolated at boot (isolcpus=)"))
            }
            Self::Isolated => Ok(machine.isolated.clone()),
            Self::On(tid) => self.last_cpu(root, *tid).map(CpuSet::of),
            Self::Beside(tid) => self.last_cpu(root, *tid).map(|cpu| machine.llc_of(cpu)),
        }
    }

    fn group(&self, groups: &[Group], id: u32) -> Result<CpuSet, SelectorError> {
        groups.iter().find(|group| group.id == id).map(|group| group.cpus.clone()).ok_or_else(|| {
            let has = groups.iter().map(|group| format!("{} ({})", group.id, group.cpus)).collect::<Vec<_>>();
            let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            SelectorError::new(self, format!("is not there; this machine tells of {has}"))
        })
    }

    fn last_cpu(&self, root: &Root, tid: Tid) -> Result<CpuId, SelectorError> {
        let gone = || SelectorError::new(self, "names a thread that is not there");
        let stat = root.text(format!("/proc/{tid}/stat")).map_err(|_| gone())?;
        Status::parse(&stat).and_then(|status| status.last_cpu.try_into().ok()).ok_or_else(gone)
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut terms: Vec<Term> = Vec::new();
        for term in text.split(',') {
            let term: Term = term.trim().parse()?;
            if !terms.last_mut().is_some_and(|last| last.takes_in(&term)) {
                terms.push(term);
            }
        }
        Ok(Self { terms })
    }
}

impl FromStr for Term {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let (minus, body) = match text.strip_prefix('!') {
            Some(body) => (true, body),
            None => (false, text),
        };
        let (mut list, mut parts) = (None::<CpuSet>, Vec::new());
        for part in body.split('&').map(str::trim) {
            if !part.starts_with(|c: char| c.is_ascii_digit()) {
                parts.push(part.parse()?);
                continue;
            }
            let cpus = part.parse().map_err(|e: crate::CpuListError| {
                SelectorError::new(part, format!("is no list of CPUs: {}", e.why()))
            })?;
            let common = list.map_or_else(|| CpuSet::clone(&cpus), |list| list.intersection(&cpus));
            if common.is_empty() {
                return Err(SelectorError::new(text, "names lists that have no CPU in common"));
            }
            list = Some(common);
        }
        Ok(Self { minus, list, parts })
    }
}

impl Term {
    /// Becomes the union with the next term, where the two differ in their numbers only.
    fn takes_in(&mut self, next: &Self) -> bool {
        match (&mut self.list, &next.list) {
            (Some(list), Some(more)) if (self.minus, &self.parts) == (next.minus, &next.parts) => {
                *list = list.union(more);
                true
            }
            _ => false,
        }
    }
}

/// Every word that a selector knows, for suggestions.
const WORDS: &[&str] = &[
    "all",
    "big",
    "mid",
    "little",
    "class",
    "cluster",
    "llc",
    "node",
    "package",
    "core",
    "one-per-core",
    "isolated",
    "on",
    "beside",
];

impl FromStr for Part {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        if text.is_empty() {
            return Err(SelectorError::new(text, "names no CPU: write `0-3`, `big`, `llc:0` or `all`"));
        }
        let (word, number) = match text.split_once(':') {
            Some((word, number)) => (word, Some(number)),
            None => (text, None),
        };
        let index = || -> Result<u32, SelectorError> {
            let number =
                number.ok_or_else(|| SelectorError::new(text, format!("needs a number: `{word}:0`")))?;
            number
                .parse()
                .map_err(|_| SelectorError::new(text, "has something else than a number after the colon"))
        };
        let tid = || -> Result<Tid, SelectorError> {
            let tid = i32::try_from(index()?).ok().and_then(Tid::new);
            tid.ok_or_else(|| SelectorError::new(text, "is not the id of a thread"))
        };
        let part = match word {
            "class" => Self::Class(index()?),
            "cluster" => Self::Cluster(index()?),
            "llc" => Self::Llc(index()?),
            "node" => Self::Node(index()?),
            "package" => Self::Package(index()?),
            "core" => {
                Self::Core(CpuId::try_from(index()?).map_err(|_| SelectorError::new(text, "is not a CPU"))?)
            }
            "on" => Self::On(tid()?),
            "beside" => Self::Beside(tid()?),
            _ if number.is_some() => return Err(unknown(text, word)),
            "all" => Self::All,
            "big" => Self::Big,
            "mid" => Self::Mid,
            "little" => Self::Little,
            "one-per-core" => Self::OnePerCore,
            "isolated" => Self::Isolated,
            _ => return Err(unknown(text, word)),
        };
        Ok(part)
    }
}

fn unknown(text: &str, word: &str) -> SelectorError {
    let hint = match crate::suggest::nearest(word, WORDS) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; the words are {}", WORDS.join(", ")),
    };
    SelectorError::new(text, format!("is not a way to name CPUs{hint}"))
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Big => f.write_str("big"),
            Self::Mid => f.write_str("mid"),
            Self::Little => f.write_str("little"),
            Self::Class(id) => write!(f, "class:{id}"),
            Self::Cluster(id) => write!(f, "cluster:{id}"),
            Self::Llc(id) => write!(f, "llc:{id}"),
            Self::Node(id) => write!(f, "node:{id}"),
            Self::Package(id) => write!(f, "package:{id}"),
            Self::Core(id) => write!(f, "core:{id}"),
            Self::OnePerCore => f.write_str("one-per-core"),
            Self::Isolated => f.write_str("isolated"),
            Self::On(tid) => write!(f, "on:{tid}"),
            Self::Beside(tid) => write!(f, "beside:{tid}"),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for term in &self.terms {
            let (minus, parts) = (if term.minus { "!" } else { "" }, &term.parts);
            let parts = parts.iter().map(Part::to_string).collect::<Vec<_>>().join("&");
            let list = term.list.as_ref().map(CpuSet::to_string);
            let and = if list.is_some() && !parts.is_empty() { "&" } else { "" };
            for range in list.as_deref().unwrap_or("").split(',') {
                write!(f, "{comma}{minus}{range}{and}{parts}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_read_as_printed() {
        for text in
            ["0-3", "big,!0", "llc:0&one-per-core", "all,!little", "beside:12,on:12", "0,2,4", "core:5000"]
        {
            assert_eq!(text.parse::<Selector>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_list_of_several_ranges_is_printed_as_what_it_means() {
        for (text, printed) in [
            ("0-8:2,!0-8:4", "0,2,4,6,8,!0,!4,!8"),
            ("big&0-13:2/8", "0-1&big,8-9&big"),
            ("0-3&2-5", "2-3"),
            ("0,2-3,1", "0-3"),
            ("!0,2", "!0,2"),
        ] {
            let selector: Selector = text.parse().expect(text);
            assert_eq!(selector.to_string(), printed);
            assert_eq!(printed.parse(), Ok(selector), "{text}");
        }
    }

    #[test]
    fn mistakes_get_a_suggestion() {
        for (text, says) in [
            ("bigg", "did you mean `big`"),
            ("litle", "did you mean `little`"),
            ("lcc:0", "did you mean `llc`"),
            ("llc", "needs a number"),
            ("llc:x", "something else than a number"),
            ("on:0", "not the id of a thread"),
            ("on:4294967295", "not the id of a thread"),
            ("core:70000", "not a CPU"),
            ("3-1", "goes down"),
            ("big,0-1&2", "no CPU in common"),
            ("", "names no CPU"),
            ("0,,1", "names no CPU"),
            ("quantum", "the words are"),
        ] {
            let error = text.parse::<Selector>().expect_err(text).to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9:,!&-]{0,16}|(!?[0-9](-1[0-9](:[1-9](/[1-9])?)?)?[,&]){0,4}(big|3)|\\PC{0,8}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse::<Selector>(), Ok(selector));
            }
        }
    }
}
