use std::path::Path;

use super::*;
use crate::experiment::guest::Boot;
use handoff_guest::Kernel;
use proptest::prelude::*;

const GOOD: &str = r#"
title = "Spinning more"
[workload]
name = "spin"
parameters = { tasks = 1, items = 2 }
[baseline]
name = "short"
[change]
name = "long"
parameters = { steps = 2000 }
proof = [{ counter = "items", expect = ">= 1" }]
[metric]
name = "wall"
[[secondary]]
name = "cpu"
better = "lower"
margin = 0.05
[rounds]
looks = [10, 20]
seed = 7
"#;

fn parse(text: &str) -> Result<Experiment, FileError> {
    Experiment::parse(Path::new("x.toml"), text).map(|mut all| all.remove(0))
}

#[test]
fn a_sweep_is_one_experiment_a_value() {
    let swept = format!("{GOOD}[sweep]\nparameter = \"items\"\nvalues = [3, 30]\n");
    let all = Experiment::parse(Path::new("x.toml"), &swept).expect("good");
    let titles: Vec<&str> = all.iter().map(|experiment| experiment.title.as_str()).collect();
    assert_eq!(titles, ["Spinning more, items = 3", "Spinning more, items = 30"]);
    assert_ne!(all[0].text, all[1].text, "one is not resumed as the other");
    let Work::Workload(workload) = &all[1].arms[0].work else { panic!("a workload") };
    assert!(serde_json::to_string(workload).expect("serialises").contains("\"items\":30"));
    for (from, to, says) in [
        ("[3, 30]", "[]", "1 to 100 values"),
        ("[3, 30]", "[3, \"many\"]", "invalid type"),
        ("\"items\"\nvalues", "\"itemss\"\nvalues", "unknown field `itemss`"),
    ] {
        let error = Experiment::parse(Path::new("x.toml"), &swept.replace(from, to)).expect_err(to);
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn a_guest_is_checked_as_well() {
    let guest = |guest: &str| parse(&format!("{GOOD}[guest]\n{guest}\n"));
    let plain = guest("smp = \"4,sockets=2,cores=2\"").expect("good").guests.expect("a guest");
    assert_eq!(plain.arms[0].cpus(), "4,sockets=2,cores=2 CPUs");
    let counted = guest("icount = true").expect("good").guests.expect("a guest");
    assert_eq!(counted.arms[0].cpus(), "1 CPU");
    assert!(counted.count_instructions() && !plain.count_instructions());
    assert_eq!(plain.boot, Boot::Once);
    for (text, says) in [
        ("smp = \"four\"", "does not describe CPUs"),
        ("smp = \"4,socks=2\"", "does not describe CPUs"),
        ("memory_mib = 1", "128 MiB or more"),
        ("accel = \"xen\"", "unknown variant `xen`"),
        ("kernel = \"newest\"", "none of \"distribution\""),
        ("kernel = { image = \"/no/such/file\" }", "there is no file"),
        ("kernel = { package = \"x\", image = \"y\" }", "a kernel has"),
        ("append = [\"a\\nb\"]", "one line"),
        ("color = 1", "unknown field `color`"),
    ] {
        let error = guest(text).expect_err(text);
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.line >= 20, "{text}: {error}");
    }
    // Settings and proofs are the guest's: this machine need not have them.
    let there = GOOD.replace("name = \"long\"", "name = \"long\"\nsysctl.\"kernel.no_such_thing\" = 1");
    assert!(parse(&there).is_err());
    assert!(parse(&format!("{there}[guest]\n")).is_ok());
}

#[test]
fn arms_with_other_kernels_are_booted_for_each_run() {
    let own = GOOD.replace("name = \"long\"", "name = \"long\"\nguest.kernel = \"rt\"");
    let guests = parse(&format!("{own}[guest]\n")).expect("good").guests.expect("guests");
    assert_eq!((guests.boot, &guests.arms[1].kernel), (Boot::Each, &Kernel::RealTime));
    let error = parse(&format!("{own}[guest]\nboot = \"once\"\n")).expect_err("no replicate");
    assert!(error.message.contains("a boot is the replicate"), "{error}");
    assert!(parse(&own).expect_err("no [guest]").message.contains("there is no [guest]"));
}

#[test]
fn a_good_file_says_what_it_means() {
    let experiment = parse(GOOD).expect("good");
    assert_eq!(experiment.rounds.stopping, Stopping::Looks { looks: vec![10, 20] });
    assert_eq!((experiment.rounds.seed, experiment.secondary[0].margin), (7, 0.05));
    let Work::Workload(workload) = &experiment.arms[1].work else { panic!("a workload") };
    let text = serde_json::to_string(workload).expect("serialises");
    assert!(text.contains("\"steps\":2000") && text.contains("\"tasks\":1"), "{text}");
    let task = experiment.arms[0].task(Path::new("/bin/handoff"), Duration::from_secs(1));
    assert_eq!(task.argv[..3], ["/bin/handoff", "workload", "spec"]);
    assert!(task.input.is_some_and(|spec| spec.contains("\"workload\":\"spin\"")));
    assert_eq!(experiment.arm(ArmId::Control).name, "short");
}

#[test]
fn mistakes_have_line_and_column() {
    let mut wrong = Vec::new();
    for (from, to, line, column, says) in [
        ("seed = 7", "sede = 7", 20, 1, "unknown field `sede`"),
        ("name = \"spin\"", "name = \"spinn\"", 4, 8, "there is no workload \"spinn\""),
        ("steps = 2000", "stepps = 2000", 10, 16, "unknown field `stepps`"),
        ("margin = 0.05", "margin = 5", 17, 1, "margin is 5"),
        ("looks = [10, 20]", "looks = [20, 10]", 19, 1, "rising numbers"),
        ("looks = [10, 20]", "rounds = 3", 19, 1, "6 to 10000"),
        ("expect = \">= 1\"", "expect = \"often\"", 11, 40, "none of"),
        ("name = \"long\"", "name = \"short\"", 8, 1, "same name"),
        ("better = \"lower\"", "better = \"less\"", 16, 10, "unknown variant `less`"),
        ("name = \"cpu\"", "name = \"wall\"", 14, 1, "primary metric already"),
        ("title = \"Spinning more\"", "title = ", 2, 9, ""),
        ("[metric]", "[metrics]", 12, 2, "unknown field `metrics`"),
        ("name = \"long\"", "name = \"long\"\nnice = 40", 10, 8, "from -20 to 19"),
        ("name = \"long\"", "name = \"long\"\ncpus = \"x\"", 10, 8, ""),
        ("name = \"long\"", "name = \"long\"\nsysctl.\"a..b\" = 1", 10, 8, "not the name of a sysctl"),
        ("name = \"long\"", "name = \"long\"\nsysctl.\"kernel.no_such\" = 1", 10, 8, "cannot read"),
        ("name = \"long\"", "name = \"long\"\nfile.\"/etc/passwd\" = 1", 10, 6, "not below /sys"),
        ("name = \"long\"", "name = \"long\"\ncommand = \"true\"", 10, 11, "not both"),
    ] {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from} is in the file");
        let error = parse(&text).expect_err(to);
        let as_said = error.message.contains(says) && (error.line, error.column) == (line, column);
        if !(as_said && error.to_string().starts_with(&format!("x.toml:{line}:{column}: "))) {
            wrong.push(format!("{to} should be {line}:{column} {says:?}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_and_their_figures() {
    let text = r#"
title = "t"
workload.figures = [{ name = "rate", regex = "rate ([0-9]+)", unit = "1/s" }]
[baseline]
name = "a"
command = "echo 'rate 3'"
[change]
name = "b"
command = ["echo", "rate 4"]
[metric]
name = "rate"
better = "higher"
"#;
    let experiment = parse(text).expect("good");
    let task = experiment.arms[0].task(Path::new("h"), Duration::from_secs(1));
    assert_eq!(task.argv, ["echo", "rate 3"]);
    for (from, to, says) in [
        ("rate ([0-9]+)", "rate [0-9]+", "no group"),
        ("regex = \"rate ([0-9]+)\"", "json = \"rate\"", "begins with /"),
        ("regex = \"rate ([0-9]+)\", ", "", "either"),
        ("\"echo 'rate 3'\"", "\"echo 'rate\"", "not closed"),
        ("[\"echo\", \"rate 4\"]", "[]", "empty"),
    ] {
        let error = parse(&text.replace(from, to)).expect_err(to);
        assert!(error.message.contains(says), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_damage_is_an_error_or_a_file_and_never_a_panic(
        at in 0_usize..400, cut in 0_usize..20, insert in "[\"a-z\\[\\]=\n{}é0-9 .]{0,6}"
    ) {
        let mut text: Vec<char> = GOOD.chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, insert.chars());
        if let Err(error) = parse(&text.iter().collect::<String>()) {
            prop_assert!(error.line >= 1 && error.column >= 1);
            prop_assert!(!error.message.is_empty());
        }
    }
}
