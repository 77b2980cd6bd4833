//! The `rpc` engine: calls over stream sockets in the wire format of libbinder's RPC.
//!
//! It reaches whom the other engines do not: Android's `RpcServer` and `RpcSession`, and processes of another machine.
//! `wire.rs` is the format, `connection.rs` carries frames of it and descriptors, `inbound.rs` has what came until it is taken.
//! `session.rs` has the connections that two processes share and `nodes.rs` their objects, `oneway.rs` bounds the calls that
//! wait, `calls.rs` makes and serves calls, `objects.rs` is what stands for objects in a parcel. `server.rs` and `client.rs` set
//! sessions up, over `tls.rs` where they are told to; `accessor.rs` has others find a server, `watch.rs` sees a session's end.
//!
//! A connection is served by a thread of its own, as with libbinder: a peer that stops in the middle of a frame, or
//! does not read, keeps that thread and no other. The ledger bounds how many a peer may have.

mod accessor;
mod address;
mod calls;
mod client;
mod connection;
mod engine;
mod inbound;
mod nodes;
mod objects;
mod oneway;
mod proxy;
mod remote;
mod server;
mod session;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod watch;
pub(crate) mod wire;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use calls::serve_bytes;

#[cfg(feature = "tls")]
pub use rustls;

pub use address::RpcAddress;
pub use client::{RpcSession, RpcSessionBuilder};
pub use engine::RpcEngine;
pub use server::{RpcServer, RpcServerBuilder};
