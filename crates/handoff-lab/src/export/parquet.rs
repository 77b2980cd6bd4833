//! Every value of every run as Parquet, for pandas, DuckDB, Polars, R and everything else that reads it.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::experiment::result::ExperimentResult;

/// The columns: a row a value, as the table `sample` of the store has them, with the unit of the metric.
const SCHEMA: &str = "message runs {
    REQUIRED INT32 round;
    REQUIRED BINARY arm (UTF8);
    REQUIRED INT32 position;
    REQUIRED BINARY metric (UTF8);
    REQUIRED DOUBLE value;
    REQUIRED BINARY unit (UTF8);
}";

/// One value of one run.
struct Value<'a> {
    round: usize,
    arm: &'static str,
    /// The place of the run in its round, from 1.
    position: usize,
    metric: &'a str,
    value: f64,
    unit: &'a str,
}

fn values(result: &ExperimentResult) -> impl Iterator<Item = Value<'_>> {
    result.rounds.iter().flat_map(move |round| {
        round.order.iter().enumerate().flat_map(move |(place, arm)| {
            let values = round.samples.get(arm).into_iter().flat_map(|sample| &sample.values);
            values.map(move |(metric, value)| Value {
                round: round.number,
                arm: arm.name(),
                position: place + 1,
                metric,
                value: *value,
                unit: result.unit_of(metric),
            })
        })
    })
}

/// Writes all values of an experiment, in the order in which they were measured.
pub fn runs(result: &ExperimentResult) -> Result<Vec<u8>, ParquetError> {
    let rows: Vec<Value<'_>> = values(result).collect();
    let text = |pick: for<'v> fn(&'v Value<'v>) -> &'v str| -> Vec<ByteArray> {
        rows.iter().map(|row| ByteArray::from(pick(row))).collect()
    };
    let number = |pick: fn(&Value<'_>) -> usize| -> Vec<i32> {
        rows.iter().map(|row| i32::try_from(pick(row)).unwrap_or(i32::MAX)).collect()
    };
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    // Dictionaries make the names small by themselves; any codec would be another dependency.
    let said = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let header = &result.header;
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_key_value_metadata(Some(vec![
            said("title", &header.title),
            said("started", &header.started),
            said("arm A", &header.arms[0]),
            said("arm B", &header.arms[1]),
            said("made by", concat!("handoff ", env!("CARGO_PKG_VERSION"))),
        ]))
        .build();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    column::<Int32Type>(&mut group, &number(|row| row.round))?;
    column::<ByteArrayType>(&mut group, &text(|row| row.arm))?;
    column::<Int32Type>(&mut group, &number(|row| row.position))?;
    column::<ByteArrayType>(&mut group, &text(|row| row.metric))?;
    column::<DoubleType>(&mut group, &rows.iter().map(|row| row.value).collect::<Vec<_>>())?;
    column::<ByteArrayType>(&mut group, &text(|row| row.unit))?;
    group.close()?;
    writer.close()?;
    Ok(file)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, None, None)?;
        column.close()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;
    use crate::experiment::result::tests::result;

    #[test]
    fn the_values_come_back() {
        let result = result();
        let bytes = runs(&result).expect("written");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("written");
        let reader = SerializedFileReader::new(file).expect("it is Parquet");
        let metadata = reader.metadata().file_metadata().key_value_metadata().expect("it says what it is");
        let title = metadata.iter().find(|pair| pair.key == "title").and_then(|pair| pair.value.clone());
        assert_eq!(title.as_deref(), Some(result.header.title.as_str()));
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        let all: usize =
            result.rounds.iter().flat_map(|round| round.samples.values()).map(|s| s.values.len()).sum();
        assert_eq!((rows.len(), all), (all, result.rounds.len() * 3 * 3));
        for row in &rows {
            let (round, arm) = (row.get_int(0).expect("a round"), row.get_string(1).expect("an arm"));
            let record = &result.rounds[usize::try_from(round).expect("positive") - 1];
            let (id, sample) = record.samples.iter().find(|(id, _)| id.name() == arm).expect("a sample");
            let place = record.order.iter().position(|other| other == id).expect("it ran") + 1;
            assert_eq!(usize::try_from(row.get_int(2).expect("a place")), Ok(place));
            assert_eq!(
                sample.values[row.get_string(3).expect("a metric")],
                row.get_double(4).expect("a value")
            );
            let metric = row.get_string(3).expect("a metric");
            assert_eq!(row.get_string(5).expect("a unit"), result.unit_of(metric));
        }
    }
}
