//! Calls for asyncio: a future in place of a thread that waits.

use std::sync::{LazyLock, Mutex};

use handoff_ipc::parcel::Parcel;
use handoff_ipc::{CallBuilder, Error};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use crate::calls::{PyParcel, raised};
use crate::failed;

/// One thread waits for the replies of all calls.
static RUNTIME: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_time().build());

/// Puts what a call came to into its future; called by the event loop, on its own thread.
#[pyclass(frozen)]
struct Completion {
    future: Py<PyAny>,
    outcome: Mutex<Option<Result<Parcel, Error>>>,
}

#[pymethods]
impl Completion {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let future = self.future.bind(py);
        // Cancelled meanwhile, perhaps.
        if future.call_method0("done")?.is_truthy()? {
            return Ok(());
        }
        match self.outcome.lock().map_err(failed)?.take() {
            Some(Ok(reply)) => future.call_method1("set_result", (PyParcel(reply),))?,
            Some(Err(error)) => future.call_method1("set_exception", (raised(py, error),))?,
            None => return Ok(()),
        };
        Ok(())
    }
}

/// Gives a call up when its future is cancelled.
#[pyclass(frozen)]
struct Cancellation(AbortHandle);

#[pymethods]
impl Cancellation {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        // Without an effect on one that has ended.
        self.0.abort();
    }
}

/// Makes a call from the task of asyncio that is running; gives its future.
pub(crate) fn call(py: Python<'_>, transaction: CallBuilder<'_>, request: Parcel) -> PyResult<Py<PyAny>> {
    let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
    let future = event_loop.call_method0("create_future")?;
    let runtime = RUNTIME.as_ref().map_err(failed)?;
    let call = transaction.call_async(move |to| request.send(to), Parcel::receive);
    let (event_loop, answered) = (event_loop.unbind(), future.clone().unbind());
    let task = runtime.spawn(async move {
        let outcome = Mutex::new(Some(call.await));
        // None while the interpreter ends; a loop that is closed has nobody who waits.
        Python::try_attach(|py| {
            let completion = Completion { future: answered, outcome };
            drop(event_loop.call_method1(py, "call_soon_threadsafe", (completion,)));
        });
    });
    future.call_method1("add_done_callback", (Cancellation(task.abort_handle()),))?;
    Ok(future.unbind())
}
