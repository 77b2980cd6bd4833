//! The manager as a service: `android.os.IServiceManager` over a registry.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::policy::Policy;
use super::registry::{NameConflict, Registration, Registry};
use super::types::{DumpPriority, ServiceInfo, ServiceOptions};
use super::{DESCRIPTOR, MANAGER_NAME, code};
use crate::dispatch::calling_identity;
use crate::identity::CallingIdentity;
use crate::object::{Binder, Service, Transaction};
use crate::parcel::{Parcelable, Reader, Writer};
use crate::{Error, ExceptionCode, Result, Status};

/// Services on one page of a list.
const PAGE: usize = 256;

/// A service manager. Clones are the same one.
///
/// ```
/// use handoff_ipc::servicemanager::{Manager, Policy};
///
/// let manager = Manager::new(Policy::open());
/// let object = manager.binder();
/// assert_eq!(object.descriptor()?, "android.os.IServiceManager");
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Clone)]
pub struct Manager {
    registry: Arc<Registry>,
    binder: Binder,
}

impl Manager {
    /// One that knows no name but its own.
    pub fn new(policy: Policy) -> Self {
        let registry = Arc::new(Registry::default());
        registry.set_policy(policy);
        let binder = Binder::new(ManagerService { registry: Arc::clone(&registry) });
        Manager { registry, binder }
    }

    /// The object to be found at handle 0.
    pub fn binder(&self) -> Binder {
        self.binder.clone()
    }

    /// Lists the manager under [`MANAGER_NAME`], together with its process, so that people can look
    /// at it as at any service.
    ///
    /// # Errors
    /// If the policy does not let this very process add the name.
    pub fn list_itself(&self, process: Binder) -> Result<()> {
        // The manager's own object holds the registry: listed there, both would live for ever.
        let registration = Registration {
            binder: Binder::new(ListedManager(Arc::downgrade(&self.registry))),
            process: Some(process),
            interface: DESCRIPTOR.to_owned(),
            options: ServiceOptions { dump_priority: DumpPriority::CRITICAL, ..ServiceOptions::default() },
            if_taken: NameConflict::Replace,
            listener: None,
        };
        self.registry.add(CallingIdentity::own(), MANAGER_NAME, registration).map(drop)
    }

    /// Replaces the policy. What is registered stays. Every later request meets the new rules, and so does who waits to hear
    /// of a name: it is told of what it may find from now on, and of nothing else.
    pub fn set_policy(&self, policy: Policy) {
        self.registry.set_policy(policy);
    }

    /// The policy that is in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.registry.policy()
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (names, watches, _) = self.registry.sizes();
        f.debug_struct("Manager").field("names", &names).field("watches", &watches).finish()
    }
}

struct ManagerService {
    registry: Arc<Registry>,
}

/// The manager as it stands in its own registry.
struct ListedManager(std::sync::Weak<Registry>);

impl ListedManager {
    fn manager(&self) -> Result<ManagerService> {
        self.0.upgrade().map(|registry| ManagerService { registry }).ok_or(Error::Dead)
    }
}

impl Service for ListedManager {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        self.manager()?.on_transact(transaction)
    }

    fn dump(&self, args: &[String]) -> String {
        self.manager().map_or_else(|error| format!("{error}\n"), |manager| manager.dump(args))
    }
}

