//! Handoff for Python: the compiled half of the package `handoff`.
//!
//! A thin shell over `handoff-placement` and, in `calls.rs` and `tasks.rs`, over `handoff-ipc`. What the functions do, and their types, is written where a
//! Python programmer looks: `python/handoff/__init__.py` and `_native.pyi`.

use handoff_placement::notice;
use handoff_placement::{
    AffinityGuard, Allowed, CpuId, CpuSet, Pin, Priority, PriorityGuard, Scope, Selector, Tid, Topology,
    fast, set_affinity,
};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

mod calls;
mod file;
mod held;
mod tasks;

create_exception!(_native, HandoffError, PyOSError, "What could not be had, with the reason.");

fn failed(error: impl std::fmt::Display) -> PyErr {
    HandoffError::new_err(error.to_string())
}

fn tid(id: Option<i32>) -> PyResult<Tid> {
    match id {
        None => Ok(Tid::current()),
        Some(id) => Tid::new(id).ok_or_else(|| failed(format!("{id} is not a thread"))),
    }
}

fn listed(set: &CpuSet) -> Vec<CpuId> {
    set.iter().collect()
}

/// A name, or a collection of numbers.
#[derive(FromPyObject)]
enum Cpus {
    Name(String),
    Numbers(Vec<CpuId>),
}

impl Cpus {
    fn resolve(self) -> PyResult<CpuSet> {
        match self {
            Self::Numbers(cpus) => Ok(cpus.into_iter().collect()),
            Self::Name(name) => {
                let selector: Selector = name.parse().map_err(failed)?;
                selector.resolve(&Topology::read().map_err(failed)?).map_err(failed)
            }
        }
    }
}

#[pyfunction]
#[pyo3(signature = (thread=None))]
fn allowed_cpus(thread: Option<i32>) -> PyResult<Vec<CpuId>> {
    Ok(listed(&Allowed::of(tid(thread)?).map_err(failed)?.mask))
}

#[pyfunction]
fn resolve_cpus(cpus: Cpus) -> PyResult<Vec<CpuId>> {
    Ok(listed(&cpus.resolve()?))
}

#[pyfunction]
fn current_cpu() -> CpuId {
    fast::current_cpu()
}

#[pyfunction]
fn core_classes() -> PyResult<Vec<(String, Vec<CpuId>)>> {
    let machine = Topology::read().map_err(failed)?;
    Ok(machine.classes.iter().map(|class| (class.name.clone(), listed(&class.cpus))).collect())
}

#[pyfunction]
#[pyo3(signature = (cpus, thread=None))]
fn pin_thread(cpus: Cpus, thread: Option<i32>) -> PyResult<Vec<CpuId>> {
    Ok(listed(&set_affinity(tid(thread)?, &cpus.resolve()?).map_err(failed)?))
}

#[pyfunction]
fn pin_process(py: Python<'_>, pid: i32, cpus: Cpus) -> PyResult<Vec<CpuId>> {
    let (pid, cpus) = (tid(Some(pid))?, cpus.resolve()?);
    // It may take a while where threads are born in a hurry.
    py.detach(|| Pin::apply(Scope::Process, pid, &cpus)).map(|pin| listed(pin.granted())).map_err(failed)
}

#[pyfunction]
#[pyo3(signature = (thread=None))]
fn get_priority(thread: Option<i32>) -> PyResult<String> {
    Ok(Priority::of(tid(thread)?).map_err(failed)?.to_string())
}

#[pyfunction]
#[pyo3(signature = (priority, thread=None))]
fn set_priority(priority: &str, thread: Option<i32>) -> PyResult<()> {
    let priority: Priority = priority.parse().map_err(failed)?;
    priority.apply(tid(thread)?).map_err(failed)
}

#[pyfunction]
#[pyo3(signature = (pid, foreground=true))]
fn set_foreground(py: Python<'_>, pid: i32, foreground: bool) -> PyResult<String> {
    let pid = tid(Some(pid))?;
    py.detach(|| notice::foreground(&notice::default_folder(), pid, foreground)).map_err(failed)
}

/// A `with` block on some CPUs, at some priority.
#[pyclass(unsendable, name = "placed")]
struct Placed {
    cpus: Option<CpuSet>,
    priority: Option<Priority>,
    guards: Option<(Option<AffinityGuard>, Option<PriorityGuard>)>,
}

#[pymethods]
impl Placed {
    #[new]
    #[pyo3(signature = (cpus=None, priority=None))]
    fn new(cpus: Option<Cpus>, priority: Option<&str>) -> PyResult<Self> {
        let cpus = cpus.map(Cpus::resolve).transpose()?;
        let priority = priority.map(|text| text.parse().map_err(failed)).transpose()?;
        Ok(Self { cpus, priority, guards: None })
    }

    fn __enter__(&mut self) -> PyResult<Vec<CpuId>> {
        if self.guards.is_some() {
            return Err(PyRuntimeError::new_err("this block was entered already"));
        }
        let affinity = self.cpus.as_ref().map(AffinityGuard::pin).transpose().map_err(failed)?;
        let priority = self.priority.map(PriorityGuard::enter).transpose().map_err(failed)?;
        let granted = match &affinity {
            Some(guard) => listed(guard.granted()),
            None => allowed_cpus(None)?,
        };
        self.guards = Some((affinity, priority));
        Ok(granted)
    }

    fn __exit__(
        &mut self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> bool {
        self.guards = None;
        false
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("HandoffError", module.py().get_type::<HandoffError>())?;
    module.add_class::<Placed>()?;
    module.add("DeadObjectError", module.py().get_type::<calls::DeadObjectError>())?;
    module.add("DeadlineError", module.py().get_type::<calls::DeadlineError>())?;
    module.add("WrongInterfaceError", module.py().get_type::<calls::WrongInterfaceError>())?;
    module.add("NameTakenError", module.py().get_type::<calls::NameTakenError>())?;
    module.add("NoServiceError", module.py().get_type::<calls::NoServiceError>())?;
    module.add_class::<calls::PyParcel>()?;
    module.add_class::<calls::Caller>()?;
    module.add_class::<calls::Runtime>()?;
    module.add_class::<calls::Remote>()?;
    module.add_class::<calls::DeathWatch>()?;
    module.add_class::<held::PyHolder>()?;
    module.add_class::<held::PyBundle>()?;
    module.add_function(wrap_pyfunction!(held::write_holder, module)?)?;
    module.add_function(wrap_pyfunction!(held::read_holder, module)?)?;
    module.add_function(wrap_pyfunction!(held::write_bundle, module)?)?;
    module.add_function(wrap_pyfunction!(held::read_bundle, module)?)?;
    module.add_class::<file::FileDescriptor>()?;
    module.add_function(wrap_pyfunction!(calls::connect, module)?)?;
    module.add_function(wrap_pyfunction!(calls::offer, module)?)?;
    module.add_function(wrap_pyfunction!(allowed_cpus, module)?)?;
    module.add_function(wrap_pyfunction!(resolve_cpus, module)?)?;
    module.add_function(wrap_pyfunction!(current_cpu, module)?)?;
    module.add_function(wrap_pyfunction!(core_classes, module)?)?;
    module.add_function(wrap_pyfunction!(pin_thread, module)?)?;
    module.add_function(wrap_pyfunction!(pin_process, module)?)?;
    module.add_function(wrap_pyfunction!(get_priority, module)?)?;
    module.add_function(wrap_pyfunction!(set_priority, module)?)?;
    module.add_function(wrap_pyfunction!(set_foreground, module)?)?;
    Ok(())
}
