//! The columns of a Parquet file, one row group after the other, so that memory does not grow with the file.

use crate::disk;
use crate::error::LabError;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A series of a result folder.
pub(super) struct Table {
    path: PathBuf,
    reader: SerializedFileReader<File>,
}

/// A column of a row group.
#[derive(Debug, PartialEq)]
pub(super) enum Values {
    /// The file has no such column: an earlier version wrote it.
    Absent,
    /// Numbers, flags as 0 and 1.
    Numbers(Vec<Option<f64>>),
    /// Words.
    Words(Vec<ByteArray>),
}

impl Values {
    /// The number in a row.
    pub(super) fn number(&self, row: usize) -> Option<f64> {
        match self {
            Values::Numbers(numbers) => numbers[row],
            _ => None,
        }
    }

    /// The word in a row; empty if there is none.
    pub(super) fn word(&self, row: usize) -> &str {
        match self {
            Values::Words(words) => words[row].as_utf8().unwrap_or_default(),
            _ => "",
        }
    }
}

impl Table {
    /// The table in the file `path`; none if there is no such file.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, LabError> {
        let failed = |source| LabError::Read { path: path.to_owned(), source };
        let file = match disk::reader(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let reader = SerializedFileReader::new(file);
        Ok(Some(Table { path: path.to_owned(), reader: reader.map_err(|e| failed(io::Error::other(e)))? }))
    }

    /// Calls `each` with the number of rows and the columns `names` of every row group.
    pub(super) fn read<const N: usize>(
        &self,
        names: [&str; N],
        mut each: impl FnMut(usize, &[Values; N]),
    ) -> Result<(), LabError> {
        for group in 0..self.reader.num_row_groups() {
            let columns = self.group(group, names);
            let (rows, columns) =
                columns.map_err(|e| LabError::Read { path: self.path.clone(), source: io::Error::other(e) })?;
            each(rows, &columns);
        }
        Ok(())
    }

    fn group<const N: usize>(&self, index: usize, names: [&str; N]) -> Result<(usize, [Values; N]), ParquetError> {
        let group = self.reader.get_row_group(index)?;
        let rows = group.metadata().num_rows() as usize;
        let mut columns = [const { Values::Absent }; N];
        for (values, name) in columns.iter_mut().zip(names) {
            let schema = group.metadata().columns();
            if let Some(i) = schema.iter().position(|c| c.column_path().string() == name) {
                *values = column(group.get_column_reader(i)?, rows)?;
            }
        }
        Ok((rows, columns))
    }
}

fn column(reader: ColumnReader, rows: usize) -> Result<Values, ParquetError> {
    Ok(match reader {
        ColumnReader::Int64ColumnReader(r) => Values::Numbers(numbers(r, rows, |v| v as f64)?),
        ColumnReader::DoubleColumnReader(r) => Values::Numbers(numbers(r, rows, |v| v)?),
        ColumnReader::BoolColumnReader(r) => Values::Numbers(numbers(r, rows, |v| f64::from(u8::from(v)))?),
        ColumnReader::ByteArrayColumnReader(r) => {
            Values::Words(all(r, rows)?.into_iter().map(Option::unwrap_or_default).collect())
        }
        _ => return Err(ParquetError::General("a column of a type that roughlink does not write".into())),
    })
}

fn numbers<T: DataType>(
    reader: ColumnReaderImpl<T>,
    rows: usize,
    number: impl Fn(T::T) -> f64,
) -> Result<Vec<Option<f64>>, ParquetError> {
    Ok(all(reader, rows)?.into_iter().map(|v| v.map(&number)).collect())
}

/// The values of a column, none where it is null.
fn all<T: DataType>(mut reader: ColumnReaderImpl<T>, rows: usize) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut present, mut levels) = (Vec::with_capacity(rows), Vec::new());
    while reader.read_records(rows, Some(&mut levels), None, &mut present)?.0 > 0 {}
    if levels.is_empty() {
        return Ok(present.into_iter().map(Some).collect()); // the column is required
    }
    let mut present = present.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { present.next() } else { None }).collect())
}
