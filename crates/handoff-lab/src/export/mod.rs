//! Formats that other tools read. Each is one file; nothing is measured or judged here.

pub mod bencher;
pub mod csv;
pub mod google_benchmark;
pub mod junit;
#[cfg(feature = "parquet")]
pub mod parquet;

/// Stands for the writer of Parquet in a build without the feature `parquet`.
#[cfg(not(feature = "parquet"))]
pub mod parquet {
    use crate::NotBuilt;
    use crate::experiment::result::ExperimentResult;

    /// Says which feature writes it.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn runs(_: &ExperimentResult) -> Result<Vec<u8>, NotBuilt> {
        Err(NotBuilt { what: "writer of Parquet", feature: "parquet" })
    }
}
