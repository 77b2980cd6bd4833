//! A mutex whose contents are used although a thread panicked with it held: each of ours is sound
//! between any two statements that hold it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
