//! What a series needs that a tree lacks: commits that it builds on, and names that a compiler misses.
//!
//! A change that was made for a newer tree builds on others that the older tree never got. [`choose()`]
//! finds those that are needed to place its hunks, in the history of the tree that it was made for;
//! [`explain()`] reads what a compiler says after the port and names the commit that brought the name in.

mod choose;
mod explain;
mod history;

pub use choose::{ChooseError, Chosen, Limits, Prerequisites, choose};
pub use explain::{Advice, Explanation, Missing, Use, explain};
pub use history::{Commit, HistoryError};
