//! Calls and services for Python: find a service and call it, or serve one with a function.

use std::sync::Mutex;
use std::time::Duration;

use handoff_ipc::engine::DeathRegistration;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, CallBuilder, Error, ExceptionCode, InterfaceId, ParcelService, Status};
use pyo3::create_exception;
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::file::FileDescriptor;
use crate::{HandoffError, failed, tasks};

create_exception!(_native, DeadObjectError, HandoffError, "The process that serves the object has died.");
create_exception!(_native, DeadlineError, HandoffError, "The reply did not come within the call's deadline.");
create_exception!(
    _native,
    WrongInterfaceError,
    HandoffError,
    "The object has another interface than its caller means."
);
create_exception!(_native, NameTakenError, HandoffError, "Another process has registered this name.");
create_exception!(_native, NoServiceError, HandoffError, "No service is registered under this name.");

/// The exception that Python gets for an error of the runtime.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    match &error {
        Error::Dead => DeadObjectError::new_err(error.to_string()),
        Error::DeadlineExpired(_) => DeadlineError::new_err(error.to_string()),
        Error::WrongInterface { .. } => WrongInterfaceError::new_err(error.to_string()),
        Error::NameTaken { .. } => NameTakenError::new_err(error.to_string()),
        Error::NoSuchService(_) => NoServiceError::new_err(error.to_string()),
        Error::Status(status) => {
            let values =
                (status.exception() as i32, status.message().unwrap_or(""), status.service_specific_code());
            let made = py.import("handoff").and_then(|module| module.getattr("ServiceError")?.call1(values));
            made.map_or_else(|missing| missing, PyErr::from_value)
        }
        _ => failed(error),
    }
}

fn wait(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("a wait of {seconds} s: {error}")))
}

/// The values of a call or a reply.
#[pyclass(name = "Parcel", from_py_object)]
#[derive(Clone, Default)]
pub(crate) struct PyParcel(pub(crate) Parcel);

#[pymethods]
impl PyParcel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[getter]
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    fn write_bool(&mut self, value: bool) -> PyResult<()> {
        self.0.write(|to| to.write(&value)).map_err(failed)
    }

    fn write_int(&mut self, value: i32) -> PyResult<()> {
        self.0.write(|to| to.write(&value)).map_err(failed)
    }

    fn write_long(&mut self, value: i64) -> PyResult<()> {
        self.0.write(|to| to.write(&value)).map_err(failed)
    }

    fn write_double(&mut self, value: f64) -> PyResult<()> {
        self.0.write(|to| to.write(&value)).map_err(failed)
    }

    fn write_string(&mut self, value: &str) -> PyResult<()> {
        self.0.write(|to| to.write_string16(value)).map_err(failed)
    }

    fn write_bytes(&mut self, value: &[u8]) -> PyResult<()> {
        self.0.write(|to| to.write_bytes(value)).map_err(failed)
    }

    /// Bytes without a length, up to a multiple of four with zeros.
    fn write_raw(&mut self, value: &[u8]) -> PyResult<()> {
        self.0.write(|to| to.write_raw(value)).map_err(failed)
    }

    fn write_string8(&mut self, value: &str) -> PyResult<()> {
        self.0.write(|to| to.write_string8(value)).map_err(failed)
    }

    #[pyo3(signature = (value))]
    fn write_object(&mut self, value: Option<&Remote>) -> PyResult<()> {
        self.0.write(|to| to.write_binder(value.map(|remote| &remote.binder))).map_err(failed)
    }

    fn write_file(&mut self, value: &FileDescriptor) -> PyResult<()> {
        value.with(|fd| self.0.write(|to| to.write_fd(fd)).map_err(failed))
    }

    fn begin_sized(&mut self) {
        self.0.begin_sized();
    }

    fn end_sized(&mut self) -> PyResult<()> {
        self.0.end_sized().map_err(failed)
    }

    fn read_bool(&mut self) -> PyResult<bool> {
        self.0.read(|from| from.read()).map_err(failed)
    }

    fn read_int(&mut self) -> PyResult<i32> {
        self.0.read(|from| from.read()).map_err(failed)
    }

    fn read_long(&mut self) -> PyResult<i64> {
        self.0.read(|from| from.read()).map_err(failed)
    }

    fn read_double(&mut self) -> PyResult<f64> {
        self.0.read(|from| from.read()).map_err(failed)
    }

    fn read_string(&mut self) -> PyResult<String> {
        self.0.read(|from| from.read()).map_err(failed)
    }

    fn read_bytes<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.0.read(|from| Ok(from.read_bytes()?.to_vec())).map_err(failed)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn read_raw<'py>(&mut self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.0.read(|from| Ok(from.read_raw(size)?.to_vec())).map_err(failed)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn read_nullable_string(&mut self) -> PyResult<Option<String>> {
        self.0.read(|from| from.read_string16()).map_err(failed)
    }

    fn read_nullable_string8(&mut self) -> PyResult<Option<String>> {
        self.0.read(|from| from.read_string8()).map_err(failed)
    }

    fn read_object(&mut self) -> PyResult<Option<Remote>> {
        let binder = self.0.read(|from| from.read_binder()).map_err(failed)?;
        Ok(binder.map(Remote::of))
    }

    fn read_file(&mut self) -> PyResult<FileDescriptor> {
        self.0.read(|from| from.read_fd()).map(FileDescriptor::of).map_err(failed)
    }

    fn enter_sized(&mut self) -> PyResult<()> {
        self.0.enter_sized().map_err(failed)
    }

    fn enter_tagged(&mut self) -> PyResult<i32> {
        self.0.enter_tagged().map_err(failed)
    }

    fn leave(&mut self) -> PyResult<()> {
        self.0.leave().map_err(failed)
    }
}