impl Service for ManagerService {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let (registry, who, code) = (&self.registry, transaction.caller(), transaction.code());
        let Transaction { data, reply, .. } = transaction;
        match code {
            code::GET | code::CHECK => reply.write(&registry.find(who, &name(data)?)?),
            code::GET_SERVICE | code::CHECK_SERVICE => {
                write_service(reply, registry.find(who, &name(data)?)?)
            }
            code::ADD => {
                let (name, binder) = (name(data)?, data.read()?);
                let (allow_isolated, dump_priority): (bool, i32) = (data.read()?, data.read()?);
                let options = ServiceOptions {
                    allow_isolated,
                    dump_priority: DumpPriority::from_bits(dump_priority),
                    ..ServiceOptions::default()
                };
                // Android's manager lets the last one have a name.
                let (interface, if_taken) = (String::new(), NameConflict::Replace);
                let new =
                    Registration { binder, process: None, interface, options, if_taken, listener: None };
                registry.add(who, &name, new).map(drop)
            }
            code::ADD_WITH => {
                let (name, binder, process) = (name(data)?, data.read()?, data.read()?);
                let (allow_isolated, dump_priority): (bool, i32) = (data.read()?, data.read()?);
                let options = ServiceOptions {
                    allow_isolated,
                    dump_priority: DumpPriority::from_bits(dump_priority),
                    context: data.read::<String>()?.parse()?,
                    replace: false,
                };
                let interface = data.read()?;
                // Of processes that were built before there was a choice.
                let (if_taken, listener) = match data.remaining() {
                    0 => (NameConflict::Replace, None),
                    _ => (NameConflict::from_number(data.read()?), data.read()?),
                };
                let new = Registration { binder, process, interface, options, if_taken, listener };
                let holder = registry.add(who, &name, new)?;
                reply.write(&holder.is_some())?;
                if let Some(holder) = holder {
                    reply.write(&holder.pid)?;
                    reply.write(&holder.uid)?;
                }
                Ok(())
            }
            code::REMOVE => registry.remove(who, &name(data)?, &data.read()?),
            code::LIST => {
                let priority = DumpPriority::from_bits(data.read()?);
                let (services, _) = registry.list(who, "", usize::MAX, priority);
                reply.write(&services.into_iter().map(|service| service.name).collect::<Vec<_>>())
            }
            code::LIST_PAGE => {
                let (after, priority): (String, i32) = (data.read()?, data.read()?);
                let (page, more) = registry.list(who, &after, PAGE, DumpPriority::from_bits(priority));
                reply.write(&page)?;
                reply.write(&more)
            }
            code::WATCH => registry.watch(who, &name(data)?, data.read()?),
            code::UNWATCH => registry.unwatch(&name(data)?, &data.read()?),
            code::PROCESS_OF => reply.write(&registry.process_of(who, &name(data)?)?),
            code::IS_DECLARED => reply.write(&registry.policy().mentions(&name(data)?)),
            code::DECLARED_INSTANCES => {
                reply.write(&registry.policy().declared_instances(&data.read::<String>()?))
            }
            // Nothing here comes in an APEX or listens on a port.
            code::UPDATABLE_VIA_APEX => reply.write(&None::<String>),
            code::CONNECTION_INFO => reply.write_i32(0),
            code::UPDATABLE_NAMES => reply.write(&Vec::<String>::new()),
            code::DEBUG_INFO => {
                let (services, _) = registry.list(who, "", usize::MAX, DumpPriority::ALL);
                reply.write(&services.into_iter().map(DebugInfo).collect::<Vec<_>>())
            }
            code::REGISTER_CLIENT_CALLBACK => Err(Error::Status(Status::new(
                ExceptionCode::UnsupportedOperation,
                "this manager does not count the clients of a service",
            ))),
            _ => Err(transaction.unknown(DESCRIPTOR)),
        }
    }

    fn dump(&self, _: &[String]) -> String {
        let counts = &self.registry.counts;
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (names, watches, users) = self.registry.sizes();
        let policy = self.registry.policy();
        let some =
            |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let mut text = format!(
            "{} and {} of {}\n",
            some(names, "name", "names"),
            some(watches, "watch", "watches"),
            some(users, "user", "users")
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "since the start: {} added, {} found, {} asked for in vain, {} refused, {} ended with their process, \
             {} told",
            of(&counts.added),
            of(&counts.found),
            of(&counts.missed),
            of(&counts.refused),
            of(&counts.died),
            of(&counts.told),
        );
        let others = if policy.others_open { "open" } else { "closed" };
        let _ = writeln!(
            text,
            "policy: {}, other names {others}, {} names and {} watches a user at most",
            some(policy.rules.len(), "rule", "rules"),
            policy.names_per_user,
            policy.watches_per_user,
        );
        let (services, _) = self.registry.list(calling_identity(), "", usize::MAX, DumpPriority::ALL);
        for ServiceInfo { name, pid, uid, context, interface, .. } in services {
            let uid = uid.map_or_else(String::new, |uid| uid.to_string());
            let _ = writeln!(text, "{name} [{interface}] {context} pid {pid} uid {uid}");
        }
        text
    }
}

fn name(data: &mut Reader<'_>) -> Result<String> {
    data.read()
}

/// AIDL's union `Service`: its first field, the parcelable `ServiceWithMetadata`.
fn write_service(reply: &mut Writer<'_>, found: Option<Binder>) -> Result<()> {
    reply.write_i32(1)?; // not null
    reply.write_i32(0)?; // the union's field
    reply.write_structured(|to| {
        to.write(&found)?;
        // Not a lazy service: it may be kept.
        to.write(&false)
    })
}

/// AIDL's `ServiceDebugInfo`.
struct DebugInfo(ServiceInfo);

impl Parcelable for DebugInfo {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        // An array of parcelables says of each that it is not null.
        to.write_i32(1)?;
        to.write_sized(|to| {
            to.write_string16(&self.0.name)?;
            to.write(&self.0.pid)
        })
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_i32()?;
        from.read_sized(|from| {
            let (name, pid) = (from.read()?, from.read()?);
            Ok(DebugInfo(ServiceInfo {
                name,
                pid,
                interface: String::new(),
                uid: None,
                context: Default::default(),
                dump_priority: Default::default(),
            }))
        })
    }
}
