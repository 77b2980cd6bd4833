//! Results into the lab's store, once each and each as a whole.

use std::fs::File;

use handoff_lab::store::Store;
use serde::Serialize;

use crate::error::{CampaignError, Result};
use crate::plan::CampaignPlan;
use crate::record::Folder;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CollectCounts {
    /// Results that were new to the store.
    pub new: usize,
    /// Results that it had already.
    pub known: usize,
    /// Tasks without a result.
    pub missing: usize,
}

/// Puts the results that are there into the store. It can be called at any time and any number of times, and
/// be killed: a result is there as a whole or not at all.
pub fn collect(plan: &CampaignPlan, folder: &Folder, store: &mut Store) -> Result<CollectCounts> {
    let path = folder.path().join("collect.lock");
    let lock = File::create(&path).map_err(CampaignError::io("make", &path))?;
    // Where a database lets two in at a time, both would find that a result is not there.
    lock.lock().map_err(CampaignError::io("lock", &path))?;
    let mut collected = CollectCounts::default();
    for task in &plan.tasks {
        match folder.task(*task).result()? {
            None => collected.missing += 1,
            Some(result) => match store.add(&result)? {
                Some(_) => collected.new += 1,
                None => collected.known += 1,
            },
        }
    }
    Ok(collected)
}
