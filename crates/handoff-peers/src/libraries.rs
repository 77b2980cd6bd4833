//! Libraries, each as its documentation has it.

mod capnproto;
mod channel;
mod dbus;
mod grpc;
mod iceoryx;
mod zeromq;

use std::io;
use std::path::Path;

use crate::{Ask, Kind};

pub(crate) fn serve(kind: Kind, address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    match kind {
        Kind::Iceoryx2 => iceoryx::serve(address, ready),
        Kind::Zbus => dbus::serve(address, ready),
        Kind::Tonic => grpc::serve(address, ready),
        Kind::Capnp => capnproto::serve(address, ready),
        Kind::IpcChannel => channel::serve(address, ready),
        Kind::ZeroMq => zeromq::serve(address, ready),
        other => Err(io::Error::other(format!("{other} is no library"))),
    }
}

pub(crate) fn connect(kind: Kind, address: &Path) -> io::Result<Ask> {
    match kind {
        Kind::Iceoryx2 => iceoryx::connect(address),
        Kind::Zbus => dbus::connect(address),
        Kind::Tonic => grpc::connect(address),
        Kind::Capnp => capnproto::connect(address),
        Kind::IpcChannel => channel::connect(address),
        Kind::ZeroMq => zeromq::connect(address),
        other => Err(io::Error::other(format!("{other} is no library"))),
    }
}

/// A runtime of one thread, as a program with one connection has it.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}
