//! What a process has to call and to serve: its engine, and the connection to the service manager.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use handoff_placement::notice::Notice;

use crate::binder::{BinderEngine, find_device};
use crate::context::Context;
use crate::engine::{Engine, EngineStats};
use crate::engine_kind::EngineKind;
use crate::folder::Folder;
use crate::locked::lock;
use crate::object::Binder;
use crate::rpc::RpcEngine;
use crate::servicemanager::{Connection, Manager, ManagerServer, Policy, ServiceManager, SocketAccess};
use crate::shm::ShmEngine;
use crate::{Error, Result, dispatch, pool, stats};

/// The variable that names the service manager's socket.
pub const SOCKET_VARIABLE: &str = "HANDOFF_SOCKET";
/// Where the manager of the whole machine listens.
pub const SYSTEM_SOCKET: &str = "/run/handoff/servicemanager.sock";
/// How long a runtime that stops waits for calls that are being served.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// How a runtime is connected: [`Runtime::builder`].
///
/// ```no_run
/// use handoff_ipc::{EngineKind, Runtime};
///
/// let runtime = Runtime::builder().engine(EngineKind::Binder).max_threads(4).connect()?;
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "options alone connect to nothing: end with `connect`"]
pub struct Builder {
    engine: EngineKind,
    socket: Option<PathBuf>,
    max_threads: Option<usize>,
    follow_callers: bool,
    context: Context,
    lend_priorities: bool,
    device: Option<PathBuf>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            engine: EngineKind::Shm,
            socket: None,
            max_threads: None,
            follow_callers: true,
            context: Context::default(),
            lend_priorities: false,
            device: None,
        }
    }
}

impl Builder {
    /// The engine that carries calls; `shm` unless told otherwise.
    pub fn engine(self, engine: EngineKind) -> Self {
        Builder { engine, ..self }
    }

    /// The manager's socket on the `shm` engine; [`default_socket`] unless told otherwise.
    pub fn socket(self, socket: impl Into<PathBuf>) -> Self {
        Builder { socket: Some(socket.into()), ..self }
    }

    /// Threads that serve one user's calls at one time. All users' together are twice as many, unless it is 1. The pool
    /// is one for the process.
    pub fn max_threads(self, threads: usize) -> Self {
        Builder { max_threads: Some(threads), ..self }
    }

    /// On the `shm` engine, whether callers look for the best way to wait, as they do unless told otherwise; see
    /// [`ShmEngine::follow_callers`].
    pub fn follow_callers(self, follow_callers: bool) -> Self {
        Builder { follow_callers, ..self }
    }

    /// On the `binder` engine, whose driver and manager: each context has its own. Other engines carry all contexts, and
    /// a service's registration says which one is its.
    pub fn context(self, context: Context) -> Self {
        Builder { context, ..self }
    }

    /// On the `binder` engine, whether the runtime lends callers' priorities by itself, over whatever the driver
    /// lends; see [`BinderEngine::lend_priorities`].
    pub fn lend_priorities(self, lends: bool) -> Self {
        Builder { lend_priorities: lends, ..self }
    }

    /// The driver's device on the `binder` engine; where [`find_device`] finds the context's unless told otherwise.
    pub fn device(self, device: impl Into<PathBuf>) -> Self {
        Builder { device: Some(device.into()), ..self }
    }

    /// Starts the engine and connects to its service manager.
    ///
    /// # Errors
    /// If no manager answers there, or the engine does not exist on this machine.
    pub fn connect(&self) -> Result<Runtime> {
        let mut device = None;
        let (engine, socket): (Arc<dyn Engine>, _) = match self.engine {
            EngineKind::Local => (Arc::new(LocalEngine), None),
            EngineKind::Shm => {
                let socket = self.socket.clone().map_or_else(default_socket, Ok)?;
                tracing::debug!("connecting to the service manager at {}", socket.display());
                let engine = ShmEngine::new(&socket)?;
                engine.follow_callers(self.follow_callers);
                (Arc::new(engine), Some(socket))
            }
            EngineKind::Binder => {
                let engine = self.open_driver()?;
                device = Some(engine.device().to_owned());
                (Arc::new(engine), None)
            }
            EngineKind::Rpc => {
                let Some(socket) = self.socket.clone() else {
                    return Err(Error::Unsupported {
                        engine: "rpc",
                        what: "find a service manager without its socket: name it with `Builder::socket`"
                            .into(),
                    });
                };
                (Arc::new(RpcEngine::new(socket.clone())), Some(socket))
            }
        };
        if let Some(threads) = self.max_threads {
            engine.set_max_threads(threads);
        }
        let connection = Connection::new(Arc::clone(&engine), None);
        connection.manager()?;
        Ok(Runtime::assemble(
            engine,
            connection,
            RuntimeAddress { socket, device, context: self.context },
            None,
        ))
    }

