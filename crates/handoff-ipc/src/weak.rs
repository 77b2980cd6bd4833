//! References that do not keep their objects.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::object::{Binder, LocalNode, Reference, Remote};

/// A reference that does not keep its object: [`Binder::downgrade`].
#[derive(Clone)]
pub struct WeakBinder(WeakReference);

#[derive(Clone)]
enum WeakReference {
    Local(Weak<LocalNode>),
    Remote(Weak<dyn Remote>),
}

impl Binder {
    /// A reference that does not keep the object.
    pub fn downgrade(&self) -> WeakBinder {
        WeakBinder(match &self.0 {
            Reference::Local(node) => WeakReference::Local(Arc::downgrade(node)),
            Reference::Remote(remote) => WeakReference::Remote(Arc::downgrade(remote)),
        })
    }
}

impl WeakBinder {
    /// The object, as long as somebody holds a reference to it.
    pub fn upgrade(&self) -> Option<Binder> {
        let reference = match &self.0 {
            WeakReference::Local(node) => Reference::Local(node.upgrade()?),
            WeakReference::Remote(remote) => Reference::Remote(remote.upgrade()?),
        };
        Some(Binder(reference))
    }
}

impl fmt::Debug for WeakBinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakBinder")
    }
}
