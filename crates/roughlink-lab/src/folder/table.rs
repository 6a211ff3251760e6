//! Columns of a Parquet file, read some rows at a time, so that memory does not grow with the file. The file is
//! untrusted, and so are its statements about its size. The decompressed size of a page is checked before
//! decompression, rows are counted while they are read, and files that expand too much are rejected.

use crate::disk;
use crate::error::LabError;
use parquet::basic::{Compression, Type as Physical};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader, SerializedPageReader};
use parquet::schema::types::ColumnDescPtr;
use roughlink_core::trace::columns::ColumnType;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Table of a result folder.
#[allow(missing_debug_implementations, reason = "the reader of Parquet has none")]
pub struct FolderTable {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    file: Arc<File>,
    most_rows: u64,
}

/// Heading of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHeading {
    /// Name of the column.
    pub name: String,
    /// Type of the values.
    pub kind: ColumnType,
    /// True if values may be absent.
    pub nullable: bool,
    /// Unit; empty without a unit.
    pub unit: String,
    /// Meaning; empty if the file does not state it.
    pub meaning: String,
}

/// Values of a column in some rows.
#[derive(Debug, PartialEq)]
pub enum ColumnValues {
    /// The file has no such column, because an earlier version wrote it.
    Absent,
    /// Integers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Real(Vec<Option<f64>>),
    /// Yes and no.
    Flags(Vec<Option<bool>>),
    /// Strings, empty for null.
    Words(Vec<ByteArray>),
}

impl ColumnValues {
    /// Returns the number in a row; 0 or 1 for a flag.
    pub(super) fn number(&self, row: usize) -> Option<f64> {
        match self {
            ColumnValues::Whole(numbers) => numbers[row].map(|n| n as f64),
            ColumnValues::Real(numbers) => numbers[row],
            ColumnValues::Flags(flags) => flags[row].map(|flag| f64::from(u8::from(flag))),
            ColumnValues::Words(_) | ColumnValues::Absent => None,
        }
    }

    /// Returns the word in a row; empty for null.
    pub fn word(&self, row: usize) -> &str {
        match self {
            ColumnValues::Words(words) => words[row].as_utf8().unwrap_or_default(),
            _ => "",
        }
    }

    fn len(&self) -> usize {
        match self {
            ColumnValues::Absent => 0,
            ColumnValues::Whole(numbers) => numbers.len(),
            ColumnValues::Real(numbers) => numbers.len(),
            ColumnValues::Flags(flags) => flags.len(),
            ColumnValues::Words(words) => words.len(),
        }
    }
}

impl FolderTable {
    /// Opens the table in the file `path`; `None` if the file does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, LabError> {
        let failed = |source| LabError::Read { path: path.to_owned(), source };
        let file = match disk::reader(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let bytes = file.metadata().map_err(failed)?.len();
        let reader = SerializedFileReader::new(file.try_clone().map_err(failed)?);
        let reader = reader.map_err(|e| failed(io::Error::other(e)))?;
        let most_rows = bytes.saturating_mul(ROWS_OF_A_BYTE);
        Ok(Some(FolderTable { path: path.to_owned(), reader, file: Arc::new(file), most_rows }))
    }

    /// Returns the headings of all columns.
    ///
    /// # Errors
    /// Fails if a column has a type that roughlink does not write.
    pub fn headings(&self) -> Result<Vec<TableHeading>, LabError> {
        let about = self.reader.metadata().file_metadata();
        let notes = about.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let note = |key: String| notes.iter().find(|n| n.key == key).and_then(|n| n.value.clone()).unwrap_or_default();
        let heading = |column: &ColumnDescPtr| {
            let name = column.path().string();
            let kind = match column.physical_type() {
                Physical::INT64 => ColumnType::Unsigned,
                Physical::DOUBLE => ColumnType::Float,
                Physical::BOOLEAN => ColumnType::Flag,
                Physical::BYTE_ARRAY => ColumnType::Category,
                _ => return Err(self.failed(foreign())),
            };
            let (unit, meaning) = (note(format!("{name}.unit")), note(format!("{name}.meaning")));
            Ok(TableHeading { kind, nullable: column.max_def_level() > 0, unit, meaning, name })
        };
        about.schema_descr().columns().iter().map(heading).collect()
    }