/// Who calls, as the kernel vouches for it.
#[pyclass(frozen, get_all)]
pub(crate) struct Caller {
    pid: u32,
    uid: u32,
    gid: u32,
    oneway: bool,
}

/// A connection to the service manager, and what was registered through it.
#[pyclass(frozen)]
pub(crate) struct Runtime {
    // `None` once it was closed.
    inner: Mutex<Option<handoff_ipc::Runtime>>,
}

#[pyfunction]
#[pyo3(signature = (socket=None))]
pub(crate) fn connect(py: Python<'_>, socket: Option<std::path::PathBuf>) -> PyResult<Runtime> {
    handoff_ipc::log::to_stderr();
    let mut builder = handoff_ipc::Runtime::builder();
    if let Some(socket) = socket {
        builder = builder.socket(socket);
    }
    let inner = py.detach(|| builder.connect()).map_err(|error| raised(py, error))?;
    Ok(Runtime { inner: Mutex::new(Some(inner)) })
}

impl Runtime {
    fn get(&self) -> PyResult<handoff_ipc::Runtime> {
        let inner = self.inner.lock().map_err(failed)?;
        inner.clone().ok_or_else(|| failed("this connection was closed"))
    }
}

#[pymethods]
impl Runtime {
    #[pyo3(signature = (name, timeout=0.0))]
    fn find(&self, py: Python<'_>, name: &str, timeout: f64) -> PyResult<Remote> {
        let (runtime, timeout) = (self.get()?, wait(timeout)?);
        let found = py.detach(|| match timeout {
            Duration::ZERO => runtime.services().get(name),
            timeout => runtime.services().wait_for(name, timeout),
        });
        found.map(Remote::of).map_err(|error| raised(py, error))
    }

    #[pyo3(signature = (name, descriptor, handler, replace=false))]
    fn serve(
        &self,
        py: Python<'_>,
        name: &str,
        descriptor: &str,
        handler: Py<PyAny>,
        replace: bool,
    ) -> PyResult<()> {
        self.register(py, name, &offer(descriptor, handler, Vec::new()), replace)
    }

