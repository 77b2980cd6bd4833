//! The statistics against reference values: SciPy 1.17.1, and exact enumeration of whole numbers for
//! the permutation, Mann-Whitney and sign-flip p-values; bootstrap of 200,000 resamples.

use handoff_lab::stats::{bootstrap, describe, effect, paired, permute, power, rank, unpaired};

fn autocorking() -> (Vec<f64>, Vec<f64>) {
    let text = include_str!("../data/autocorking_cpu_utilisation.csv");
    text.lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<f64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
            (fields[1], fields[2])
        })
        .unzip()
}

fn without_rows_12_and_22() -> (Vec<f64>, Vec<f64>) {
    let (mut before, mut after) = autocorking();
    for row in [21, 11] {
        before.remove(row);
        after.remove(row);
    }
    (before, after)
}

fn wake_affine(readers: f64) -> (Vec<f64>, Vec<f64>) {
    let text = include_str!("../data/wake_affine_hackbench_seconds.csv");
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<f64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
            (fields[1] == readers).then_some((fields[4], fields[5]))
        })
        .unzip()
}

/// One column of the table of reference values.
struct Reference {
    data: (Vec<f64>, Vec<f64>),
    means: [f64; 2],
    sds: [f64; 2],
    change_of_means: f64,
    ratio_of_medians: f64,
    welch: [f64; 3],
    bootstrap_means: [f64; 2],
    bootstrap_medians: [f64; 2],
    permutation: f64,
    mann_whitney: [f64; 2],
    paired: [f64; 2],
    wilcoxon: f64,
    hedges_g: f64,
    cliffs_delta: f64,
    hodges_lehmann: f64,
    interval: Option<[f64; 2]>,
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64, relative: f64) {
    assert!((got - expected).abs() <= relative * expected.abs(), "{what}: {got} is not {expected}");
}

fn check(reference: &Reference) {
    let (before, after) = &reference.data;
    let differences: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    // Printed with 3 to 6 digits: half of the last one.
    let digits = 5e-5;
    for (values, index) in [(before, 0), (after, 1)] {
        close("mean", describe::mean(values), reference.means[index], digits);
        close("sd", describe::sd(values), reference.sds[index], digits);
    }
    close("change", describe::mean(after) / describe::mean(before) - 1.0, reference.change_of_means, 1e-4);
    close("medians", describe::median(after) / describe::median(before), reference.ratio_of_medians, digits);
    let welch = unpaired::welch(before, after, 0.95);
    close("t", welch.t, reference.welch[0], digits);
    close("df", welch.df, reference.welch[1], digits);
    close("p", welch.p, reference.welch[2], 2e-4);
    let p = permute::means_differ(before, after);
    assert!(p.exact);
    close("permutation", p.p, reference.permutation, 1e-6);
    let mann_whitney = unpaired::mann_whitney(before, after);
    close("U exact", mann_whitney.exact.expect("small groups"), reference.mann_whitney[0], 1e-3);
    close("U asymptotic", mann_whitney.asymptotic, reference.mann_whitney[1], 1e-3);
    close("paired t", paired::t_test(&differences, 0.95).p, reference.paired[0], 1e-3);
    let flips = permute::sign_flip(&differences);
    assert!(flips.exact);
    close("sign flip", flips.p, reference.paired[1], 1e-4);
    close("Wilcoxon", paired::wilcoxon(&differences), reference.wilcoxon, 1e-4);
    close("g", effect::hedges_g(before, after), reference.hedges_g, digits);
    close("delta", effect::cliffs_delta(before, after), reference.cliffs_delta, digits);
    let (ratio, interval) = unpaired::hodges_lehmann_ratio(before, after, 0.95);
    close("HL", ratio, reference.hodges_lehmann, 1e-4);
    if let Some([low, high]) = reference.interval {
        close("HL low", interval.low, low, 1e-4);
        close("HL high", interval.high, high, 1e-4);
    }
    // A quarter of the reference's resamples: twice its random error, still inside the tolerance.
    let near = |what: &str, got: f64, expected: f64| {
        assert!((got - expected).abs() <= 0.002, "{what}: {got} is not {expected}");
    };
    let means = bootstrap::ratio(before, after, bootstrap::mean, 50_000, 0.95, 1);
    near("bootstrap of means, low", means.low, reference.bootstrap_means[0]);
    near("bootstrap of means, high", means.high, reference.bootstrap_means[1]);
    let medians = bootstrap::ratio(before, after, bootstrap::median, 50_000, 0.95, 1);
    near("bootstrap of medians, low", medians.low, reference.bootstrap_medians[0]);
    near("bootstrap of medians, high", medians.high, reference.bootstrap_medians[1]);
}

