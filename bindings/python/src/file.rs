//! File descriptors that travel in parcels.
#![allow(unsafe_code)]

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failed;

/// A file descriptor of its own, closed with the object.
#[pyclass(frozen)]
pub(crate) struct FileDescriptor(Mutex<Option<OwnedFd>>);

impl FileDescriptor {
    pub(crate) fn of(fd: OwnedFd) -> Self {
        FileDescriptor(Mutex::new(Some(fd)))
    }

    /// Does something with the descriptor.
    pub(crate) fn with<R>(&self, work: impl FnOnce(BorrowedFd<'_>) -> PyResult<R>) -> PyResult<R> {
        let held = self.0.lock().map_err(failed)?;
        match held.as_ref() {
            Some(fd) => work(fd.as_fd()),
            None => Err(PyValueError::new_err("this file descriptor was closed or detached")),
        }
    }
}

#[pymethods]
impl FileDescriptor {
    #[new]
    fn new(py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let number = match file.getattr("fileno") {
            Ok(fileno) => fileno.call0()?,
            Err(_) => file.clone(),
        };
        let copy: i32 = py.import("os")?.call_method1("dup", (number,))?.extract()?;
        // SAFETY: `os.dup` just opened it and gave it to nobody else, so it is this object's to close.
        Ok(FileDescriptor::of(unsafe { OwnedFd::from_raw_fd(copy) }))
    }

    fn fileno(&self) -> PyResult<i32> {
        self.with(|fd| Ok(fd.as_raw_fd()))
    }

    fn detach(&self) -> PyResult<i32> {
        match self.0.lock().map_err(failed)?.take() {
            Some(fd) => Ok(fd.into_raw_fd()),
            None => Err(PyValueError::new_err("this file descriptor was closed or detached")),
        }
    }

    fn close(&self) -> PyResult<()> {
        drop(self.0.lock().map_err(failed)?.take());
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.close()?;
        Ok(false)
    }
}
