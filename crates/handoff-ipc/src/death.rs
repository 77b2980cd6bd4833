//! A death recipient that is in place, and how it is taken back.

use std::fmt;

/// A death recipient, or one of news of freezing, that is in place. Dropping it takes it back;
/// [`DeathRegistration::keep`] leaves it in place for as long as the object lives.
#[must_use = "dropping it at once takes the death recipient back"]
pub struct DeathRegistration {
    unlink: Option<Box<dyn FnOnce() + Send>>,
}

impl DeathRegistration {
    pub(crate) fn new(unlink: impl FnOnce() + Send + 'static) -> Self {
        DeathRegistration { unlink: Some(Box::new(unlink)) }
    }

    /// Leaves the recipient in place.
    pub fn keep(mut self) {
        self.unlink = None;
    }
}

impl Drop for DeathRegistration {
    fn drop(&mut self) {
        if let Some(unlink) = self.unlink.take() {
            unlink();
        }
    }
}

impl fmt::Debug for DeathRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeathRegistration")
    }
}
