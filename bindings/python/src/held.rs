//! AIDL's `ParcelableHolder` and Android's `PersistableBundle` for Python.

use handoff_ipc::parcel::{BundleValue, Parcel, ParcelableHolder, PersistableBundle, Stability};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::calls::{PyParcel, raised};
use crate::failed;

fn stability(is_stable: bool) -> Stability {
    if is_stable { Stability::Vintf } else { Stability::Local }
}

/// A parcelable as it travels, with its type's name; `handoff.aidl.ParcelableHolder` knows the types.
#[pyclass(name = "Holder")]
#[derive(Clone)]
pub(crate) struct PyHolder(ParcelableHolder);

#[pymethods]
impl PyHolder {
    #[new]
    fn new(stable: bool) -> Self {
        PyHolder(ParcelableHolder::new(stability(stable)))
    }

    #[getter]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn set(&mut self, py: Python<'_>, descriptor: &str, stable: bool, value: &PyParcel) -> PyResult<()> {
        let set = self.0.set_named(descriptor, stability(stable), |to| value.0.send(to));
        set.map_err(|error| raised(py, error))
    }

    fn get(&self, descriptor: &str) -> PyResult<Option<PyParcel>> {
        let found = self.0.get_named(descriptor, Parcel::receive).map_err(failed)?;
        Ok(found.map(PyParcel))
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Values of a few types, each under a name.
#[pyclass(name = "Bundle")]
#[derive(Clone, PartialEq)]
pub(crate) struct PyBundle(PersistableBundle);

#[pymethods]
impl PyBundle {
    #[new]
    fn new() -> Self {
        PyBundle(PersistableBundle::new())
    }

    /// Puts a value in that Python has as a `bool`, `int`, `float`, `str`, list of those, or `Bundle`.
    fn put(&mut self, kind: &str, name: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = match kind {
            "boolean" => BundleValue::Bool(value.extract()?),
            "int" => BundleValue::Int(value.extract()?),
            "long" => BundleValue::Long(value.extract()?),
            "double" => BundleValue::Double(value.extract()?),
            "string" => BundleValue::String(value.extract()?),
            "boolean_array" => BundleValue::Bools(value.extract()?),
            "int_array" => BundleValue::Ints(value.extract()?),
            "long_array" => BundleValue::Longs(value.extract()?),
            "double_array" => BundleValue::Doubles(value.extract()?),
            "string_array" => BundleValue::Strings(value.extract()?),
            "bundle" => BundleValue::Bundle(value.extract::<PyRef<'_, PyBundle>>()?.0.clone()),
            _ => return Err(PyValueError::new_err(format!("a bundle has no values of type {kind}"))),
        };
        self.0.insert(name, value);
        Ok(())
    }

    /// The type of a name's value, and the value.
    fn get<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        Ok(Some(match value {
            BundleValue::Bool(value) => ("boolean", *value).into_pyobject(py)?,
            BundleValue::Int(value) => ("int", *value).into_pyobject(py)?,
            BundleValue::Long(value) => ("long", *value).into_pyobject(py)?,
            BundleValue::Double(value) => ("double", *value).into_pyobject(py)?,
            BundleValue::String(value) => ("string", value).into_pyobject(py)?,
            BundleValue::Bools(values) => ("boolean_array", values.clone()).into_pyobject(py)?,
            BundleValue::Ints(values) => ("int_array", values.clone()).into_pyobject(py)?,
            BundleValue::Longs(values) => ("long_array", values.clone()).into_pyobject(py)?,
            BundleValue::Doubles(values) => ("double_array", values.clone()).into_pyobject(py)?,
            BundleValue::Strings(values) => ("string_array", values.clone()).into_pyobject(py)?,
            BundleValue::Bundle(value) => ("bundle", PyBundle(value.clone())).into_pyobject(py)?,
        }))
    }

    fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.to_owned()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __eq__(&self, other: &PyBundle) -> bool {
        self == other
    }
}

/// A field of a parcelable that is a holder.
#[pyfunction]
pub(crate) fn write_holder(to: &mut PyParcel, value: &PyHolder) -> PyResult<()> {
    to.0.write(|to| value.0.write(to)).map_err(failed)
}

#[pyfunction]
pub(crate) fn read_holder(source: &mut PyParcel, stable: bool) -> PyResult<PyHolder> {
    source.0.read(|from| ParcelableHolder::read(from, stability(stable))).map(PyHolder).map_err(failed)
}

#[pyfunction]
pub(crate) fn write_bundle(to: &mut PyParcel, value: &PyBundle) -> PyResult<()> {
    to.0.write(|to| to.write(&value.0)).map_err(failed)
}

/// A bundle, or null.
#[pyfunction]
pub(crate) fn read_bundle(source: &mut PyParcel) -> PyResult<Option<PyBundle>> {
    Ok(source.0.read(|from| from.read::<Option<PersistableBundle>>()).map_err(failed)?.map(PyBundle))
}
