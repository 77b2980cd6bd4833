//! The policy language: TOML in, a checked policy or problems with lines and suggestions out.

use super::rule::{Match, Rule, Threshold, When};
use super::text::{duration, line_of};
use handoff_placement::Limits;
use handoff_placement::Placement;
use handoff_placement::Selector;
use handoff_placement::Topology;
use handoff_placement::suggest::nearest;
use handoff_placement::{Deadline, IoPriority, Scheduling};
use handoff_placement::{Policy as SchedulingPolicy, Priority, Scope};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;

#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// What can be given, by name.
    pub profiles: BTreeMap<String, Profile>,
    /// Who gets it and when; the first that holds decides.
    pub rules: Vec<Rule>,
}

/// What a rule can give.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The line of the file where it starts.
    pub line: usize,
    pub placement: Placement,
    /// CPUs of a cpuset of its own, resolved when it is used.
    pub group_cpus: Option<Selector>,
    /// Limits of a control group of its own.
    pub limits: Limits,
    /// Control groups that are there already, to move processes to.
    pub join: Vec<PathBuf>,
}

impl Profile {
    /// Does it need a control group of its own?
    pub fn has_group(&self) -> bool {
        self.group_cpus.is_some() || !self.limits.is_empty()
    }
}

/// Something that is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    pub message: String,
    /// What to write instead, where that can be guessed.
    pub help: Option<String>,
}

/// Everything that is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Profile {
    /// Does it grant a policy that runs before everything else?
    fn is_real_time(&self) -> bool {
        let scheduling = &self.placement.scheduling;
        scheduling.deadline.is_some() || scheduling.priority.is_some_and(|priority| priority.rt > 0)
    }
}

impl Policy {
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let (file, problems) = lenient(text);
        let mut reader = Reader { text, problems };
        let Some(file) = file else { return Err(Problems(reader.problems)) };
        let is_whole = reader.problems.is_empty();
        // Before the broken ones are left out: a rule is not to be blamed for its profile.
        let names: Vec<String> = file.profile.keys().cloned().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let profiles: BTreeMap<String, Profile> = file
            .profile
            .into_iter()
            .filter_map(|(name, profile)| Some((name, reader.profile(profile)?)))
            .collect();
        let rules: Vec<Rule> = file
            .rule
            .into_iter()
            .enumerate()
            .filter_map(|(index, rule)| reader.rule(index, rule, &names))
            .collect();
        // A rule whose condition could not be read would seem to take what a later one takes.
        if is_whole {
            reader.conflicts(&rules);
            reader.real_time(&rules, &profiles);
        }
        if rules.is_empty() && reader.problems.is_empty() {
            reader.problems.push(Problem {
                line: 1,
                message: "no rule says who gets a profile".to_owned(),
                help: Some("add [[rule]] with `match` and `profile`".to_owned()),
            });
        }
        reader.problems.sort_by_key(|problem| problem.line);
        if reader.problems.is_empty() { Ok(Self { profiles, rules }) } else { Err(Problems(reader.problems)) }
    }

    /// Finds what cannot be had on a machine: CPUs that are not there, groups that are not there, real
    /// time that could lock it.
    pub fn check_on(&self, machine: &Topology) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, profile) in &self.profiles {
            let mut add = |message: String, help: Option<String>| {
                problems.push(Problem {
                    line: profile.line,
                    message: format!("profile `{name}`: {message}"),
                    help,
                });
            };
            match profile.placement.check(machine) {
                Ok(Some(cpus)) if !cpus.is_subset(&machine.online) => add(
                    format!("CPUs {} are not there", cpus.difference(&machine.online)),
                    Some(format!("online are {}; `handoff cores` shows them", machine.online)),
                ),
                Ok(_) => {}
                Err(error) => add(error.to_string(), None),
            }
            if let Some(Err(error)) = profile.group_cpus.as_ref().map(|cpus| cpus.resolve(machine)) {
                add(format!("group_cpus: {error}"), None);
            }
            for folder in profile.join.iter().filter(|folder| !folder.join("cgroup.procs").exists()) {
                add(format!("{} is not a control group here", folder.display()), None);
            }
        }
        problems
    }

    /// The scope that a rule places: threads by name, or whole processes.
    pub fn scope_of(rule: &Rule) -> Scope {
        if rule.matches.thread.is_some() { Scope::Thread } else { Scope::Process }
    }
}

