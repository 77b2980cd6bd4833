//! The folder of the journals: this user's, unless `--state` names another.
//!
//! It is no variable of the environment: root would believe that of the user who called it.

use std::path::PathBuf;
use std::sync::OnceLock;

use handoff_lab::experiment::journal::state_folder;

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// What the command line says.
pub(crate) fn set(folder: PathBuf) {
    NAMED.get_or_init(|| folder);
}

/// Where this process keeps its journals.
pub(crate) fn folder() -> PathBuf {
    NAMED.get().cloned().unwrap_or_else(state_folder)
}
