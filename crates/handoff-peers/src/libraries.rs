//! Libraries, each as its documentation has it.

mod capnproto;
mod channel;
mod dbus;
mod grpc;
mod iceoryx;
#[cfg(feature = "tachyon")]
mod tachyon;
mod zeromq;

use std::io;
use std::path::Path;

use crate::{Ask, Kind};

pub(crate) fn serve(kind: Kind, address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    match kind {
        Kind::Iceoryx2 => iceoryx::serve(address, ready),
        Kind::Iceoryx2Polling => iceoryx::serve_polling(address, ready),
        #[cfg(feature = "tachyon")]
        Kind::Tachyon => tachyon::serve(address, ready),
        Kind::Zbus => dbus::serve(address, ready),
        Kind::Tonic => grpc::serve(address, ready),
        Kind::Capnp => capnproto::serve(address, ready),
        Kind::IpcChannel => channel::serve(address, ready),
        Kind::ZeroMq => zeromq::serve(address, ready),
        other => Err(crate::not_built(other)),
    }
}

pub(crate) fn connect(kind: Kind, address: &Path) -> io::Result<Ask> {
    match kind {
        Kind::Iceoryx2 => iceoryx::connect(address),
        Kind::Iceoryx2Polling => iceoryx::connect_polling(address),
        #[cfg(feature = "tachyon")]
        Kind::Tachyon => tachyon::connect(address),
        Kind::Zbus => dbus::connect(address),
        Kind::Tonic => grpc::connect(address),
        Kind::Capnp => capnproto::connect(address),
        Kind::IpcChannel => channel::connect(address),
        Kind::ZeroMq => zeromq::connect(address),
        other => Err(crate::not_built(other)),
    }
}

pub(crate) fn connect_in_place(kind: Kind, address: &Path) -> io::Result<Ask> {
    match kind {
        Kind::Iceoryx2Polling => iceoryx::connect_polling_in_place(address),
        #[cfg(feature = "tachyon")]
        Kind::Tachyon => tachyon::connect_in_place(address),
        other => Err(crate::not_built(other)),
    }
}

/// A runtime of one thread, as a program with one connection has it.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}