/// The file without what cannot be read in it, and what that is. The TOML reader stops at the first error: the line of
/// each is blanked, or the whole table if the error is in its header, and the rest is read again.
fn lenient(text: &str) -> (Option<File>, Vec<Problem>) {
    let (mut left, mut problems, mut blanked) = (text.to_owned(), Vec::new(), Vec::new());
    loop {
        let error = match toml::from_str(&left) {
            Ok(file) => return (Some(file), problems),
            Err(error) => error,
        };
        let at = error.span().map_or(0, |span| span.start);
        let start = left[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let is_header = left[start..].trim_start().starts_with('[');
        let ends = if is_header { left[start..].find("\n[") } else { left[start..].find('\n') };
        let end = ends.map_or(left.len(), |end| start + end);
        // Where the text is no TOML, what follows cannot be told from what is wrong; once a line is blanked, its table
        // may lack what stood there.
        let is_toml = left.parse::<toml::Table>().is_ok();
        let follows = blanked.iter().any(|at| (start..end).contains(at));
        if (is_toml && !follows) || blanked.is_empty() {
            problems.push(syntax(&left, &error));
        }
        if !is_toml || blanked.contains(&start) {
            return (None, problems);
        }
        blanked.push(start);
        let blank =
            left[start..end].chars().map(|c| if c == '\n' { "\n".into() } else { " ".repeat(c.len_utf8()) });
        let blank: String = blank.collect();
        left.replace_range(start..end, &blank);
    }
}

/// An error of the TOML reader, with a suggestion where a key or a table was misspelt.
fn syntax(text: &str, error: &toml::de::Error) -> Problem {
    let line = line_of(text, error.span().map_or(0, |span: Range<usize>| span.start));
    let message = error.message().trim().replace('\n', "; ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let help = message.starts_with("unknown").then(|| {
        let typed = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        nearest(typed, &known).map(|near| format!("did you mean `{near}`?"))
    });
    Problem { line, message, help: help.flatten() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    profile: BTreeMap<String, Spanned<ProfileText>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    #[serde(default, deserialize_with = "text")]
    cpus: Option<Selector>,
    #[serde(default, deserialize_with = "text")]
    policy: Option<Priority>,
    nice: Option<i8>,
    #[serde(default, deserialize_with = "text")]
    deadline: Option<Deadline>,
    util_min: Option<u32>,
    util_max: Option<u32>,
    #[serde(default)]
    reset_on_fork: bool,
    #[serde(default, deserialize_with = "text")]
    io: Option<IoPriority>,
    autogroup: Option<i8>,
    #[serde(default)]
    allow_rt_lockup: bool,
    #[serde(default, deserialize_with = "text")]
    group_cpus: Option<Selector>,
    quota: Option<f64>,
    weight: Option<u32>,
    #[serde(default)]
    join: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: Option<String>,
    #[serde(rename = "match")]
    matches: Spanned<MatchText>,
    when: Option<Spanned<WhenText>>,
    profile: Spanned<String>,
    hold: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchText {
    comm: Option<String>,
    exe: Option<String>,
    cgroup: Option<String>,
    uid: Option<u32>,
    service: Option<String>,
    thread: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhenText {
    foreground: Option<bool>,
    cpu_pressure: Option<ThresholdText>,
    temperature: Option<ThresholdText>,
    battery: Option<ThresholdText>,
    charging: Option<bool>,
    idle: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdText {
    above: Option<f64>,
    below: Option<f64>,
    until: Option<f64>,
}

/// A value that is written as text and has its own reader; its error gets the line of the value.
fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Turns what was written into what is meant, and gathers what is wrong.
struct Reader<'a> {
    text: &'a str,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.problems.push(Problem { line: line_of(self.text, span.start), message: message.into(), help });
    }

    fn profile(&mut self, profile: Spanned<ProfileText>) -> Option<Profile> {
        let span = profile.span();
        let text = profile.into_inner();
        let before = self.problems.len();
        let mut refuse = |condition: bool, message: &str| {
            if condition {
                self.problem(span.clone(), message, None);
            }
        };
        refuse(text.nice.is_some_and(|nice| !(-20..=19).contains(&nice)), "nice is -20 to 19");
        refuse(text.autogroup.is_some_and(|nice| !(-20..=19).contains(&nice)), "autogroup is -20 to 19");
        refuse(
            text.deadline.is_some() && (text.policy.is_some() || text.nice.is_some()),
            "a deadline excludes policy and nice",
        );
        refuse(
            text.util_min.unwrap_or(0) > text.util_max.unwrap_or(1024) || text.util_max.unwrap_or(0) > 1024,
            "util_min and util_max must be from 0 to 1024, and util_min not above util_max",
        );
        refuse(
            text.quota.is_some_and(|quota| !(quota > 0.0 && quota <= 65536.0)),
            "quota is a number of CPUs above 0, such as 0.5",
        );
        refuse(
            text.weight.is_some_and(|weight| !(1..=10_000).contains(&weight)),
            "weight is 1 to 10000; others have 100",
        );
        let has_group = text.group_cpus.is_some() || text.quota.is_some() || text.weight.is_some();
        refuse(has_group && !text.join.is_empty(), "a profile either joins a group or has limits of its own");
        let priority = match (text.policy, text.nice) {
            (Some(policy), Some(_)) if !policy.policy.has_nice() => {
                refuse(true, &format!("nice means nothing with policy {policy}"));
                None
            }
            (Some(policy), Some(nice)) => Some(Priority { nice, ..policy }),
            (None, Some(nice)) => Some(Priority { policy: SchedulingPolicy::Other, rt: 0, nice }),
            (policy, None) => policy,
        };
        let scheduling = Scheduling {
            priority,
            deadline: text.deadline,
            util_min: text.util_min,
            util_max: text.util_max,
            reset_on_fork: text.reset_on_fork,
        };
        let limits = Limits { quota: text.quota, weight: text.weight, ..Limits::default() };
        let placement = Placement {
            cpus: text.cpus,
            scheduling,
            io: text.io,
            autogroup: text.autogroup,
            allow_rt_lockup: text.allow_rt_lockup,
        };
        let line = line_of(self.text, span.start);
        (self.problems.len() == before).then_some(Profile {
            line,
            placement,
            group_cpus: text.group_cpus,
            limits,
            join: text.join,
        })
    }

    fn rule(&mut self, index: usize, rule: Spanned<RuleText>, profiles: &[&str]) -> Option<Rule> {
        let line = line_of(self.text, rule.span().start);
        let rule = rule.into_inner();
        let before = self.problems.len();
        let profile = rule.profile.get_ref().clone();
        if !profiles.contains(&profile.as_str()) {
            let help = match nearest(&profile, profiles) {
                Some(near) => format!("did you mean `{near}`?"),
                None if profiles.is_empty() => format!("add [profile.{profile}]"),
                None => format!("there are {}", profiles.join(", ")),
            };
            self.problem(rule.profile.span(), format!("there is no profile `{profile}`"), Some(help));
        }
        let span = rule.matches.span();
        let MatchText { comm, exe, cgroup, uid, service, thread } = rule.matches.into_inner();
        let matches = Match { comm, exe, cgroup, uid, service, thread };
        if matches.is_empty() {
            let help = "to claim every process, write match = { comm = \"*\" }".to_owned();
            self.problem(span.clone(), "`match` is empty", Some(help));
        }
        // The kernel cuts names, so that a longer one would never match.
        for name in [&matches.comm, &matches.thread].into_iter().flatten() {
            if name.len() > 15 && !name.contains('*') {
                let cut: String = name
                    .char_indices()
                    .take_while(|(at, c)| at + c.len_utf8() <= 15)
                    .map(|(_, c)| c)
                    .collect();
                let help = Some(format!("write `{cut}`, or match `exe`"));
                self.problem(
                    span.clone(),
                    format!("`{name}` is longer than the 15 bytes that the kernel keeps"),
                    help,
                );
            }
        }
        let when = match rule.when {
            Some(when) => self.when(when),
            None => When::default(),
        };
        let hold = match &rule.hold {
            Some(hold) => duration(hold.get_ref()).unwrap_or_else(|message| {
                self.problem(hold.span(), message, None);
                Duration::ZERO
            }),
            // Figures move all the time; what a person does takes effect at once.
            None if when.needs_sensors() => Duration::from_secs(2),
            None => Duration::ZERO,
        };
        let name = rule.name.unwrap_or_else(|| format!("rule {}", index + 1));
        (self.problems.len() == before).then_some(Rule { name, line, matches, when, profile, hold })
    }

    fn when(&mut self, when: Spanned<WhenText>) -> When {
        let span = when.span();
        let text = when.into_inner();
        let mut threshold = |what: &str, written: Option<ThresholdText>| match written {
            None => None,
            Some(ThresholdText { above: Some(above), below: None, until })
                if until.is_none_or(|until| until <= above) =>
            {
                Some(Threshold::Above { above, until: until.unwrap_or(above - above.abs() * 0.1) })
            }
            Some(ThresholdText { above: None, below: Some(below), until })
                if until.is_none_or(|until| until >= below) =>
            {
                Some(Threshold::Below { below, until: until.unwrap_or(below + below.abs() * 0.1) })
            }
            Some(_) => {
                let help = "write { above = 80, until = 70 } or { below = 20, until = 30 }";
                self.problem(span.clone(), format!("`{what}` is not a threshold"), Some(help.to_owned()));
                None
            }
        };
        let cpu_pressure = threshold("cpu_pressure", text.cpu_pressure);
        let temperature = threshold("temperature", text.temperature);
        let battery = threshold("battery", text.battery);
        let idle = text.idle.and_then(|idle| {
            duration(&idle).map_err(|message| self.problem(span.clone(), message, None)).ok()
        });
        When {
            foreground: text.foreground,
            cpu_pressure,
            temperature,
            battery,
            charging: text.charging,
            idle,
        }
    }

    /// Whatever else a rule matches, a process says of itself: its names, its services, its foreground; and any user
    /// can start a program.
    /// Real time can stop a CPU, so only a user is given it.
    fn real_time(&mut self, rules: &[Rule], profiles: &BTreeMap<String, Profile>) {
        for rule in rules.iter().filter(|rule| rule.matches.uid.is_none()) {
            if profiles.get(&rule.profile).is_some_and(Profile::is_real_time) {
                self.problems.push(Problem {
                    line: rule.line,
                    message: format!(
                        "rule `{}` grants real time (profile `{}`) to any process that takes a name it matches",
                        rule.name, rule.profile
                    ),
                    help: Some("name the user who may have it: match = { ..., uid = 1000 }".to_owned()),
                });
            }
        }
    }

    /// A rule after one that always takes the same processes can never decide.
    fn conflicts(&mut self, rules: &[Rule]) {
        for (index, later) in rules.iter().enumerate() {
            let shadow = rules[..index].iter().find(|earlier| {
                let takes_all = earlier.matches == Match { comm: Some("*".to_owned()), ..Match::default() };
                let same = earlier.matches == later.matches;
                (takes_all && earlier.when.is_empty())
                    || (same && (earlier.when.is_empty() || earlier.when == later.when))
            });
            if let Some(earlier) = shadow {
                self.problems.push(Problem {
                    line: later.line,
                    message: format!(
                        "rule `{}` can never decide: rule `{}` (line {}) takes the same processes first",
                        later.name, earlier.name, earlier.line
                    ),
                    help: Some("put the rule with more conditions first, or remove one".to_owned()),
                });
            }
        }
    }
}