    /// [`Builder::connect`] where a manager runs; otherwise [`Runtime::private`].
    ///
    /// # Errors
    /// As [`Runtime::private`].
    pub fn connect_or_private(&self) -> Result<Runtime> {
        match (self.connect(), self.engine) {
            (Err(Error::Io { .. }), EngineKind::Shm) => Runtime::private(),
            (Err(Error::Io { .. }), EngineKind::Binder) => {
                // A driver has one place for all: whoever comes second finds the first.
                self.become_manager().or_else(|_| self.connect())
            }
            (other, _) => other,
        }
    }

    fn open_driver(&self) -> Result<BinderEngine> {
        let device = self.device.clone().map_or_else(|| find_device(self.context), Ok)?;
        let engine = BinderEngine::open_for(device, self.context)?;
        if self.lend_priorities {
            engine.lend_priorities();
        }
        Ok(engine)
    }

    /// Starts a service manager in this process, as the one that the kernel's driver has a place for.
    fn become_manager(&self) -> Result<Runtime> {
        let engine = self.open_driver()?;
        let place =
            RuntimeAddress { socket: None, device: Some(engine.device().to_owned()), context: self.context };
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let embedded = Manager::new(Policy::open()).binder();
        engine.become_context_manager(embedded.clone())?;
        let connection = Connection::new(Arc::clone(&engine), Some(embedded));
        if let Some(threads) = self.max_threads {
            engine.set_max_threads(threads);
        }
        Ok(Runtime::assemble(engine, connection, place, None))
    }
}

/// Where a manager that this user starts listens, unless told otherwise: `$HANDOFF_SOCKET`, else
/// [`SYSTEM_SOCKET`] for root and `handoff/servicemanager.sock` in `$XDG_RUNTIME_DIR` for others.
///
/// # Errors
/// If there is no such folder; the message says what to set.
pub fn own_socket() -> Result<PathBuf> {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) {
        return Ok(socket.into());
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return Ok(SYSTEM_SOCKET.into());
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let usual = || Some(PathBuf::from(format!("/run/user/{}", user.as_raw()))).filter(|usual| usual.is_dir());
    match folder.or_else(usual) {
        Some(folder) => Ok(folder.join("handoff/servicemanager.sock")),
        None => {
            let why = format!(
                "$XDG_RUNTIME_DIR is not set, and there is no /run/user/{}; set ${SOCKET_VARIABLE} to the path of the socket",
                user.as_raw()
            );
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, why);
            Err(Error::io("there is no place for the service manager's socket", source))
        }
    }
}

/// Where a client looks for its manager: at [`own_socket`], or at that of the whole machine where
/// this user runs none.
///
/// # Errors
/// As [`own_socket`], if the machine has no manager either.
pub fn default_socket() -> Result<PathBuf> {
    let own = own_socket();
    let system = Path::new(SYSTEM_SOCKET);
    let chosen = std::env::var_os(SOCKET_VARIABLE).is_some_and(|socket| !socket.is_empty());
    match &own {
        Ok(path) if chosen || path.exists() => own,
        _ if system.exists() => Ok(system.to_owned()),
        _ => own,
    }
}

/// A process's engine and its way to the service manager. Clones are the same one; when the last
/// is dropped, what it registered is gone and calls through it fail.
#[derive(Debug, Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: registrations first, the private manager last.
    services: ServiceManager,
    engine: EngineHandle,
    socket: Option<PathBuf>,
    context: Context,
    device: Option<PathBuf>,
    _private: Option<Private>,
    stopping: Mutex<bool>,
    stopped: Condvar,
}

struct EngineHandle(Arc<dyn Engine>);

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.kind().name())
    }
}

impl Runtime {
    /// Starts the `shm` engine and connects to the service manager in its usual place ([`default_socket`]).
    ///
    /// # Errors
    /// If no manager answers there.
    pub fn connect() -> Result<Self> {
        Runtime::builder().connect()
    }

    /// Another engine, another socket, other limits.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a service manager in this process, at a socket of its own that only this user can
    /// reach, and connects to it. Children connect with [`Builder::socket`] and its [`Runtime::socket`], or
    /// find it in the variable [`SOCKET_VARIABLE`].
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn private() -> Result<Self> {
        let folder = Folder::new()?;
        let manager = Manager::new(Policy::open());
        let embedded = manager.binder();
        let serving = manager.serve(&folder.path().join("servicemanager.sock"), SocketAccess::Owner)?;
        let engine = Arc::clone(serving.engine());
        let connection = Connection::new(Arc::clone(&engine), Some(embedded));
        let place = RuntimeAddress { socket: Some(serving.socket().to_owned()), ..RuntimeAddress::default() };
        Ok(Runtime::assemble(engine, connection, place, Some(Private { _serving: serving, _folder: folder })))
    }

