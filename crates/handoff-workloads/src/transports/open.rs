//! Our transports, opened: two processes that serve all of them.

use std::cell::RefCell;
use std::rc::Rc;

use super::sender::AskSender;
use super::{Batch, OpenTransport, Transport};
use crate::error::Result;
use crate::peer::Peer;
use crate::place::Placement;
use crate::rpc::EngineKind;
use crate::rpc::host::Address;
use crate::rpc::role::{Role, TransportReceiver, TransportSender};
use crate::rpc::service::CALL_LIMIT;

/// The transports that there are here, and what there is not.
pub struct OpenTransports {
    /// Ready to be measured, in the order of the table.
    pub transports: Vec<Box<dyn OpenTransport>>,
    /// Engines that were asked for, and why they are not here.
    pub missing: Vec<(EngineKind, String)>,
}

impl std::fmt::Debug for OpenTransports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenTransports({} transports, {} missing)", self.transports.len(), self.missing.len())
    }
}

/// The two processes. They end when the last transport goes.
struct Pair {
    sender: Peer,
    _receiver: Peer,
}

struct Ours {
    pair: Rc<RefCell<Pair>>,
    transport: Transport,
    apart: bool,
}

impl OpenTransport for Ours {
    fn name(&self) -> String {
        self.transport.to_string()
    }

    fn kind(&self) -> Option<Transport> {
        Some(self.transport)
    }

    fn largest(&self) -> usize {
        self.transport.largest()
    }

    fn answers(&self) -> bool {
        self.transport.answers()
    }

    fn turn(&mut self, payload: usize, samples: u32, stream: u32) -> Result<Batch> {
        let (transport, apart) = (self.transport, self.apart);
        let asked = AskSender { transport, payload, samples, stream, apart };
        self.pair.borrow_mut().sender.ask(&asked, CALL_LIMIT)
    }
}

/// Starts the two processes and opens each transport on those of the engines that are here.
pub fn open(placement: Placement, engines: &[EngineKind]) -> Result<OpenTransports> {
    placement.check()?;
    let (sender_cpu, receiver_cpu) = match placement {
        Placement::SameCpu(cpu) => (Some(cpu), Some(cpu)),
        Placement::TwoCpus(sender, receiver) => (Some(sender), Some(receiver)),
        Placement::Unpinned => (None, None),
    };
    let role = TransportReceiver { engines: engines.to_vec(), cpu: receiver_cpu };
    let (receiver, offered) =
        Role::TransportReceiver(role).start::<Vec<(EngineKind, std::result::Result<Address, String>)>>()?;
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for (engine, address) in offered {
        match address {
            Ok(address) => here.push((engine, address)),
            Err(why) => missing.push((engine, why)),
        }
    }
    let present: Vec<EngineKind> = here.iter().map(|(engine, _)| *engine).collect();
    let sockets: Vec<_> = here.iter().filter_map(|(_, address)| address.socket.clone()).collect();
    let started = Role::TransportSender(TransportSender { addresses: here, cpu: sender_cpu }).start::<()>();
    for socket in sockets {
        drop(std::fs::remove_file(&socket));
        drop(socket.parent().map(std::fs::remove_dir));
    }
    let pair = Rc::new(RefCell::new(Pair { sender: started?.0, _receiver: receiver }));
    let mut kinds = Transport::WITHOUT_ENGINE.to_vec();
    for &engine in &present {
        kinds.extend(Transport::of_engine(engine));
    }
    let apart = match placement {
        Placement::SameCpu(_) => false,
        Placement::TwoCpus(..) => true,
        Placement::Unpinned => std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1),
    };
    let open =
        |transport| Box::new(Ours { pair: Rc::clone(&pair), transport, apart }) as Box<dyn OpenTransport>;
    Ok(OpenTransports { transports: kinds.into_iter().map(open).collect(), missing })
}
