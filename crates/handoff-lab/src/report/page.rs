//! What all reports share: the template engine and the style.

use super::ReportError;
use minijinja::{AutoEscape, Environment, Value};
use serde::Serialize;

const BASE: &str = include_str!("base.html");
const PARTS: &str = include_str!("parts.html");
const STYLE: &str = include_str!("style.css");

/// Fills `template` in, which extends `base.html`. Everything is escaped but what the template marks as
/// safe: the charts, which escape by themselves.
pub fn render<T: Serialize>(template: &str, context: T) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_template("base.html", BASE)?;
    environment.add_template("parts.html", PARTS)?;
    environment.add_template("page.html", template)?;
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    environment.add_global("version", env!("CARGO_PKG_VERSION"));
    environment.add_filter("ns", super::scale::nanoseconds);
    environment.add_filter("bytes", super::scale::bytes);
    environment.add_filter("number", super::scale::number);
    environment.add_filter("chance", super::scale::chance);
    environment.add_filter("compact", super::scale::compact);
    environment.add_filter("times", super::chart::times);
    environment.add_filter("change", super::chart::change);
    Ok(environment.get_template("page.html")?.render(Value::from_serialize(&context))?)
}
