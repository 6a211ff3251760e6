//! The runs of an experiment as one tidy table, `runs.parquet`: one row per run, with axis values, replica, seed and
//! every metric as columns. The file's key-value metadata has units and meanings of columns as `<column>.unit` and
//! `<column>.meaning`, as in the series of a single run.

use super::{ExperimentPlan, quantity};
use crate::error::LabError;
use crate::metric::{self, Metric};
use crate::store::{RUNS_TABLE, Records, RunRecord, Store};
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
    Words(Vec<String>),
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Numbers; absent if the run has no value.
    Real(Vec<Option<f64>>),
}

impl ExperimentPlan {
    /// Returns the table of the runs in the store as a Parquet file.
    pub fn table(&self, store: &Store) -> Result<Vec<u8>, LabError> {
        let failed =
            |e: ParquetError| LabError::Write { path: store.folder().join(RUNS_TABLE), source: io::Error::other(e) };
        write(&self.columns(store)).map_err(failed)
    }

    /// Returns the columns of the table of finished runs.
    pub fn columns(&self, runs: &impl AsRef<Records>) -> Vec<TableColumn> {
        let records = runs.as_ref();
        let e = &self.experiment;
        let cells: Vec<super::plan::Planned> = self.all().collect();
        let runs: Vec<(&super::plan::Planned, &RunRecord)> = cells
            .iter()
            .flat_map(|cell| (0..e.replicas).map(move |replica| (cell, replica)))
            .filter_map(|(cell, replica)| Some((cell, records.get(&self.key(cell, replica))?)))
            .collect();
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
            let stacks = runs.iter().map(|(cell, _)| cell.real_stack().to_owned()).collect();
            columns.push(column("stack", "", "TCP stack of the run", CellValues::Words(stacks)));
        }
        for (i, axis) in e.axes.iter().enumerate() {
            let values = runs.iter().map(|(cell, _)| cell.at[i].clone()).collect();
            let name = free(&axis.name);
            columns.push(column(&name, "", &axis.label, CellValues::Words(values)));
            let read: Option<Vec<(f64, &str)>> = axis.points.iter().map(|p| quantity(&p.value)).collect();
            if let Some([(_, unit), rest @ ..]) = read.as_deref()
                && rest.iter().all(|(_, u)| u == unit)
            {
                let numbers = runs.iter().map(|(cell, _)| quantity(&cell.at[i]).map(|(n, _)| n)).collect();
                let name = free(&format!("{name}.number"));
                columns.push(column(
                    &name,
                    unit,
                    &format!("{} without its unit", axis.label),
                    CellValues::Real(numbers),
                ));
            }
        }
        let replicas = runs.iter().map(|(_, r)| i64::from(r.result.replica)).collect();
        columns.push(column(
            "replica",
            "",
            "number of the run among those with the same seed",
            CellValues::Whole(replicas),
        ));
        let seeds = runs.iter().map(|(_, r)| r.result.seed as i64).collect();
        columns.push(column("seed", "", "seed of all random streams", CellValues::Whole(seeds)));
        let own = e.metrics.iter().map(Metric::name_per_run);
        for metric in own.chain(metric::names()).filter_map(|name| Metric::new(name).ok()) {
            let about = metric.describe();
            let mut add = |name: &str, meaning: &str, of: fn(&Metric, &RunRecord) -> Option<f64>| {
                let values: Vec<Option<f64>> = runs.iter().map(|(_, record)| of(&metric, record)).collect();
                if values.iter().any(Option::is_some) && columns.iter().all(|c| c.name != name) {
                    columns.push(column(name, &about.unit, meaning, CellValues::Real(values)));
                }
            };
            add(&about.name, &about.label, Metric::value);
            let meaning = format!("{}: lower bound, because the run ended before it was reached", about.label);
            add(&format!("{}.at_least", about.name), &meaning, Metric::at_least);
        }
        columns
    }
}

fn write(columns: &[TableColumn]) -> Result<Vec<u8>, ParquetError> {
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
    let mut out = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = out.next_row_group()?;
    for c in columns {
        let mut writer = group.next_column()?.expect("as many columns as the schema has");
        match &c.values {
            CellValues::Words(v) => {
                let v: Vec<ByteArray> = v.iter().map(|w| ByteArray::from(w.as_str())).collect();
                writer.typed::<ByteArrayType>().write_batch(&v, None, None)?;
            }
            CellValues::Whole(v) => {
                writer.typed::<Int64Type>().write_batch(v, None, None)?;
            }
            CellValues::Real(v) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                let present: Vec<f64> = v.iter().flatten().copied().collect();
                writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    out.into_inner()
}

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
