//! Bad policies get their line, what is wrong and what to write instead.

use handoff_placement::Topology;
use handoff_policy::Policy;
use proptest::prelude::*;

const GOOD: &str = r#"
[profile.fg]
cpus = "all"
nice = -5

[profile.bg]
policy = "batch"
nice = 10
io = "idle"
weight = 20

[[rule]]
match = { comm = "map-*", uid = 1000 }
when = { foreground = true }
profile = "fg"

[[rule]]
name = "rest"
match = { comm = "map-*", uid = 1000 }
profile = "bg"
hold = "500 ms"
"#;

#[test]
fn a_good_policy_is_read() {
    let policy = Policy::parse(GOOD).unwrap();
    assert_eq!(policy.profiles["bg"].placement.scheduling.priority.unwrap().to_string(), "batch:10");
    assert_eq!(policy.rules[0].name, "rule 1");
    assert_eq!((policy.rules[1].name.as_str(), policy.rules[1].line), ("rest", 17));
    assert_eq!(policy.rules[1].hold.as_millis(), 500);
    assert_eq!(policy.check_on(&Topology::read().unwrap()), []);
}

/// Replaces one line of the good policy; gives what is said of the result.
fn spoil(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Policy::parse(&GOOD.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn mistakes_are_told_with_their_line_and_a_suggestion() {
    for (from, to, line, says) in [
        ("cpus = \"all\"", "cpu = \"all\"", 3, "did you mean `cpus`"),
        ("cpus = \"all\"", "cpus = \"bigg\"", 3, "did you mean `big`"),
        ("cpus = \"all\"", "cpus = 3", 3, "expected a string"),
        ("nice = -5", "nice = -25", 2, "nice is -20 to 19"),
        ("policy = \"batch\"", "policy = \"fifo:100\"", 7, "not a priority"),
        ("policy = \"batch\"", "policy = \"fifo:10\"", 6, "nice means nothing"),
        ("io = \"idle\"", "io = \"slow\"", 9, "not an I/O priority"),
        ("weight = 20", "weight = 0", 6, "weight is 1 to 10000"),
        ("weight = 20", "quota = nan", 6, "quota is a number"),
        ("profile = \"fg\"", "profile = \"gf\"", 15, "did you mean `fg`"),
        ("profile = \"bg\"", "profile = \"turbo\"", 20, "there are bg, fg"),
        ("{ foreground = true }", "{ forground = true }", 14, "did you mean `foreground`"),
        ("{ foreground = true }", "{ battery = { above = 20, until = 30 } }", 14, "not a threshold"),
        ("{ foreground = true }", "{ idle = \"soon\" }", 14, "not a time"),
        ("hold = \"500 ms\"", "hold = \"500\"", 21, "not a time"),
        ("{ comm = \"map-*\", uid = 1000 }", "{ }", 13, "`match` is empty"),
        (
            "{ comm = \"map-*\", uid = 1000 }",
            "{ comm = \"navigation-service\" }",
            13,
            "write `navigation-serv`",
        ),
        ("[[rule]]", "[[rules]]", 12, "did you mean `rule`"),
        ("when = { foreground = true }\n", "", 16, "can never decide: rule `rule 1` (line 12)"),
    ] {
        let said = spoil(from, to);
        assert!(said.contains(says), "{to}: {said}");
        assert!(said.contains(&format!("line {line}:")), "{to} is on line {line}: {said}");
    }
}

#[test]
fn real_time_is_given_to_a_user_and_not_to_a_name() {
    let policy = |grants: &str, matches: &str| {
        format!("[profile.p]\n{grants}\n[[rule]]\nmatch = {{ {matches} }}\nprofile = \"p\"\n")
    };
    for grants in ["policy = \"fifo:10\"", "policy = \"rr:1\"", "deadline = \"2000/10000\""] {
        for matches in
            ["service = \"camera*\"", "comm = \"camera\"", "exe = \"/usr/bin/camera\"", "cgroup = \"/a\""]
        {
            let said = Policy::parse(&policy(grants, matches)).expect_err(matches).to_string();
            assert!(
                said.starts_with("line 3: rule `rule 1` grants real time") && said.contains("uid"),
                "{said}"
            );
            Policy::parse(&policy(grants, &format!("{matches}, uid = 1000"))).expect("a user is named");
        }
    }
    Policy::parse(&policy("nice = -5", "service = \"camera*\"")).expect("no real time");
}

#[test]
fn several_problems_are_told_at_once() {
    let text = GOOD.replace("nice = -5", "nice = 99").replace("hold = \"500 ms\"", "hold = \"x\"");
    let problems = Policy::parse(&text).unwrap_err();
    // The rule that names the broken profile is not blamed for it.
    assert_eq!(problems.0.len(), 2, "{problems}");
    let text = GOOD
        .replace("cpus = \"all\"", "cpu = \"all\"")
        .replace("policy = \"batch\"", "policy = \"bacth\"")
        .replace("weight = 20", "weight = 0")
        .replace("foreground = true", "forground = true")
        .replace("profile = \"bg\"", "profile = \"bgg\"")
        .replace("hold = \"500 ms\"", "hodl = \"500 ms\"");
    let problems = Policy::parse(&text).unwrap_err();
    let lines: Vec<usize> = problems.0.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 6, 7, 14, 20, 21], "{problems}");
    // What is in a table whose name is wrong is not said of the one above, and what stands behind an error in the
    // TOML itself is not said at all.
    let lost = Policy::parse(&GOOD.replace("[profile.bg]", "[profil.bg]")).unwrap_err().to_string();
    assert!(lost.contains("line 6: unknown field `profil`") && !lost.contains("duplicate"), "{lost}");
    let broken = Policy::parse(&GOOD.replacen("nice = -5", "nice = = -5", 1)).unwrap_err();
    assert_eq!(broken.0.len(), 1, "{broken}");
}

#[test]
fn what_this_machine_cannot_give_is_told_with_its_profile() {
    let text = GOOD
        .replace("cpus = \"all\"", "cpus = \"5000\"")
        .replace("weight = 20", "join = [\"/no/such/group\"]");
    let problems = Policy::parse(&text).unwrap().check_on(&Topology::read().unwrap());
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        said.iter().any(|said| said.contains("line 2: profile `fg`: CPUs 5000 are not there")),
        "{said:?}"
    );
    assert!(said.iter().any(|said| said.contains("/no/such/group is not a control group")), "{said:?}");
}

#[test]
fn the_policies_to_start_from_are_good() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/policies");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let policy = Policy::parse(&std::fs::read_to_string(&path).unwrap());
        let policy = policy.unwrap_or_else(|problems| panic!("{}: {problems}", path.display()));
        let used = |name: &String| policy.rules.iter().any(|rule| rule.profile == *name);
        assert!(policy.profiles.keys().all(used), "{}: a profile that no rule gives", path.display());
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn an_empty_policy_is_told_what_it_lacks() {
    assert!(Policy::parse("").unwrap_err().to_string().contains("add [[rule]]"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_damage_is_read_or_refused(at in 0usize..400, cut in 0usize..30, put in "[\\[\\]={}\"a-z0-9 .\n-]{0,10}|\\PC{0,4}") {
        let at = at.min(GOOD.len());
        let end = (at + cut).min(GOOD.len());
        let text = format!("{}{put}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(problems) = Policy::parse(&text) {
            let lines = text.lines().count() + 1;
            prop_assert!(problems.0.iter().all(|problem| (1..=lines).contains(&problem.line)), "{problems}");
        }
    }
}