    #[pyo3(signature = (name, object, replace=false))]
    fn register(&self, py: Python<'_>, name: &str, object: &Remote, replace: bool) -> PyResult<()> {
        let (runtime, binder) = (self.get()?, object.binder.clone());
        let options = ServiceOptions { replace, ..ServiceOptions::default() };
        py.detach(|| runtime.services().add(name, binder, options)).map_err(|error| raised(py, error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = self.inner.lock().map_err(failed)?.take();
        // What is taken back may wait for the manager, and handlers need the interpreter.
        py.detach(|| drop(closed));
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.close(py)?;
        Ok(false)
    }
}

/// An object of this process, for others to call.
#[pyfunction]
#[pyo3(signature = (descriptor, handler, bases=Vec::new()))]
pub(crate) fn offer(descriptor: &str, handler: Py<PyAny>, bases: Vec<String>) -> Remote {
    let service = ParcelService::new(descriptor, move |call, request| {
        let identity = call.identity();
        let caller =
            Caller { pid: identity.pid, uid: identity.uid, gid: identity.gid, oneway: call.is_oneway() };
        // None while the interpreter ends: nobody serves any longer.
        let ending = || Err(Error::Runtime(Box::new(Error::Dead)));
        Python::try_attach(|py| handle(py, &handler, caller, call.code(), request)).unwrap_or_else(ending)
    });
    let bases = bases.iter().map(|base| InterfaceId::interned(base));
    Remote::of(Binder::new(service.extending(bases)))
}

/// Has Python serve one call. What it raises becomes an exception for the caller.
fn handle(
    py: Python<'_>,
    handler: &Py<PyAny>,
    caller: Caller,
    code: u32,
    request: Parcel,
) -> handoff_ipc::Result<Option<Parcel>> {
    let answered = handler.call1(py, (caller, code, PyParcel(request))).and_then(|answer| {
        if answer.is_none(py) {
            return Ok(Parcel::new());
        }
        Ok(answer.extract::<PyParcel>(py).map_err(PyErr::from)?.0)
    });
    match answered {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.is_instance_of::<PyNotImplementedError>(py) => Ok(None),
        Err(error) => Err(status_of(py, error).into()),
    }
}

fn status_of(py: Python<'_>, error: PyErr) -> Status {
    let value = error.value(py);
    let told = || -> PyResult<Status> {
        let exception: i32 = value.getattr("exception")?.extract()?;
        let specific: i32 = value.getattr("specific")?.extract()?;
        let message: String = value.getattr("message")?.extract()?;
        Ok(match ExceptionCode::from_raw(exception) {
            ExceptionCode::ServiceSpecific => Status::service_specific(specific, message),
            other => Status::new(other, message),
        })
    };
    let is_refusal =
        py.import("handoff").and_then(|module| value.is_instance(&module.getattr("ServiceError")?));
    if is_refusal.unwrap_or(false) {
        return told().unwrap_or_else(|wrong| Status::new(ExceptionCode::IllegalState, wrong.to_string()));
    }
    let text = if error.is_instance_of::<DeadObjectError>(py) {
        // The service itself is alive: its caller must not take this for its death.
        "a process that this service depends on has died".to_owned()
    } else {
        error.to_string()
    };
    // A failed call of its own is a state of the service, and no argument of its caller's.
    let own_call = error.is_instance_of::<DeadObjectError>(py)
        || error.is_instance_of::<DeadlineError>(py)
        || error.is_instance_of::<WrongInterfaceError>(py)
        || error.is_instance_of::<NameTakenError>(py)
        || error.is_instance_of::<NoServiceError>(py);
    let exception = if own_call {
        ExceptionCode::IllegalState
    } else if error.is_instance_of::<HandoffError>(py) {
        // An argument that was not there.
        ExceptionCode::BadParcelable
    } else {
        // A fault of the service: its owner sees where.
        error.write_unraisable(py, None);
        ExceptionCode::IllegalState
    };
    Status::new(exception, text)
}

/// A reference to an object, of another process mostly.
#[pyclass(frozen, weakref)]
pub(crate) struct Remote {
    binder: Binder,
    // The interface that calls through this reference mean.
    interface: Option<InterfaceId>,
}

impl Remote {
    fn of(binder: Binder) -> Self {
        Remote { binder, interface: None }
    }

    fn transaction(&self, code: u32, timeout: Option<f64>) -> PyResult<CallBuilder<'_>> {
        let deadline = timeout.map(wait).transpose()?;
        Ok(self.binder.transaction(code).deadline(deadline).interface(self.interface))
    }
}

#[pymethods]
impl Remote {
    #[pyo3(signature = (code, request=None, timeout=None))]
    fn call(
        &self,
        py: Python<'_>,
        code: u32,
        request: Option<PyParcel>,
        timeout: Option<f64>,
    ) -> PyResult<PyParcel> {
        let request = request.unwrap_or_default().0;
        let transaction = self.transaction(code, timeout)?;
        // Others may run meanwhile; among them a handler that this call is waiting for.
        let reply = py.detach(|| transaction.call(|to| request.send(to), Parcel::receive));
        reply.map(PyParcel).map_err(|error| raised(py, error))
    }

    #[pyo3(signature = (code, request=None, timeout=None))]
    fn call_async(
        &self,
        py: Python<'_>,
        code: u32,
        request: Option<PyParcel>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        tasks::call(py, self.transaction(code, timeout)?, request.unwrap_or_default().0)
    }

    #[pyo3(signature = (code, request=None))]
    fn call_oneway(&self, py: Python<'_>, code: u32, request: Option<PyParcel>) -> PyResult<()> {
        let request = request.unwrap_or_default().0;
        let transaction = self.transaction(code, None)?;
        py.detach(|| transaction.oneway(|to| request.send(to))).map_err(|error| raised(py, error))
    }

    fn descriptor(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.binder.descriptor()).map_err(|error| raised(py, error))
    }

    fn expecting(&self, descriptor: &str) -> Remote {
        Remote { binder: self.binder.clone(), interface: Some(InterfaceId::interned(descriptor)) }
    }

    fn check_interface(&self, py: Python<'_>, descriptor: &str) -> PyResult<()> {
        let meant = InterfaceId::interned(descriptor);
        py.detach(|| self.binder.check_interface(meant)).map_err(|error| raised(py, error))
    }

    fn is_same(&self, other: &Remote) -> bool {
        self.binder == other.binder
    }

    fn is_alive(&self) -> bool {
        self.binder.is_alive()
    }

    fn on_death(&self, py: Python<'_>, died: Py<PyAny>) -> PyResult<DeathWatch> {
        let told = move || {
            Python::try_attach(|py| {
                if let Err(error) = died.call0(py) {
                    error.write_unraisable(py, Some(died.bind(py)));
                }
            });
        };
        let registration =
            py.detach(|| self.binder.link_to_death(told)).map_err(|error| raised(py, error))?;
        Ok(DeathWatch { registration: Mutex::new(Some(registration)) })
    }
}

/// A death recipient that is in place.
#[pyclass(frozen)]
pub(crate) struct DeathWatch {
    registration: Mutex<Option<DeathRegistration>>,
}

#[pymethods]
impl DeathWatch {
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let registration = self.registration.lock().map_err(failed)?.take();
        py.detach(|| drop(registration));
        Ok(())
    }
}
