//! The example programs and interfaces, used as their pages show them.

mod asynchronous;
mod book;
mod containers;
mod everything;
mod greeter;
mod interfaces;
mod kitchen;
mod rpc;
mod wire;
