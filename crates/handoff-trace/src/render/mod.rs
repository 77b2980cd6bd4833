//! The results as text, DOT and SVG.

pub mod dot;
pub mod html;
pub mod requests;
pub mod svg;
mod table;

pub use table::{Live, Row};
