//! What the kernel itself offers.

pub(crate) mod eventfd;
pub(crate) mod mq;
pub(crate) mod pipe;
pub(crate) mod sockets;
