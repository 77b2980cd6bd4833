//! gRPC over a Unix socket: `tonic`. The messages are raw bytes, which saves it protobuf's work.

use std::convert::Infallible;
use std::future::{Ready, ready as ready_now};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use handoff_workloads::transports::MAX_PAYLOAD;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::{Request, Response, uri::PathAndQuery};
use tonic::codegen::{Bytes, Service};
use tonic::transport::{Endpoint, Server, Uri};
use tonic::{Status, client, server};

use super::{failed, runtime};
use crate::Ask;

const PATH: &str = "/handoff.peers.Sum/Sum";
const LIMIT: usize = MAX_PAYLOAD + 4096;

/// Bytes as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        use bytes::BufMut as _;
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        use bytes::Buf as _;
        let all = from.remaining();
        Ok(Some(from.copy_to_bytes(all)))
    }
}

#[derive(Debug, Clone)]
struct Sum;

impl server::UnaryService<Bytes> for Sum {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        ready_now(Ok(tonic::Response::new(Bytes::copy_from_slice(&[crate::sum(request.get_ref())]))))
    }
}

#[derive(Debug, Clone)]
struct Sums;

impl server::NamedService for Sums {
    const NAME: &'static str = "handoff.peers.Sum";
}

impl Service<Request<Body>> for Sums {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = server::Grpc::new(Raw).max_decoding_message_size(LIMIT);
            Ok(grpc.unary(Sum, request).await)
        })
    }
}

pub(super) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    runtime()?.block_on(async {
        let listener = UnixListener::bind(address)?;
        ready();
        let streams = UnixListenerStream::new(listener);
        Server::builder().add_service(Sums).serve_with_incoming(streams).await.map_err(failed)
    })
}

pub(super) fn connect(address: &Path) -> io::Result<Ask> {
    let runtime = runtime()?;
    let address = address.to_owned();
    let channel = runtime.block_on(async move {
        let connector = tower::service_fn(move |_: Uri| {
            let address = address.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(address).await?)) }
        });
        Endpoint::from_static("http://localhost").connect_with_connector(connector).await.map_err(failed)
    })?;
    let mut grpc = client::Grpc::new(channel).max_encoding_message_size(LIMIT);
    Ok(Box::new(move |message| {
        let message = Bytes::copy_from_slice(message);
        let answer = runtime.block_on(async {
            grpc.ready().await.map_err(failed)?;
            let request = tonic::Request::new(message);
            grpc.unary(request, PathAndQuery::from_static(PATH), Raw).await.map_err(failed)
        })?;
        answer.get_ref().first().copied().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }))
}
