//! A small world with names: a manager, a bank that lets only the teller in, and a teller that asks the bank.

use std::path::Path;
use std::time::Duration;

use handoff_ipc::engine::Engine as _;
use handoff_ipc::frames::{FrameConsumer, FrameOptions, FramePool};
use handoff_ipc::servicemanager::{
    Manager, NamePattern, Policy, Principal, Range, Rule, ServiceOptions, SocketAccess,
};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Code, Error, Result, Runtime, Service, Transaction};

use crate::process::{self, Users};
use crate::victim::{DESCRIPTORS, open_to_all};

/// Has the teller ask the bank; of the teller.
pub const PAY: Code = 1;
/// Of the vault.
const OPEN: Code = 1;

/// What the bank says, and nobody else.
const ANSWER: &str = "from the bank";
/// What the teller says to the bank, and to nobody else.
const PASSWORD: &str = "the password of the teller";

/// The role of the manager.
pub fn manager(socket: &Path) {
    process::limit_descriptors(DESCRIPTORS);
    process::become_user(Users::here().victim());
    let only = |uid| vec![Principal::Users(Range::one(uid))];
    let vault = Rule {
        names: vec![NamePattern::new("bank.vault")],
        add: only(Users::here().victim()),
        find: only(Users::here().teller()),
        ..Rule::default()
    };
    let policy = Policy { rules: vec![vault], ..Policy::open() };
    let _serving = Manager::new(policy).serve(socket, SocketAccess::Everybody).unwrap();
    process::tell("serving");
    process::wait_for_end();
}

struct Vault;

impl Service for Vault {
    fn descriptor(&self) -> &str {
        "test.IVault"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { call, data, reply } = transaction;
        if call.identity().uid == Users::here().attacker() {
            eprintln!("the vault is open to the attacker");
            std::process::abort();
        }
        match call.code() {
            OPEN if data.read::<String>()? == PASSWORD => reply.write_string16(ANSWER),
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

struct Public;

impl Service for Public {
    fn descriptor(&self) -> &str {
        "test.IBank"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

struct Teller(Runtime);

impl Service for Teller {
    fn descriptor(&self) -> &str {
        "test.ITeller"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { reply, .. } = transaction;
        let vault = self.0.services().get("bank.vault")?;
        let answer: String = vault
            .transaction(OPEN)
            .deadline(Duration::from_secs(8))
            .call(|w| w.write_string16(PASSWORD), |r| r.read())?;
        reply.write_string16(&answer)
    }
}

fn services(socket: &Path, uid: u32) -> Runtime {
    process::limit_descriptors(DESCRIPTORS);
    process::become_user(uid);
    Runtime::builder().socket(socket).connect().unwrap()
}

/// The role of the bank.
pub fn bank(socket: &Path) {
    let runtime = services(socket, Users::here().victim());
    let add = |name, object| runtime.services().add(name, object, ServiceOptions::default()).unwrap();
    add("bank.vault", Binder::new(Vault));
    add("bank.public", Binder::new(Public));
    process::tell("serving");
    process::wait_for_end();
}

/// The role of the teller.
pub fn teller(socket: &Path) {
    let runtime = services(socket, Users::here().teller());
    let teller = Binder::new(Teller(runtime.clone()));
    runtime.services().add("teller", teller, ServiceOptions::default()).unwrap();
    process::tell("serving");
    process::wait_for_end();
}

/// What an honest customer does: asks the teller, whose answer must be the bank's.
pub fn pay(runtime: &Runtime, deadline: Duration) -> Result<()> {
    let teller = runtime.services().get("teller")?;
    let answer: String = teller.transaction(PAY).deadline(deadline).call(|_| Ok(()), |r| r.read())?;
    if answer == ANSWER { Ok(()) } else { Err(Error::Protocol(format!("the bank said {answer:?}"))) }
}

/// A customer who registers a name, too.
pub fn register_and_pay(socket: &Path, deadline: Duration) -> Result<()> {
    let runtime = Runtime::builder().socket(socket).connect()?;
    runtime.services().add("honest.name", Binder::new(Public), ServiceOptions::default())?;
    pay(&runtime, deadline)
}

/// The role of a producer of frames.
pub fn camera(socket: &Path) {
    process::limit_descriptors(DESCRIPTORS);
    process::become_user(Users::here().victim());
    let engine = ShmEngine::new(socket).unwrap();
    let mut options = FrameOptions::new(4, 4096);
    options.reclaim_after = Some(Duration::from_millis(20));
    let pool = FramePool::new(options).unwrap();
    engine.become_context_manager(pool.binder()).unwrap();
    open_to_all(socket);
    std::thread::spawn(move || {
        loop {
            if let Ok(frame) = pool.acquire(Some(Duration::from_secs(1))) {
                drop(frame.publish(8));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    process::tell("serving");
    process::wait_for_end();
}

/// Looks at one frame.
pub fn look(frames: &mut FrameConsumer, deadline: Duration) -> Result<()> {
    frames.next(Some(deadline)).map(drop)
}

/// Subscribes, and looks at one frame.
pub fn subscribe_and_look(socket: &Path, deadline: Duration) -> Result<()> {
    let engine = ShmEngine::new(socket)?;
    look(&mut FrameConsumer::subscribe(&engine.context_object()?)?, deadline)
}