    fn assemble(
        engine: Arc<dyn Engine>,
        connection: Arc<Connection>,
        place: RuntimeAddress,
        private: Option<Private>,
    ) -> Self {
        let services = ServiceManager::new(connection);
        let RuntimeAddress { socket, device, context } = place;
        let engine = EngineHandle(engine);
        let (stopping, stopped) = (Mutex::new(false), Condvar::new());
        let inner = Inner { services, engine, socket, context, device, _private: private, stopping, stopped };
        Runtime { inner: Arc::new(inner) }
    }

    /// The service manager.
    pub fn services(&self) -> &ServiceManager {
        &self.inner.services
    }

    /// Which engine carries calls.
    pub fn engine(&self) -> EngineKind {
        self.inner.engine.0.kind()
    }

    /// The manager's socket, on an engine that has one.
    pub fn socket(&self) -> Option<&Path> {
        self.inner.socket.as_deref()
    }

    /// The context that it was connected for.
    pub fn context(&self) -> Context {
        self.inner.context
    }

    /// The driver's device, on the `binder` engine.
    pub fn device(&self) -> Option<&Path> {
        self.inner.device.as_deref()
    }

    /// True if the manager lives in this process.
    pub fn is_private(&self) -> bool {
        self.inner._private.is_some()
    }

    /// Tells the placement policies that run here (`handoff policy run`) that this process came to the
    /// foreground, or left it; gives how many listen. It waits for none of them.
    pub fn set_foreground(&self, is_foreground: bool) -> usize {
        Notice::Foreground(is_foreground).tell()
    }

    /// Limits the threads that serve one user's calls at one time; see [`Builder::max_threads`].
    pub fn set_max_threads(&self, threads: usize) {
        self.inner.engine.0.set_max_threads(threads);
    }

    /// Has the calling thread look at its priority before its next call. Without it, a thread that changes its
    /// priority notices within 16 calls.
    pub fn priority_changed(&self) {
        self.inner.engine.0.priority_changed();
    }

    /// What the engine did so far.
    pub fn stats(&self) -> EngineStats {
        self.inner.engine.0.stats()
    }

    /// Blocks until [`Runtime::stop`], as a server's main thread does that has nothing else to do: the runtime's own
    /// threads serve. Then it takes back the names that were registered through this runtime, so that no new client
    /// comes, and waits for the calls that are being served, ten seconds at the most.
    ///
    /// ```no_run
    /// # use handoff_ipc::Runtime;
    /// let runtime = Runtime::connect()?;
    /// // ... register services ...
    /// let stopper = runtime.clone();
    /// std::thread::spawn(move || {
    ///     // ... wait for SIGTERM ...
    ///     stopper.stop();
    /// });
    /// runtime.join_thread_pool();
    /// # Ok::<(), handoff_ipc::Error>(())
    /// ```
    pub fn join_thread_pool(&self) {
        let mut stopping = lock(&self.inner.stopping);
        while !*stopping {
            stopping = self.inner.stopped.wait(stopping).unwrap_or_else(PoisonError::into_inner);
        }
        drop(stopping);
        self.inner.services.withdraw();
        let end = Instant::now() + LAST_CALLS;
        while pool::at_work() + dispatch::under_way() > 0 {
            if Instant::now() > end {
                tracing::warn!("a call is still being served {LAST_CALLS:?} after the runtime was stopped");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets [`Runtime::join_thread_pool`] return. From any thread, also from one that serves a call.
    pub fn stop(&self) {
        *lock(&self.inner.stopping) = true;
        self.inner.stopped.notify_all();
    }
}

/// Where a runtime is connected.
#[derive(Default)]
struct RuntimeAddress {
    socket: Option<PathBuf>,
    device: Option<PathBuf>,
    context: Context,
}

struct Private {
    // The socket goes before the folder that it is in.
    _serving: ManagerServer,
    _folder: Folder,
}

impl std::fmt::Debug for Private {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Private")
    }
}

/// The engine of objects that never leave the process: names only, calls need no engine.
struct LocalEngine;

/// The one manager of the `local` engine.
static LOCAL_MANAGER: LazyLock<Manager> = LazyLock::new(|| Manager::new(Policy::open()));

impl Engine for LocalEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Local
    }

    fn context_object(&self) -> Result<Binder> {
        Ok(LOCAL_MANAGER.binder())
    }

    fn become_context_manager(&self, _: Binder) -> Result<()> {
        Err(Error::Unsupported {
            engine: EngineKind::Local.name(),
            what: "have another service manager than its own".into(),
        })
    }

    fn set_max_threads(&self, threads: usize) {
        pool::set_max(threads);
    }

    fn stats(&self) -> EngineStats {
        EngineStats {
            priority_changes: stats::PRIORITY_CHANGES.get(),
            raised: stats::RAISED.get(),
            inherit_denied: stats::INHERIT_DENIED.get(),
            threads: pool::threads() as u64,
            ..EngineStats::default()
        }
    }
}
