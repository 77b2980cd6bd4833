//! Cap'n Proto RPC over a Unix socket: `capnp-rpc`. The interface has one method, from data to data,
//! written out here as its compiler would do it, so that the compiler is not needed to build this.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::rc::Rc;

use capnp::any_pointer;
use capnp::capability::{DispatchCallResult, FromClientHook, FromServer, Params, Promise, Results, Server};
use capnp::private::capability::ClientHook;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, twoparty};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::LocalSet;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::{failed, runtime};
use crate::Ask;

const INTERFACE: u64 = 0xb3f0_6e5d_9d44_a1c7;

struct Sum;

#[derive(Clone)]
struct Dispatch(Rc<Sum>);

impl Deref for Dispatch {
    type Target = Sum;

    fn deref(&self) -> &Sum {
        &self.0
    }
}

impl Server for Dispatch {
    fn dispatch_call(
        self,
        interface: u64,
        method: u16,
        params: Params<any_pointer::Owned>,
        mut results: Results<any_pointer::Owned>,
    ) -> DispatchCallResult {
        if (interface, method) != (INTERFACE, 0) {
            let unknown = capnp::Error::unimplemented("no such method".to_owned());
            return DispatchCallResult::new(Promise::err(unknown), false);
        }
        let answered =
            params.get().and_then(|params| params.get_as::<capnp::data::Reader<'_>>()).and_then(|data| {
                let sum = crate::sum(data);
                results.get().set_as::<capnp::data::Owned>(&[sum][..])
            });
        let promise = match answered {
            Ok(()) => Promise::ok(()),
            Err(error) => Promise::err(error),
        };
        DispatchCallResult::new(promise, false)
    }

    fn as_ptr(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }
}

#[derive(Clone)]
struct Client(Box<dyn ClientHook>);

impl FromClientHook for Client {
    fn new(hook: Box<dyn ClientHook>) -> Self {
        Client(hook)
    }

    fn into_client_hook(self) -> Box<dyn ClientHook> {
        self.0
    }

    fn as_client_hook(&self) -> &dyn ClientHook {
        &*self.0
    }
}

impl FromServer<Sum> for Client {
    type Dispatch = Dispatch;

    fn from_server(sum: Rc<Sum>) -> Dispatch {
        Dispatch(sum)
    }
}

fn network(stream: UnixStream, side: Side) -> Box<twoparty::VatNetwork<impl futures::AsyncRead + Unpin>> {
    let (from, to) = stream.into_split();
    let from = futures::io::BufReader::new(from.compat());
    let to = futures::io::BufWriter::new(to.compat_write());
    Box::new(twoparty::VatNetwork::new(from, to, side, Default::default()))
}

pub(super) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    LocalSet::new().block_on(&runtime()?, async {
        let listener = UnixListener::bind(address)?;
        ready();
        let sum: Client = capnp_rpc::new_client(Sum);
        loop {
            let (stream, _) = listener.accept().await?;
            let hook = sum.clone().into_client_hook();
            let client = capnp::capability::Client::new(hook);
            tokio::task::spawn_local(RpcSystem::new(network(stream, Side::Server), Some(client)));
        }
    })
}

pub(super) fn connect(address: &Path) -> io::Result<Ask> {
    let runtime = runtime()?;
    let local = LocalSet::new();
    let client: Client = local.block_on(&runtime, async {
        let stream = UnixStream::connect(address).await?;
        let mut system = RpcSystem::new(network(stream, Side::Client), None);
        let client = system.bootstrap(Side::Server);
        tokio::task::spawn_local(system);
        Ok::<_, io::Error>(client)
    })?;
    Ok(Box::new(move |message| {
        local.block_on(&runtime, async {
            let mut request = client.0.new_call(
                INTERFACE,
                0,
                Some(capnp::MessageSize { word_count: message.len() as u64 / 8 + 8, cap_count: 0 }),
            );
            request.get().set_as::<capnp::data::Owned>(message).map_err(failed)?;
            let response = request.send().promise.await.map_err(failed)?;
            let answer = response.get().and_then(|answer| answer.get_as::<capnp::data::Reader<'_>>());
            answer.map_err(failed)?.first().copied().ok_or_else(|| io::ErrorKind::InvalidData.into())
        })
    }))
}
