//! iceoryx2: request and response; with an event each way so that both sides sleep, or without, so that both look.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use handoff_workloads::transports::MAX_PAYLOAD;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use iceoryx2::request_mut::RequestMut;
use iceoryx2::request_mut_uninit::RequestMutUninit;

use super::failed;
use crate::Ask;

type Requests =
    iceoryx2::service::port_factory::request_response::PortFactory<ipc::Service, [u8], (), u8, ()>;

/// A buffer of the server's to write a request into, and the request that is written.
type Loan = RequestMutUninit<ipc::Service, [MaybeUninit<u8>], (), u8, ()>;
type Request = RequestMut<ipc::Service, [u8], (), u8, ()>;

/// Clients that a server takes.
const CLIENTS: usize = 16;

fn service(node: &Node<ipc::Service>, address: &Path) -> io::Result<Requests> {
    let name = ServiceName::new(&format!("{}/sum", address.display())).map_err(failed)?;
    node.service_builder(&name)
        .request_response::<[u8], u8>()
        .max_clients(CLIENTS)
        .open_or_create()
        .map_err(failed)
}

fn event(
    node: &Node<ipc::Service>,
    address: &Path,
    which: &str,
) -> io::Result<(Notifier<ipc::Service>, Listener<ipc::Service>)> {
    let name = ServiceName::new(&format!("{}/{which}", address.display())).map_err(failed)?;
    let service = node
        .service_builder(&name)
        .event()
        .max_notifiers(2 * CLIENTS)
        .max_listeners(2 * CLIENTS)
        .open_or_create()
        .map_err(failed)?;
    Ok((
        service.notifier_builder().create().map_err(failed)?,
        service.listener_builder().create().map_err(failed)?,
    ))
}

fn wait(listener: &Listener<ipc::Service>) -> io::Result<()> {
    listener.blocking_wait(|_| ()).map(drop).map_err(failed)
}

pub(super) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let node = node()?;
    let (_, asked) = event(&node, address, "asked")?;
    let (answered, _) = event(&node, address, "answered")?;
    serve_with(&node, address, ready, || wait(&asked), || answered.notify().map(drop).map_err(failed))
}

pub(super) fn serve_polling(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    serve_with(&node()?, address, ready, look_again, || Ok(()))
}

pub(super) fn connect(address: &Path) -> io::Result<Ask> {
    let node = node()?;
    let (asked, _) = event(&node, address, "asked")?;
    let (_, answered) = event(&node, address, "answered")?;
    let tell = move || asked.notify().map(drop).map_err(failed);
    ask_with(node, address, copied, tell, move || wait(&answered))
}

pub(super) fn connect_polling(address: &Path) -> io::Result<Ask> {
    ask_with(node()?, address, copied, || Ok(()), look_again)
}

pub(super) fn connect_polling_in_place(address: &Path) -> io::Result<Ask> {
    let made = |loan: Loan, message: &[u8]| {
        let byte = message.first().copied().unwrap_or_default();
        loan.write_from_fn(|_| byte)
    };
    ask_with(node()?, address, made, || Ok(()), look_again)
}

/// The payload lies in memory of the caller's, and is copied into the loan.
fn copied(loan: Loan, message: &[u8]) -> Request {
    loan.write_from_slice(message)
}

fn node() -> io::Result<Node<ipc::Service>> {
    NodeBuilder::new().create::<ipc::Service>().map_err(failed)
}

fn look_again() -> io::Result<()> {
    std::hint::spin_loop();
    Ok(())
}

/// Answers for ever, and tells of each answer; without a request it waits.
fn serve_with(
    node: &Node<ipc::Service>,
    address: &Path,
    ready: &mut dyn FnMut(),
    wait: impl Fn() -> io::Result<()>,
    tell: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let server = service(node, address)?.server_builder().create().map_err(failed)?;
    ready();
    loop {
        wait()?;
        while let Some(request) = server.receive().map_err(failed)? {
            request.send_copy(crate::sum(request.payload())).map_err(failed)?;
            tell()?;
        }
    }
}

/// Asks and tells of it, and waits until the answer is there.
fn ask_with(
    node: Node<ipc::Service>,
    address: &Path,
    put: impl Fn(Loan, &[u8]) -> Request + 'static,
    tell: impl Fn() -> io::Result<()> + 'static,
    wait: impl Fn() -> io::Result<()> + 'static,
) -> io::Result<Ask> {
    let client = service(&node, address)?
        .client_builder()
        .initial_max_slice_len(MAX_PAYLOAD)
        .create()
        .map_err(failed)?;
    Ok(Box::new(move |message| {
        let _node = &node;
        let loan = client.loan_slice_uninit(message.len()).map_err(failed)?;
        let pending = put(loan, message).send().map_err(failed)?;
        tell()?;
        loop {
            if let Some(response) = pending.receive().map_err(failed)? {
                return Ok(*response);
            }
            wait()?;
        }
    }))
}
