//! Tables: columns with units, shared with other libraries without a copy through the Arrow PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use crate::error::{FailureReason, guarded};
use arrow_array::builder::{StringViewBuilder, make_view};
use arrow_array::cast::AsArray as _;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringViewArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use roughlink_core::trace::columns::{self, Column, ColumnSink, ColumnType, Series};
use roughlink_lab::folder;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Table of Arrow record batches, with unit and meaning in the metadata of each column.
#[pyclass(frozen, name = "Table", module = "roughlink._native")]
#[derive(Clone)]
pub(crate) struct PyTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

pub(crate) struct PyColumn<'a> {
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) meaning: &'a str,
    pub(crate) values: ArrayRef,
}

impl PyTable {
    pub(crate) fn from_columns(columns: Vec<PyColumn<'_>>) -> Self {
        let field = |c: &PyColumn<'_>| {
            let kind = c.values.data_type();
            heading(c.name, kind.clone(), *kind == DataType::Float64 || c.values.is_nullable(), c.unit, c.meaning)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|c| c.values).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns of one length");
        PyTable { schema, batches: vec![batch] }
    }

    /// Reads a table of a result folder; fails if it takes more than `most` bytes.
    pub(crate) fn stored(file: &folder::FolderTable, most: u64) -> Result<Self, FailureReason> {
        let headings = file.headings()?;
        let fields = headings.iter().map(|h| heading(&h.name, kind(h.kind), h.nullable, &h.unit, &h.meaning));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let names: Vec<&str> = headings.iter().map(|h| &*h.name).collect();
        let (mut batches, mut bytes) = (Vec::new(), 0);
        file.each(&names, |rows, columns| {
            let arrays = columns.iter().map(|column| read(column, rows)).collect();
            let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("the columns of the file");
            bytes += batch.get_array_memory_size() as u64;
            batches.push(batch);
            if bytes > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if bytes > most { Err(FailureReason::Series(most)) } else { Ok(PyTable { schema, batches }) }
    }

    /// Creates the table of a series without rows.
    pub(crate) fn empty(series: Series) -> Self {
        PyTable { schema: schema(series), batches: Vec::new() }
    }

    fn position(&self, name: &str) -> PyResult<usize> {
        let all: Vec<&str> = self.schema.fields().iter().map(|field| &**field.name()).collect();
        let found = all.iter().position(|column| *column == name);
        found.ok_or_else(|| PyKeyError::new_err(format!("unknown column `{name}`; expected {}", all.join(", "))))
    }
}

#[pymethods]
impl PyTable {
    /// Returns the table as an Arrow IPC stream.
    fn ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let written = || {
            let mut out = StreamWriter::try_new(Vec::new(), &self.schema)?;
            self.batches.iter().try_for_each(|batch| out.write(batch))?;
            out.into_inner()
        };
        let bytes = py.detach(|| guarded(|| written().map_err(failed)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Creates a table. Each column has its name, type, unit, meaning and values.
    #[staticmethod]
    fn of(columns: Vec<(String, String, String, String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let mut arrays = Vec::with_capacity(columns.len());
        for (_, kind, _, _, values) in &columns {
            arrays.push(match &**kind {
                "int" => {
                    Arc::new(values.extract::<Vec<Option<i64>>>()?.into_iter().collect::<Int64Array>()) as ArrayRef
                }
                "float" => reals(values.extract::<Vec<Option<f64>>>()?),
                "bool" => Arc::new(values.extract::<Vec<Option<bool>>>()?.into_iter().collect::<BooleanArray>()),
                "str" => words(values.extract::<Vec<Option<String>>>()?.iter().map(Option::as_deref)),
                other => return Err(PyValueError::new_err(format!("unknown type of a column: {other}"))),
            });
        }
        if arrays.is_empty() {
            return Err(PyValueError::new_err("a table needs a column"));
        }
        if arrays.iter().any(|array| array.len() != arrays[0].len()) {
            return Err(PyValueError::new_err("the columns have different lengths"));
        }
        let headings = columns.iter().map(|(name, _, unit, meaning, _)| [name, unit, meaning].map(String::as_str));
        let named =
            headings.zip(arrays).map(|([name, unit, meaning], values)| PyColumn { name, unit, meaning, values });
        Ok(PyTable::from_columns(named.collect()))
    }

    /// Reads a table from an Arrow IPC stream.
    #[staticmethod]
    fn from_ipc(bytes: &[u8]) -> PyResult<Self> {
        let read = || {
            let reader = StreamReader::try_new(bytes, None)?;
            let schema = reader.schema();
            Ok(PyTable { schema, batches: reader.collect::<Result<_, _>>()? })
        };
        let table = read().map_err(|e: ArrowError| PyValueError::new_err(format!("cannot read the table: {e}")))?;
        let ours = [DataType::Int64, DataType::Float64, DataType::Boolean, DataType::Utf8View];
        match table.schema.fields().iter().find(|field| !ours.contains(field.data_type())) {
            None => Ok(table),
            Some(field) => Err(PyValueError::new_err(format!(
                "cannot read the table: unsupported column type {}",
                field.data_type()
            ))),
        }
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns the name, type, unit and meaning of each column.
    fn columns(&self) -> Vec<(String, String, String, String)> {
        let note = |field: &Field, key: &str| field.metadata().get(key).cloned().unwrap_or_default();
        let of = |field: &Arc<Field>| {
            let kind = match field.data_type() {
                DataType::Int64 => "int",
                DataType::Float64 => "float",
                DataType::Boolean => "bool",
                _ => "str",
            };
            (field.name().clone(), kind.to_owned(), note(field, "unit"), note(field, "meaning"))
        };
        self.schema.fields().iter().map(of).collect()
    }

    /// Returns a table of `count` rows from row `first` on, or fewer at the end.
    fn part(&self, first: usize, count: usize) -> Self {
        let (mut before, mut left) = (first, count);
        let mut batches = Vec::new();
        for batch in &self.batches {
            let skipped = before.min(batch.num_rows());
            let rows = left.min(batch.num_rows() - skipped);
            batches.extend((rows > 0).then(|| batch.slice(skipped, rows)));
            (before, left) = (before - skipped, left - rows);
        }
        PyTable { schema: Arc::clone(&self.schema), batches }
    }

    /// Returns a table of the named columns.
    fn select(&self, names: Vec<String>) -> PyResult<Self> {
        let at = names.iter().map(|name| self.position(name)).collect::<PyResult<Vec<_>>>()?;
        guarded(|| {
            let schema = Arc::new(self.schema.project(&at).map_err(failed)?);
            let batches =
                self.batches.iter().map(|batch| batch.project(&at)).collect::<Result<_, _>>().map_err(failed)?;
            Ok(PyTable { schema, batches })
        })
    }

    /// Returns the values of a column as Python objects.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let at = self.position(name)?;
        let mut out = Vec::new();
        for batch in &self.batches {
            list(py, batch.column(at), &mut out)?;
        }
        Ok(out)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows the exporter to ignore the requested schema.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok::<_, ArrowError>);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = guarded(|| FFI_ArrowSchema::try_from(&*self.schema).map_err(failed))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

/// Appends the values of an array to `out`.
fn list<'py>(py: Python<'py>, array: &ArrayRef, out: &mut Vec<Bound<'py, PyAny>>) -> PyResult<()> {
    for row in 0..array.len() {
        out.push(if array.is_null(row) {
            py.None().into_bound(py)
        } else {
            match array.data_type() {
                DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any(),
                DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any(),
                DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
                _ => array.as_string_view().value(row).into_pyobject(py)?.into_any(),
            }
        });
    }
    Ok(())
}

/// Panics on an Arrow error that only a bug in roughlink can cause.
fn failed(e: ArrowError) -> FailureReason {
    panic!("{e}")
}

fn heading(name: &str, kind: DataType, nullable: bool, unit: &str, meaning: &str) -> Field {
    let notes = [("unit", unit), ("meaning", meaning)].map(|(key, text)| (key.to_owned(), text.to_owned()));
    Field::new(name, kind, nullable).with_metadata(HashMap::from(notes))
}

pub(crate) fn words<'a>(words: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(words.into_iter().collect::<StringViewArray>())
}

pub(crate) fn integers(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(values.into_iter().map(|n| n as i64).collect::<Int64Array>())
}

pub(crate) fn reals(values: impl IntoIterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Float64Array>())
}

pub(crate) fn flags(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

/// Sink that keeps the series of a run in memory.
pub(crate) struct SeriesBuffer {
    batches: HashMap<Series, Vec<RecordBatch>>,
    bytes: u64,
    /// Maximum of `bytes`.
    most: u64,
}

/// Error of a run whose series exceed the maximum memory.
pub(crate) struct TooLong;

impl SeriesBuffer {
    pub(crate) fn new(most: u64) -> Self {
        SeriesBuffer { batches: HashMap::new(), bytes: 0, most }
    }

    pub(crate) fn tables(mut self) -> HashMap<Series, PyTable> {
        let mut table =
            |series| PyTable { batches: self.batches.remove(&series).unwrap_or_default(), ..PyTable::empty(series) };
        Series::ALL.map(|series| (series, table(series))).into()
    }
}

impl ColumnSink for SeriesBuffer {
    type Error = TooLong;

    fn batch(&mut self, series: Series, columns: &[Column<'_>]) -> Result<(), TooLong> {
        let batches = self.batches.entry(series).or_default();
        let schema = batches.first().map_or_else(|| schema(series), RecordBatch::schema);
        let arrays = columns.iter().map(array).collect();
        let batch = RecordBatch::try_new(schema, arrays).expect("the columns of the series");
        self.bytes += batch.get_array_memory_size() as u64;
        batches.push(batch);
        if self.bytes > self.most { Err(TooLong) } else { Ok(()) }
    }
}

fn schema(series: Series) -> SchemaRef {
    let field = |f: &columns::ColumnHeading| heading(f.name, kind(f.kind), f.nullable, f.unit, f.meaning);
    Arc::new(Schema::new(series.fields().iter().map(field).collect::<Vec<_>>()))
}

fn kind(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Unsigned => DataType::Int64,
        ColumnType::Float => DataType::Float64,
        ColumnType::Flag => DataType::Boolean,
        ColumnType::Category => DataType::Utf8View,
    }
}

/// Converts a column of a file with `rows` rows.
fn read(column: &folder::ColumnValues, rows: usize) -> ArrayRef {
    match column {
        folder::ColumnValues::Whole(v) => Arc::new(v.iter().copied().collect::<Int64Array>()),
        folder::ColumnValues::Real(v) => reals(v.iter().copied()),
        folder::ColumnValues::Flags(v) => Arc::new(v.iter().copied().collect::<BooleanArray>()),
        folder::ColumnValues::Words(_) => {
            // Store each word once.
            let mut words = StringViewBuilder::with_capacity(rows).with_deduplicate_strings();
            (0..rows).for_each(|row| words.append_value(column.word(row)));
            Arc::new(words.finish())
        }
        folder::ColumnValues::Absent => unreachable!("it has the columns of its headings"),
    }
}

fn array(column: &Column<'_>) -> ArrayRef {
    match column {
        Column::Whole(v) => integers(v.iter().copied()),
        Column::WholeOrNull(v) => Arc::new(v.iter().map(|n| n.map(|n| n as i64)).collect::<Int64Array>()),
        Column::Real(v) => Arc::new(Float64Array::from(v.to_vec())),
        Column::RealOrNull(v) => reals(v.iter().copied()),
        Column::Flag(v) => flags(v.iter().copied()),
        Column::Word { codes, words } => {
            // Store each word once; rows refer to it.
            let (mut text, mut views) = (Vec::new(), Vec::new());
            for word in words.iter() {
                views.push(make_view(word.as_bytes(), 0, text.len() as u32));
                text.extend_from_slice(word.as_bytes());
            }
            let rows: Vec<u128> = codes.iter().map(|code| views[*code as usize]).collect();
            let words = StringViewArray::try_new(rows.into(), vec![text.into()], None);
            Arc::new(words.expect("views of these words"))
        }
    }
}
