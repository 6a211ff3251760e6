//! Batches of columns as Parquet and as CSV.

use super::OutputError;
use super::folder::{HashedFile, write_error};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use roughlink_core::trace::columns::{Column, ColumnHeading, ColumnType, Series};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

/// Parquet file: one row group per batch, Snappy, words as dictionaries. The file's key-value metadata has unit and
/// meaning of each column as `<column>.unit` and `<column>.meaning`.
pub(super) struct ParquetTable {
    path: PathBuf,
    out: SerializedFileWriter<HashedFile>,
}

impl ParquetTable {
    pub(super) fn new(series: Series, file: HashedFile) -> Result<Self, OutputError> {
        let path = file.path().to_owned();
        let schema = parse_message_type(&schema(series)).expect("a well-formed schema");
        let out = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties(series)));
        Ok(ParquetTable { out: out.map_err(|e| failed(&path, e))?, path })
    }

    pub(super) fn batch(&mut self, columns: &[Column<'_>]) -> Result<(), OutputError> {
        write_group(&mut self.out, columns).map_err(|e| failed(&self.path, e))
    }

    pub(super) fn finish(self) -> Result<HashedFile, OutputError> {
        self.out.into_inner().map_err(|e| failed(&self.path, e))
    }
}

fn schema(series: Series) -> String {
    let mut text = format!("message {} {{\n", series.name());
    for f in series.fields() {
        let presence = if f.nullable { "optional" } else { "required" };
        let (kind, annotation) = match f.kind {
            ColumnType::Unsigned => ("int64", ""),
            ColumnType::Float => ("double", ""),
            ColumnType::Flag => ("boolean", ""),
            ColumnType::Category => ("binary", " (STRING)"),
        };
        let _ = writeln!(text, "  {presence} {kind} {}{annotation};", f.name);
    }
    text + "}"
}

fn properties(series: Series) -> WriterProperties {
    let mut p = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("roughlink ", env!("CARGO_PKG_VERSION")).to_owned());
    let mut notes = Vec::new();
    for f in series.fields() {
        if grows(f) {
            let column = ColumnPath::from(f.name);
            p = p.set_column_dictionary_enabled(column.clone(), false);
            p = p.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        if !f.unit.is_empty() {
            notes.push(KeyValue::new(format!("{}.unit", f.name), f.unit.to_owned()));
        }
        notes.push(KeyValue::new(format!("{}.meaning", f.name), f.meaning.to_owned()));
    }
    p.set_key_value_metadata(Some(notes)).build()
}

/// Returns true for values that rarely repeat but have small differences.
fn grows(f: &ColumnHeading) -> bool {
    matches!(f.name, "time_ns" | "snd_una_bytes" | "snd_nxt_bytes" | "delivered_bytes" | "rtt_samples" | "seq")
}

fn write_group(out: &mut SerializedFileWriter<HashedFile>, columns: &[Column<'_>]) -> Result<(), ParquetError> {
    let mut group = out.next_row_group()?;
    for column in columns {
        let mut writer = group.next_column()?.expect("as many columns as the schema has");
        write_column(&mut writer, column)?;
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

fn write_column(writer: &mut SerializedColumnWriter<'_>, column: &Column<'_>) -> Result<(), ParquetError> {
    match column {
        Column::Whole(v) => {
            let v: Vec<i64> = v.iter().map(|x| *x as i64).collect();
            writer.typed::<Int64Type>().write_batch(&v, None, None)
        }
        Column::WholeOrNull(v) => {
            let present: Vec<i64> = v.iter().flatten().map(|x| *x as i64).collect();
            writer.typed::<Int64Type>().write_batch(&present, Some(&levels(v)), None)
        }
        Column::Real(v) => writer.typed::<DoubleType>().write_batch(v, None, None),
        Column::RealOrNull(v) => {
            let present: Vec<f64> = v.iter().flatten().copied().collect();
            writer.typed::<DoubleType>().write_batch(&present, Some(&levels(v)), None)
        }
        Column::Flag(v) => writer.typed::<BoolType>().write_batch(v, None, None),
        Column::Word { codes, words } => {
            let words: Vec<ByteArray> = words.iter().map(|w| ByteArray::from(w.as_str())).collect();
            let v: Vec<ByteArray> = codes.iter().map(|c| words[*c as usize].clone()).collect();
            writer.typed::<ByteArrayType>().write_batch(&v, None, None)
        }
    }?;
    Ok(())
}

/// Returns Parquet's definition levels: 1 for a value, 0 for null.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|v| i16::from(v.is_some())).collect()
}

fn failed(path: &std::path::Path, e: ParquetError) -> OutputError {
    let source = match e {
        ParquetError::External(e) => e.downcast::<io::Error>().map_or_else(io::Error::other, |e| *e),
        other => io::Error::other(other),
    };
    OutputError::Write { path: path.to_owned(), source }
}

/// CSV file (RFC 4180, but lines end with a line feed): words as numbers, flags as 0 and 1, null as an empty field.
/// Segments without payload are omitted.
pub(super) struct Csv {
    series: Series,
    out: HashedFile,
    line: String,
}

impl Csv {
    pub(super) fn new(series: Series, out: HashedFile) -> Result<Self, OutputError> {
        let mut csv = Csv { series, out, line: String::new() };
        let names: Vec<_> = series.fields().iter().map(|f| f.name).collect();
        csv.line = names.join(",");
        csv.end()?;
        Ok(csv)
    }

    pub(super) fn series(&self) -> Series {
        self.series
    }

    pub(super) fn batch(&mut self, columns: &[Column<'_>]) -> Result<(), OutputError> {
        let payload = self.series.fields().iter().position(|f| f.name == "len").map(|i| columns[i]);
        for row in 0..columns.first().map_or(0, Column::len) {
            if let Some(Column::Whole(len)) = payload
                && len[row] == 0
            {
                continue;
            }
            for (i, column) in columns.iter().enumerate() {
                if i > 0 {
                    self.line.push(',');
                }
                let line = &mut self.line;
                let _ = match column {
                    Column::Whole(v) => write!(line, "{}", v[row]),
                    Column::WholeOrNull(v) => v[row].map_or(Ok(()), |x| write!(line, "{x}")),
                    Column::Real(v) => write!(line, "{}", v[row]),
                    Column::RealOrNull(v) => v[row].map_or(Ok(()), |x| write!(line, "{x}")),
                    Column::Flag(v) => write!(line, "{}", u8::from(v[row])),
                    Column::Word { codes, .. } => write!(line, "{}", codes[row]),
                };
            }
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), OutputError> {
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes()).map_err(write_error(self.out.path()))?;
        self.line.clear();
        Ok(())
    }

    pub(super) fn finish(self) -> HashedFile {
        self.out
    }
}
