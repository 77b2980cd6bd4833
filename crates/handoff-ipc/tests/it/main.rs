//! Objects, calls, services, queues and frames, used as other crates use them.

#[cfg(feature = "tokio")]
mod asynchronous;
mod calls;
mod common;
mod frames;
mod hostile;
mod introductions;
mod names;
mod priority;
mod queue;
mod queue_processes;
mod rpc;
mod rpc_hostile;
mod rpc_raw;
mod rpc_shares;
#[cfg(feature = "tls")]
mod rpc_tls;
mod services;
mod soak;
mod versions;
