//! Reports: one HTML file each that opens offline, in light and in dark, on a desk and on a phone.
//!
//! [`page`] has what all reports share (style, template engine), [`chart`] draws SVG, and each kind of
//! report is one file beside its template: [`suite`] for `handoff run`, [`experiment`] for `handoff lab`,
//! [`mod@history`] for `handoff lab history`,
//! [`mod@phases`] for `handoff measure phases`, [`transports`] for `handoff measure transports`.

pub mod chart;
pub mod experiment;
pub mod history;
pub mod page;
pub mod phases;
pub mod scale;
pub mod suite;
pub mod transports;
mod waterfall;

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the report cannot be made: {0}")]
    Template(#[from] minijinja::Error),
}
