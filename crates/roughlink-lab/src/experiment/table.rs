//! The runs of an experiment as one tidy table, `runs.parquet`: one row per run, with axis values, replica, seed and
//! every metric as columns. The file's key-value metadata has units and meanings of columns as `<column>.unit` and
//! `<column>.meaning`, as in the series of a single run.

use super::place::SharedTexts;
use super::{ExperimentPlan, quantity};
use crate::metric::{self, Metric};
use crate::store::RunRecord;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Columns that every run has.
const RESERVED: [&str; 3] = ["stack", "replica", "seed"];

/// A column of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Column name.
    pub name: String,
    /// Unit; empty without a unit.
    pub unit: String,
    /// Meaning.
    pub meaning: String,
    /// Values, one per run.
    pub values: CellValues,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValues {
    /// Words.
    Words(Vec<Arc<str>>),
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Numbers; NaN if the run has no value.
    Real(Vec<f64>),
}

/// Rows of the table, without the values of axes.
#[derive(Debug)]
pub(super) struct TableRows<'m> {
    /// Metrics in columns; `None` if there is no table.
    metrics: Option<&'m [Metric]>,
    cells: Vec<usize>,
    replicas: Vec<i64>,
    seeds: Vec<i64>,
    /// For each metric, its values and its lower bounds.
    values: Vec<[Values; 2]>,
}

/// Values of a column; those after the last value are missing.
#[derive(Clone, Debug, Default)]
struct Values(Vec<f64>);

impl Values {
    /// Sets the value of row `row`, which follows all others.
    fn set(&mut self, row: usize, value: f64) {
        self.0.resize(row, f64::NAN);
        self.0.push(value);
    }

    /// Adds the values of the rows from `row`.
    fn append(&mut self, row: usize, more: Values) {
        if !more.0.is_empty() {
            self.0.resize(row, f64::NAN);
            self.0.extend(more.0);
        }
    }
}

impl<'m> TableRows<'m> {
    pub(super) fn new(metrics: Option<&'m [Metric]>) -> Self {
        let values = vec![<[Values; 2]>::default(); metrics.map_or(0, <[Metric]>::len)];
        TableRows { metrics, cells: Vec::new(), replicas: Vec::new(), seeds: Vec::new(), values }
    }

    /// Adds a run of the cell with this number.
    pub(super) fn add(&mut self, cell: usize, record: &RunRecord) {
        let Some(metrics) = self.metrics else { return };
        let row = self.cells.len();
        self.cells.push(cell);
        self.replicas.push(i64::from(record.result.replica));
        self.seeds.push(record.result.seed as i64);
        for (metric, [values, at_least]) in metrics.iter().zip(&mut self.values) {
            match metric.bounds(record) {
                Some([from, to]) if from == to => values.set(row, from),
                Some([from, _]) => at_least.set(row, from),
                None => {}
            }
        }
    }

    pub(super) fn append(&mut self, more: TableRows<'_>) {
        let row = self.cells.len();
        self.cells.extend(more.cells);
        self.replicas.extend(more.replicas);
        self.seeds.extend(more.seeds);
        for (all, more) in self.values.iter_mut().zip(more.values) {
            for (all, more) in all.iter_mut().zip(more) {
                all.append(row, more);
            }
        }
    }
}

impl ExperimentPlan {
    /// Returns the metrics of the table's columns. The metrics of the experiment are first.
    pub(super) fn table_metrics(&self) -> Vec<Metric> {
        let own = self.experiment.metrics.iter().map(Metric::name_per_run);
        let mut seen = BTreeSet::new();
        let names = own.chain(metric::names()).filter(|name| seen.insert(*name));
        names.filter_map(|name| Metric::new(name).ok()).collect()
    }

