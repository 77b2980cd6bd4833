//! D-Bus peer to peer, without a bus: `zbus`.

use std::io;
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};
use zbus::connection::Builder;

use super::{failed, runtime};
use crate::Ask;

const INTERFACE: &str = "handoff.peers.Sum";
const OBJECT: &str = "/handoff/peers/Sum";

struct Sum;

#[zbus::interface(name = "handoff.peers.Sum")]
impl Sum {
    fn sum(&self, message: &[u8]) -> u8 {
        crate::sum(message)
    }
}

pub(super) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    runtime()?.block_on(async {
        let listener = UnixListener::bind(address)?;
        ready();
        let mut connections = Vec::new();
        loop {
            let (stream, _) = listener.accept().await?;
            let connection = Builder::unix_stream(stream.into_std()?)
                .server(zbus::Guid::generate())
                .p2p()
                .serve_at(OBJECT, Sum)
                .build()
                .await
                .map_err(failed)?;
            connections.push(connection);
        }
    })
}

pub(super) fn connect(address: &Path) -> io::Result<Ask> {
    let runtime = runtime()?;
    let connection = runtime.block_on(async {
        let stream = UnixStream::connect(address).await?;
        Builder::unix_stream(stream.into_std()?).p2p().build().await.map_err(failed)
    })?;
    Ok(Box::new(move |message| {
        let answer = runtime.block_on(connection.call_method(
            None::<zbus::names::BusName<'_>>,
            OBJECT,
            Some(INTERFACE),
            "Sum",
            &message,
        ));
        answer.map_err(failed)?.body().deserialize::<u8>().map_err(failed)
    }))
}