#[test]
fn autocorking_all_rows() {
    check(&Reference {
        data: autocorking(),
        means: [0.087_409_1, 0.080_000_0],
        sds: [0.015_753_0, 0.014_461_8],
        change_of_means: -0.084_76,
        ratio_of_medians: 0.883_98,
        welch: [-1.625_08, 41.696, 0.111_681],
        bootstrap_means: [0.8248, 1.0176],
        bootstrap_medians: [0.8187, 1.0120],
        permutation: 0.114_090_50,
        mann_whitney: [0.073_105_3, 0.074_263_1],
        paired: [0.096_767, 0.098_770],
        wilcoxon: 0.022_001,
        hedges_g: -0.481_18,
        cliffs_delta: -0.316_12,
        hodges_lehmann: 0.9039,
        interval: Some([0.8173, 1.0119]),
    });
}

#[test]
fn autocorking_without_the_two_rows() {
    check(&Reference {
        data: without_rows_12_and_22(),
        means: [0.089_45, 0.080_45],
        sds: [0.014_332_4, 0.010_520_5],
        change_of_means: -0.100_61,
        ratio_of_medians: 0.864_86,
        welch: [-2.263_84, 34.868, 0.029_913],
        bootstrap_means: [0.8254, 0.9855],
        bootstrap_medians: [0.8112, 0.9881],
        permutation: 0.030_206_32,
        mann_whitney: [0.023_033_4, 0.024_643_2],
        paired: [0.006_678, 0.007_812_5],
        wilcoxon: 0.005_790_7,
        hedges_g: -0.701_67,
        cliffs_delta: -0.4175,
        hodges_lehmann: 0.8817,
        interval: None,
    });
}

#[test]
fn wake_affine_5_to_50() {
    check(&Reference {
        data: wake_affine(50.0),
        means: [1.1846, 1.0366],
        sds: [0.036_019_1, 0.055_377_9],
        change_of_means: -0.124_94,
        ratio_of_medians: 0.856_72,
        welch: [-7.084_59, 15.459, 3.138e-6],
        bootstrap_means: [0.8448, 0.9076],
        bootstrap_medians: [0.8335, 0.9192],
        permutation: 4.0 / 184_756.0,
        mann_whitney: [2.165e-5, 2.461e-4],
        paired: [5.953e-5, 2.0 / 1024.0],
        wilcoxon: 2.0 / 1024.0,
        hedges_g: -3.034_45,
        cliffs_delta: -0.98,
        hodges_lehmann: 0.8688,
        interval: Some([0.8363, 0.9182]),
    });
}

#[test]
fn wake_affine_5_to_100() {
    check(&Reference {
        data: wake_affine(100.0),
        means: [3.2737, 2.7915],
        sds: [0.279_693_1, 0.041_995_4],
        change_of_means: -0.147_30,
        ratio_of_medians: 0.858_68,
        welch: [-5.391_43, 9.4056, 3.766e-4],
        bootstrap_means: [0.8080, 0.8935],
        bootstrap_medians: [0.8309, 0.9157],
        permutation: 2.0 / 184_756.0,
        mann_whitney: [1.083e-5, 1.827e-4],
        paired: [3.323e-4, 2.0 / 1024.0],
        wilcoxon: 2.0 / 1024.0,
        hedges_g: -2.309_24,
        cliffs_delta: -1.0,
        hodges_lehmann: 0.8591,
        interval: Some([0.8281, 0.9094]),
    });
}

#[test]
fn the_drift_of_5_to_100() {
    let (before, _) = wake_affine(100.0);
    let order: Vec<f64> = (0..10).map(f64::from).collect();
    let (rho, p) = rank::spearman(&order, &before);
    close("rho", rho, 0.891, 1e-3);
    close("p", p, 0.000_54, 1e-2);
}

#[test]
fn the_power_of_the_autocorking_study() {
    let (before, after) = autocorking();
    let welch = unpaired::welch(&before, &after, 0.95);
    let d = power::effect_of(&welch, before.len());
    assert!((power::power_of_groups(d, before.len(), 0.05) - 0.36).abs() < 0.005);
    assert_eq!(power::values_per_arm(d, 0.05, 0.8), Some(67));
}
