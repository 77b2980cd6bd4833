//! `android.os.IAccessor`: an object whose calls give connections to a server of Binder RPC.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Weak;
use std::time::Duration;

use rustix::net::{SocketType, sockopt};

use super::server::ServerState;
use crate::object::{Binder, Service, Transaction};
use crate::{Code, Error, ExceptionCode, Result, Status, shm};

const DESCRIPTOR: &str = "android.os.IAccessor";
const ADD_CONNECTION: Code = 1;
const GET_INSTANCE_NAME: Code = 2;
/// `ERROR_CONNECTION_INFO_NOT_FOUND`, for a server that is gone.
const NOT_FOUND: i32 = 0;

/// A connection that the accessor makes. Whose object it is may send any descriptor.
pub(super) fn connection_of(accessor: &Binder, timeout: Duration, descriptors: bool) -> Result<OwnedFd> {
    let call = accessor.transaction(ADD_CONNECTION).deadline(timeout);
    let socket: OwnedFd = call.call(|_| Ok(()), |reply| reply.read())?;
    if sockopt::socket_type(&socket) != Ok(SocketType::STREAM) {
        return Err(Error::Protocol("the accessor gave something else than a connection".into()));
    }
    if !descriptors {
        shm::refuse_descriptors(socket.as_fd());
    }
    Ok(socket)
}

/// Gives its callers connections to a server, each in the name of who called.
pub(super) struct Accessor {
    pub(super) server: Weak<ServerState>,
    pub(super) instance: String,
}

impl Service for Accessor {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        match transaction.code() {
            ADD_CONNECTION => {
                let (here, there) = UnixStream::pair()
                    .map_err(|error| Error::io("cannot make a connection for an accessor", error))?;
                let server = self.server.upgrade().ok_or(Error::Dead);
                let connected = server.and_then(|server| server.connect(here.into(), transaction.caller()));
                connected.map_err(|error| {
                    Error::Status(match error {
                        Error::Dead => Status::service_specific(NOT_FOUND, "the server is gone"),
                        other => Status::new(ExceptionCode::Security, other.to_string()),
                    })
                })?;
                transaction.reply.write(&OwnedFd::from(there))
            }
            GET_INSTANCE_NAME => transaction.reply.write_string16(&self.instance),
            _ => Err(transaction.unknown(DESCRIPTOR)),
        }
    }
}
