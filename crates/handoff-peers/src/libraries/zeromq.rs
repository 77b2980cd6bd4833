//! ZeroMQ: REQ and REP over `ipc://`.

use std::io;
use std::path::Path;

use super::failed;
use crate::Ask;

fn endpoint(address: &Path) -> String {
    format!("ipc://{}", address.display())
}

pub(super) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::REP).map_err(failed)?;
    socket.bind(&endpoint(address)).map_err(failed)?;
    ready();
    let mut message = zmq::Message::new();
    loop {
        socket.recv(&mut message, 0).map_err(failed)?;
        socket.send([crate::sum(&message)].as_slice(), 0).map_err(failed)?;
    }
}

pub(super) fn connect(address: &Path) -> io::Result<Ask> {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::REQ).map_err(failed)?;
    socket.connect(&endpoint(address)).map_err(failed)?;
    let mut answer = zmq::Message::new();
    Ok(Box::new(move |message| {
        socket.send(message, 0).map_err(failed)?;
        socket.recv(&mut answer, 0).map_err(failed)?;
        answer.first().copied().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }))
}