    /// Calls `each` with a number of rows and their columns `names`, from the first rows on, until it breaks.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn each(
        &self,
        names: &[&str],
        mut each: impl FnMut(usize, &[ColumnValues]) -> ControlFlow<()>,
    ) -> Result<(), LabError> {
        let mut left = self.most_rows;
        for group in 0..self.reader.num_row_groups() {
            if self.group(group, names, &mut left, &mut each).map_err(|e| self.failed(e))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn read<const N: usize>(
        &self,
        names: [&str; N],
        mut each: impl FnMut(usize, &[ColumnValues; N]),
    ) -> Result<(), LabError> {
        self.each(&names, |rows, columns| {
            each(rows, columns.try_into().expect("a column for each name"));
            ControlFlow::Continue(())
        })
    }

    fn failed(&self, e: ParquetError) -> LabError {
        LabError::Read { path: self.path.clone(), source: io::Error::other(e) }
    }

    /// Reads a row group of at most `left` rows.
    fn group(
        &self,
        index: usize,
        names: &[&str],
        left: &mut u64,
        each: &mut impl FnMut(usize, &[ColumnValues]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ParquetError> {
        let group = self.reader.metadata().row_group(index);
        let mut readers = Vec::new();
        for name in names {
            let reader = match group.columns().iter().find(|c| c.column_path().string() == *name) {
                None => None,
                Some(column) => {
                    let rows = usize::try_from(group.num_rows())?;
                    // `Pages` decompresses the pages.
                    let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
                    let pages = SerializedPageReader::new(Arc::clone(&self.file), &plain, rows, None)?;
                    let pages = Box::new(Pages { pages, compression: column.compression() });
                    Some(get_column_reader(column.column_descr_ptr(), pages))
                }
            };
            readers.push(reader);
        }
        loop {
            let read = |reader: &mut Option<ColumnReader>| reader.as_mut().map_or(Ok(ColumnValues::Absent), column);
            let columns = readers.iter_mut().map(read).collect::<Result<Vec<_>, _>>()?;
            let mut lengths = columns.iter().filter(|c| **c != ColumnValues::Absent).map(ColumnValues::len);
            let rows = lengths.next().unwrap_or(0);
            if lengths.any(|other| other != rows) {
                return Err(ParquetError::General("its columns have different numbers of rows".into()));
            }
            if rows == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            *left = left
                .checked_sub(rows as u64)
                .ok_or_else(|| ParquetError::General(format!("it has more than {ROWS_OF_A_BYTE} rows per byte")))?;
            if each(rows, &columns).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

fn foreign() -> ParquetError {
    ParquetError::General("unknown type of column".into())
}

/// Pages of a column, decompressed unless this makes them too large.
struct Pages {
    pages: SerializedPageReader<File>,
    compression: Compression,
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(mut page) = self.pages.get_next_page()? else { return Ok(None) };
        let refuse = |what: String| Err(ParquetError::General(what));
        let (Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. }) = &mut page else {
            return refuse("unknown kind of page".into());
        };
        match self.compression {
            Compression::UNCOMPRESSED => {}
            Compression::SNAPPY => {
                let failed = |e: snap::Error| ParquetError::General(format!("a page is damaged: {e}"));
                let bytes = snap::raw::decompress_len(buf).map_err(failed)?;
                if bytes > MAX_PAGE_SIZE {
                    return refuse(format!("a page has {bytes} bytes, more than {MAX_PAGE_SIZE}"));
                }
                *buf = snap::raw::Decoder::new().decompress_vec(buf).map_err(failed)?.into();
            }
            _ => return refuse("unknown compression".into()),
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Returns the next rows of a column: [`AT_ONCE`], or fewer at its end.
fn column(reader: &mut ColumnReader) -> Result<ColumnValues, ParquetError> {
    Ok(match reader {
        ColumnReader::Int64ColumnReader(r) => ColumnValues::Whole(read_optional(r)?),
        ColumnReader::DoubleColumnReader(r) => ColumnValues::Real(read_optional(r)?),
        ColumnReader::BoolColumnReader(r) => ColumnValues::Flags(read_optional(r)?),
        ColumnReader::ByteArrayColumnReader(r) => {
            ColumnValues::Words(read_optional(r)?.into_iter().map(Option::unwrap_or_default).collect())
        }
        _ => return Err(foreign()),
    })
}

/// Returns the next values of a column, `None` for null.
fn read_optional<T: DataType>(reader: &mut ColumnReaderImpl<T>) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut present, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
    while rows < AT_ONCE {
        let read = reader.read_records(AT_ONCE - rows, Some(&mut levels), None, &mut present)?.0;
        rows += read;
        if read == 0 {
            break;
        }
    }
    if levels.is_empty() {
        return Ok(present.into_iter().map(Some).collect()); // the column is required
    }
    let mut present = present.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { present.next() } else { None }).collect())
}

/// Maximum number of rows in memory.
const AT_ONCE: usize = 1 << 16;
/// Maximum size of a page, bytes: a batch of the largest series has pages of one megabyte.
const MAX_PAGE_SIZE: usize = 1 << 24;
/// Maximum number of rows per byte of a file: similar rows share bytes, but each takes at least a thousandth of one.
const ROWS_OF_A_BYTE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::Int64Type;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    /// Writes a file with `rows` equal numbers in a column, in pages of the largest size.
    fn bomb(path: &Path, rows: usize, dictionary: bool) -> u64 {
        let schema = parse_message_type("message m { required int64 time_ns; }").unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(dictionary)
            .set_data_page_row_count_limit(usize::MAX)
            .set_data_page_size_limit(1 << 30)
            .build();
        let file = File::create(path).unwrap();
        let mut out = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
        let mut group = out.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values = vec![7; 1 << 16];
        for _ in 0..rows >> 16 {
            column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
        }
        column.close().unwrap();
        group.close().unwrap();
        out.close().unwrap();
        path.metadata().unwrap().len()
    }

    fn read(path: &Path) -> Result<usize, String> {
        let (mut rows, mut most) = (0, 0);
        let table = FolderTable::open(path).unwrap().unwrap();
        let read = table.read(["time_ns", "absent"], |n, [time, absent]| {
            assert_eq!((time.number(n - 1), absent), (Some(7.0), &ColumnValues::Absent));
            (rows, most) = (rows + n, most.max(n));
        });
        assert!(most <= AT_ONCE, "{most} rows at once");
        read.map(|()| rows).map_err(|e| std::error::Error::source(&e).unwrap().to_string())
    }

    #[test]
    fn rows_are_read_in_batches_for_any_row_groups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        for dictionary in [false, true] {
            bomb(&path, 1 << 18, dictionary);
            assert_eq!(read(&path), Ok(1 << 18));
        }
    }

    #[test]
    fn decompression_bomb_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let bytes = bomb(&path, 1 << 23, true);
        assert!(bytes < (1 << 23) / ROWS_OF_A_BYTE, "{bytes} bytes");
        let refused = read(&path).unwrap_err();
        assert!(refused.contains("more than 1000 rows per byte"), "{refused}");
        bomb(&path, 1 << 22, false);
        let refused = read(&path).unwrap_err();
        assert!(refused.contains("a page has 33554432 bytes"), "{refused}");
    }
}
