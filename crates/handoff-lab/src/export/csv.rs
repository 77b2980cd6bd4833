//! Every value of every run as CSV: a line a run, a column a metric, with its unit: `wall (s)`.

use std::collections::BTreeSet;

use crate::experiment::result::ExperimentResult;

/// All runs of an experiment in the order in which they ran.
pub fn runs(result: &ExperimentResult) -> Result<Vec<u8>, csv::Error> {
    let samples = || result.rounds.iter().flat_map(|round| round.samples.values());
    let metrics: BTreeSet<&str> =
        samples().flat_map(|sample| sample.values.keys().map(String::as_str)).collect();
    let heading = |metric: &&str| match result.unit_of(metric) {
        "" => (*metric).to_owned(),
        unit => format!("{metric} ({unit})"),
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let start = ["round", "position", "arm"].map(str::to_owned);
    writer.write_record(start.into_iter().chain(metrics.iter().map(heading)).chain(["flags".to_owned()]))?;
    for round in &result.rounds {
        for (position, arm) in round.order.iter().enumerate() {
            let Some(sample) = round.samples.get(arm) else { continue };
            let start = [round.number.to_string(), (position + 1).to_string(), arm.name().to_owned()];
            let values = metrics
                .iter()
                .map(|metric| sample.values.get(*metric).map(f64::to_string).unwrap_or_default());
            writer.write_record(start.into_iter().chain(values).chain([sample.flags.join("; ")]))?;
        }
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}
