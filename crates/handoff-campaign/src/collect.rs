//! Results into the lab's store, once each.

use std::fs::File;

use handoff_lab::experiment::result::ExperimentResult;
use handoff_lab::store::Store;
use serde::Serialize;

use crate::error::{CampaignError, Result};
use crate::plan::Plan;
use crate::record::Folder;

/// What was collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Results that were new to the store.
    pub new: usize,
    /// Results that it had already.
    pub known: usize,
    /// Tasks without a result.
    pub missing: usize,
}

/// Puts the results that are there into the store. It can be called at any time and any number of times.
///
/// # Errors
///
/// If a record cannot be read or the store not be written.
pub fn collect(plan: &Plan, folder: &Folder, store: &mut Store) -> Result<Collected> {
    let path = folder.path().join("collect.lock");
    let lock = File::create(&path).map_err(CampaignError::io("make", &path))?;
    // Two at a time would both find that a result is not there.
    lock.lock().map_err(CampaignError::io("lock", &path))?;
    let mut collected = Collected::default();
    for task in &plan.tasks {
        match folder.task(*task).result()? {
            None => collected.missing += 1,
            Some(result) if is_there(store, &result)? => collected.known += 1,
            Some(result) => {
                let run = store.begin(&result.header)?;
                for round in &result.rounds {
                    store.keep(run, round)?;
                }
                store.finish(run, &result)?;
                collected.new += 1;
            }
        }
    }
    Ok(collected)
}

/// Whether the store has it: the same experiment, at the same time, on the same device.
fn is_there(store: &Store, result: &ExperimentResult) -> Result<bool> {
    let header = &result.header;
    for entry in store.history()? {
        let same = entry.started == header.started && entry.title == header.title && entry.verdict.is_some();
        if same && store.result(entry.id)?.header == *header {
            return Ok(true);
        }
    }
    Ok(false)
}