    /// Returns the columns of a table with these rows.
    pub(super) fn table_of(&self, rows: TableRows<'_>) -> Vec<TableColumn> {
        let e = &self.experiment;
        let count = rows.cells.len();
        let column = |name: &str, unit: &str, meaning: &str, values| TableColumn {
            name: name.into(),
            unit: unit.into(),
            meaning: meaning.into(),
            values,
        };
        // Names of other columns, which an axis must not use.
        let mut taken: BTreeSet<String> = metric::names().into_iter().chain(RESERVED).map(str::to_owned).collect();
        taken.extend(e.metrics.iter().map(|m| m.name_per_run().to_owned()));
        let mut free = |name: &str| {
            let mut name = name.to_owned();
            while !taken.insert(name.clone()) {
                name = format!("axis.{name}");
            }
            name
        };
        let mut columns = Vec::new();
        if e.stacks.iter().any(|s| !s.name.is_empty()) {
            let mut texts = SharedTexts::default();
            let stacks = rows.cells.iter().map(|&cell| texts.share(self.stack_of(cell))).collect();
            columns.push(column("stack", "", "TCP stack of the run", CellValues::Words(stacks)));
        }
        for (i, axis) in e.axes.iter().enumerate() {
            let words: Vec<Arc<str>> = axis.points.iter().map(|point| point.value.as_str().into()).collect();
            // The last axis varies fastest.
            let stride: usize = e.axes[i + 1..].iter().map(|later| later.points.len()).product();
            let at = |cell: &usize| cell / stride % axis.points.len();
            let name = free(&axis.name);
            let values = rows.cells.iter().map(|cell| Arc::clone(&words[at(cell)])).collect();
            columns.push(column(&name, "", &axis.label, CellValues::Words(values)));
            let read: Option<Vec<(f64, &str)>> = axis.points.iter().map(|p| quantity(&p.value)).collect();
            if let Some(read @ [(_, unit), rest @ ..]) = read.as_deref()
                && rest.iter().all(|(_, u)| u == unit)
            {
                let numbers = rows.cells.iter().map(|cell| read[at(cell)].0).collect();
                let meaning = format!("{} without its unit", axis.label);
                columns.push(column(&free(&format!("{name}.number")), unit, &meaning, CellValues::Real(numbers)));
            }
        }
        let meaning = "number of the run among those with the same seed";
        columns.push(column("replica", "", meaning, CellValues::Whole(rows.replicas)));
        columns.push(column("seed", "", "seed of all random streams", CellValues::Whole(rows.seeds)));
        for (metric, [values, at_least]) in rows.metrics.unwrap_or_default().iter().zip(rows.values) {
            let about = metric.describe();
            let mut add = |name: &str, meaning: &str, Values(mut values): Values| {
                if !values.is_empty() && columns.iter().all(|c: &TableColumn| c.name != name) {
                    values.resize(count, f64::NAN);
                    columns.push(column(name, &about.unit, meaning, CellValues::Real(values)));
                }
            };
            add(&about.name, &about.label, values);
            let meaning = format!("{}: lower bound, because the run ended before it was reached", about.label);
            add(&format!("{}.at_least", about.name), &meaning, at_least);
        }
        columns
    }
}

/// Writes the table of runs as a Parquet file.
///
/// # Errors
/// Returns an error if `out` cannot be written.
pub fn write(columns: &[TableColumn], out: impl io::Write + Send) -> io::Result<()> {
    write_parquet(columns, out).map_err(|e| match e {
        ParquetError::External(source) => source.downcast().map_or_else(io::Error::other, |source| *source),
        other => io::Error::other(other),
    })
}

fn write_parquet(columns: &[TableColumn], out: impl io::Write + Send) -> Result<(), ParquetError> {
    let fields = columns.iter().map(|c| c.field().map(Arc::new)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("runs").with_fields(fields).build()?;
    let mut notes = Vec::new();
    for c in columns {
        for (what, text) in [("unit", &c.unit), ("meaning", &c.meaning)] {
            if !text.is_empty() {
                notes.push(KeyValue::new(format!("{}.{what}", c.name), text.clone()));
            }
        }
    }
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("roughlink ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(notes))
        .build();
    let mut out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut group = out.next_row_group()?;
    for c in columns {
        let mut writer = group.next_column()?.expect("as many columns as the schema has");
        match &c.values {
            CellValues::Words(v) => {
                for part in v.chunks(ROWS_AT_ONCE) {
                    let part: Vec<ByteArray> = part.iter().map(|word| ByteArray::from(&**word)).collect();
                    writer.typed::<ByteArrayType>().write_batch(&part, None, None)?;
                }
            }
            CellValues::Whole(v) => {
                writer.typed::<Int64Type>().write_batch(v, None, None)?;
            }
            CellValues::Real(v) => {
                for part in v.chunks(ROWS_AT_ONCE) {
                    let levels: Vec<i16> = part.iter().map(|x| i16::from(!x.is_nan())).collect();
                    let present: Vec<f64> = part.iter().copied().filter(|x| !x.is_nan()).collect();
                    writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
                }
            }
        }
        writer.close()?;
    }
    group.close()?;
    out.close().map(drop)
}

/// Rows that are written together.
const ROWS_AT_ONCE: usize = 8192;

impl TableColumn {
    fn field(&self) -> Result<Type, ParquetError> {
        let (physical, repetition, logical) = match self.values {
            CellValues::Words(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
            CellValues::Whole(_) => (Physical::INT64, Repetition::REQUIRED, None),
            CellValues::Real(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
        };
        let field = Type::primitive_type_builder(&self.name, physical);
        field.with_repetition(repetition).with_logical_type(logical).build()
    }
}
