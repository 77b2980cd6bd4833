//! `perf stat -j`: a JSON object a line, an event each (`perf-stat(1)`, "JSON FORMAT"). Repeated runs that
//! are appended to one file (`-o FILE --append`) repeat their events.

use serde_json::Value;

use super::{Format, ImportError, ImportedResults, SeriesBuilder};
use crate::stats::judge::Direction;

pub(super) fn read(text: &str) -> Result<ImportedResults, ImportError> {
    let mut gathered = SeriesBuilder::default();
    let mut left_out: Vec<String> = Vec::new();
    let mut events = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: String| ImportError::Malformed {
            format: "perf stat -j",
            what: format!("line {}: {what}", index + 1),
        };
        let value: Value = match serde_json::from_str(line) {
            Ok(value @ Value::Object(_)) => value,
            // Only once it is sure that it is perf's: until then the text is anything.
            Err(error) if events > 0 => return Err(wrong(error.to_string())),
            _ => return Err(ImportError::Unknown),
        };
        let (Some(event), Some(count)) = (value["event"].as_str(), value.get("counter-value")) else {
            // Lines of metrics only.
            if value.get("metric-value").is_some() {
                continue;
            }
            return Err(ImportError::Unknown);
        };
        events += 1;
        let unit = value["unit"].as_str().unwrap_or_default();
        let count = match count {
            Value::String(count) => count.trim(),
            _ => return Err(wrong("the counter-value is no text".to_owned())),
        };
        if count.starts_with('<') {
            let reason = format!("{event}: {count}");
            if !left_out.contains(&reason) {
                left_out.push(reason);
            }
            continue;
        }
        let number: f64 = count
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| wrong(format!("{count:?} is no number")))?;
        // Of counts nobody knows which way is better; times are better short.
        let is_time = ["msec", "ns", "us", "ms", "s"].contains(&unit);
        gathered.add(event, unit, is_time.then_some(Direction::Lower), number);
    }
    if events == 0 {
        return Err(ImportError::Unknown);
    }
    Ok(ImportedResults { format: Format::PerfStat, series: gathered.0, left_out })
}
