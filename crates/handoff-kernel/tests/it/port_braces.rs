//! Statements without braces: a second one does not go beside the only one that they hold.

use handoff_kernel::port::HunkOutcome;

use crate::port_honest::{hunk, patch, quiet, read, run, tree};

/// As in Linux 3.4: the `if` holds one statement. What was made for newer kernels has braces there.
const BARE: &str = "static void update_top_cache_domain(int cpu)\n{\n\tstruct sched_domain *sd;\n\tint id = cpu;\n\n\tsd = highest_flag_domain(cpu, SD_SHARE_PKG_RESOURCES);\n\tif (sd)\n\t\tid = cpumask_first(sched_domain_span(sd));\n\n\trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n\tper_cpu(sd_llc_id, cpu) = id;\n}\n";

fn refused(lines: &str, words: &[&str]) {
    let folder = tree(&[("x.c", BARE)]);
    let change = patch(&[(6, "static void update_top_cache_domain(int cpu)", lines)]);
    let report = run(&folder, &change, &quiet());
    let hunk = hunk(&report, 1);
    assert_eq!(hunk.outcome, HunkOutcome::Conflict, "{report}\n{}", read(&folder, "x.c"));
    let needs = hunk.needs.as_deref().unwrap_or_default();
    for word in words {
        assert!(needs.contains(word), "{needs}");
    }
    assert_eq!(read(&folder, "x.c"), BARE);
}

#[test]
fn a_second_statement_does_not_go_behind_an_if_without_braces() {
    refused(
        " \tsd = highest_flag_domain(cpu, SD_SHARE_PKG_RESOURCES);\n \tif (sd) {\n \t\tid = cpumask_first(sched_domain_span(sd));\n+\t\tsize = cpumask_weight(sched_domain_span(sd));\n \t}\n \n \trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n",
        &["`if (sd)` (line 7) has no braces here"],
    );
}

#[test]
fn nor_in_front_of_its_only_one() {
    refused(
        " \tsd = highest_flag_domain(cpu, SD_SHARE_PKG_RESOURCES);\n \tif (sd) {\n+\t\tsize = cpumask_weight(sched_domain_span(sd));\n \t\tid = cpumask_first(sched_domain_span(sd));\n \t}\n \n \trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n",
        &["`if (sd)` (line 7) has no braces here"],
    );
}

#[test]
fn the_only_statement_is_not_taken_away() {
    refused(
        " \tsd = highest_flag_domain(cpu, SD_SHARE_PKG_RESOURCES);\n \tif (sd) {\n-\t\tid = cpumask_first(sched_domain_span(sd));\n \t\tsd_update(sd);\n \t}\n \n \trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n",
        &["`if (sd)` (line 7) has no braces here", "lose"],
    );
}

#[test]
fn braces_that_the_patch_brings_are_enough() {
    // The older `if` is what the patch gives braces to; a line of context differs here.
    let folder = tree(&[("x.c", BARE)]);
    let lines = " \tsd = highest_flag_domain(cpu, SD_SHARE_LLC);\n-\tif (sd)\n+\tif (sd) {\n \t\tid = cpumask_first(sched_domain_span(sd));\n+\t\tsize = cpumask_weight(sched_domain_span(sd));\n+\t}\n \n \trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n";
    let report =
        run(&folder, &patch(&[(6, "static void update_top_cache_domain(int cpu)", lines)]), &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Fuzzy, "{report}");
    assert!(read(&folder, "x.c").contains("\tif (sd) {\n\t\tid = cpumask_first(sched_domain_span(sd));\n\t\tsize = cpumask_weight(sched_domain_span(sd));\n\t}\n\n\trcu"), "{}", read(&folder, "x.c"));
}

#[test]
fn an_else_and_an_if_on_two_lines_are_one_header() {
    let file = BARE.replace("\tif (sd)\n", "\tif (!sd) {\n\t\treturn;\n\t} else\n\tif (sd->a) {\n\t\tone(sd);\n\t} else {\n\t\ttwo(sd);\n\t}\n\n\tif (sd)\n");
    let folder = tree(&[("x.c", &file)]);
    let lines = " \t\tid = cpumask_first(sched_domain_span(sd));\n \n-\trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n+\tif (id) {\n+\t\ta(id);\n+\t} else\n+\tif (sd) {\n+\t\tb(id);\n+\t} else\n+\tif (cpu) {\n+\t\tc(id);\n+\t}\n \tper_cpu(sd_llc_id, cpu) = id;\n }\n";
    let change = patch(&[(12, "static void update_top_cache_domain(int cpu)", lines)]);
    let report = run(&folder, &change, &quiet());
    assert_eq!(hunk(&report, 1).outcome, HunkOutcome::Moved, "{report}");
}

#[test]
fn what_follows_braces_does_not_go_between_them() {
    let braces = BARE.replace(
        "\tif (sd)\n\t\tid = cpumask_first(sched_domain_span(sd));\n",
        "\tif (sd) {\n\t\tid = cpumask_first(sched_domain_span(sd));\n\t\tbusy = sd->parent;\n\t}\n",
    );
    let folder = tree(&[("x.c", &braces)]);
    let lines = " \tsd = highest_flag_domain(cpu, SD_SHARE_PKG_RESOURCES);\n \tif (sd)\n \t\tid = cpumask_first(sched_domain_span(sd));\n+\tsize = cpumask_weight(cpu_mask(cpu));\n \n \trcu_assign_pointer(per_cpu(sd_llc, cpu), sd);\n";
    let report =
        run(&folder, &patch(&[(6, "static void update_top_cache_domain(int cpu)", lines)]), &quiet());
    let after = read(&folder, "x.c");
    let within = after.contains("sched_domain_span(sd));\n\tsize");
    assert!(!within, "{report}\n{after}");
}
