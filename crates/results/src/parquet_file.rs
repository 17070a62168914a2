//! `datapoints.parquet`: flat columns, one row group per [`ROWS_PER_GROUP`] datapoints.

mod trust;

pub use trust::panic_becomes_an_error;

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical,
};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type, TypePtr};

use crate::columns::{Column, Columns, NO_NAME, NULL, Values, code_of};
use crate::schema::{Kind, SCHEMA_VERSION};
use crate::statistics::WAKE_LATENCY;
use crate::{Malformed, schema};

/// Datapoints that are in memory at once while a file is written: 8 MiB or so.
pub(crate) const ROWS_PER_GROUP: usize = 1 << 16;

/// The first bytes of every Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// Where the schema's version is in the file's metadata.
const VERSION_KEY: &str = "reveille.schema_version";

/// Rows that are decoded at once. A damaged file may claim any number of rows, so memory grows
/// with what is really there.
const BATCH_ROWS: usize = 1 << 14;

/// Name, kind and nullability of a column.
pub(crate) type Definition = (String, Kind, bool);

/// Writes parts of a result as they come.
pub(crate) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    definitions: Vec<Definition>,
    waiting: Option<Columns>,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(crate) fn new(target: W, definitions: Vec<Definition>) -> Result<Self, Malformed> {
        // Packed differences make integers smaller than a general compressor does, and a reader
        // without one has less to be led astray by a damaged file.
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::UNCOMPRESSED)
            .set_key_value_metadata(Some(vec![KeyValue::new(
                VERSION_KEY.to_owned(),
                SCHEMA_VERSION.to_string(),
            )]));
        for (name, kind, _) in &definitions {
            if *kind == Kind::Integer {
                let column = ColumnPath::from(name.as_str());
                properties = properties
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let schema = file_schema(&definitions).map_err(unwritable)?;
        let file = SerializedFileWriter::new(target, schema, Arc::new(properties.build()))
            .map_err(unwritable)?;
        Ok(Self {
            file,
            definitions,
            waiting: None,
        })
    }

    /// Takes datapoints in the order of the definitions.
    pub(crate) fn push(&mut self, part: Columns) -> Result<(), Malformed> {
        let waiting = match &mut self.waiting {
            None => self.waiting.insert(part),
            Some(waiting) => {
                waiting.append(part)?;
                waiting
            }
        };
        if waiting.rows >= ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    /// Writes what is waiting and the footer, and gives the target back.
    pub(crate) fn finish(mut self) -> Result<W, Malformed> {
        self.write_group()?;
        self.file.into_inner().map_err(unwritable)
    }

    fn write_group(&mut self) -> Result<(), Malformed> {
        let Some(columns) = self.waiting.take() else {
            return Ok(());
        };
        let mut group = self.file.next_row_group().map_err(unwritable)?;
        for (column, (_, _, nullable)) in columns.columns.iter().zip(&self.definitions) {
            let Some(mut writer) = group.next_column().map_err(unwritable)? else {
                break;
            };
            match &column.values {
                Values::Integer(values) => {
                    let known = |&value: &i64| (value != NULL).then_some(value);
                    write::<Int64Type>(&mut writer, values.iter().map(known), *nullable)?;
                }
                Values::Percent(values) => {
                    let known = |&value: &f32| (!value.is_nan()).then_some(value);
                    write::<FloatType>(&mut writer, values.iter().map(known), *nullable)?;
                }
                Values::Name { codes, names } => {
                    let names: Vec<ByteArray> = names
                        .iter()
                        .map(|name| ByteArray::from(name.as_str()))
                        .collect();
                    let name = |&code: &u8| names.get(usize::from(code)).cloned();
                    write::<ByteArrayType>(&mut writer, codes.iter().map(name), *nullable)?;
                }
            }
            writer.close().map_err(unwritable)?;
        }
        group.close().map_err(unwritable)?;
        Ok(())
    }
}

/// Writes the known values, and for a nullable column which rows they belong to.
fn write<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = Option<T::T>>,
    nullable: bool,
) -> Result<(), Malformed> {
    let (mut known, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        known.extend(value);
    }
    let levels = nullable.then_some(&levels[..]);
    let written = writer.typed::<T>().write_batch(&known, levels, None);
    written.map(drop).map_err(unwritable)
}

fn file_schema(definitions: &[Definition]) -> parquet::errors::Result<TypePtr> {
    let mut fields = Vec::with_capacity(definitions.len());
    for (name, kind, nullable) in definitions {
        let builder = match kind {
            Kind::Integer => Type::primitive_type_builder(name, Physical::INT64),
            Kind::Percent => Type::primitive_type_builder(name, Physical::FLOAT),
            Kind::Name => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8),
        };
        let repetition = match nullable {
            true => Repetition::OPTIONAL,
            false => Repetition::REQUIRED,
        };
        fields.push(Arc::new(builder.with_repetition(repetition).build()?));
    }
    Ok(Arc::new(
        Type::group_type_builder("datapoint")
            .with_fields(fields)
            .build()?,
    ))
}

fn unwritable(error: parquet::errors::ParquetError) -> Malformed {
    Malformed::new(format!("cannot be written: {error}"))
}

fn unreadable(error: parquet::errors::ParquetError) -> Malformed {
    Malformed::new(format!("is damaged: {error}"))
}

/// Reads a file; `wanted` are the columns to read, all where it is `None`.
pub(crate) fn read<R: ChunkReader + 'static>(
    source: R,
    wanted: Option<&[&str]>,
) -> Result<Columns, Malformed> {
    let mut all: Option<Columns> = None;
    in_parts(source, wanted, |part| match &mut all {
        None => {
            all = Some(part);
            Ok(())
        }
        Some(all) => all.append(part),
    })?;
    Ok(all.unwrap_or_default())
}

/// Gives `sink` one row group after another; at least one part comes, empty if the file is.
pub(crate) fn in_parts<R: ChunkReader + 'static>(
    source: R,
    wanted: Option<&[&str]>,
    mut sink: impl FnMut(Columns) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let bytes = source.len();
    let file = trust::guarded(|| {
        SerializedFileReader::new(source).map_err(|error| {
            Malformed::new(format!("is not a Parquet file, or was cut short: {error}"))
        })
    })?;
    trust::check(file.metadata(), bytes)?;
    let metadata = file.metadata().file_metadata();
    check_version(metadata.key_value_metadata())?;
    let described = metadata.schema_descr();
    let mut selected = Vec::new();
    for (at, column) in described.columns().iter().enumerate() {
        if wanted.is_none_or(|wanted| wanted.contains(&column.name())) {
            selected.push((at, empty_column(column)?));
        }
    }
    let mut names = described.columns().iter().map(|column| column.name());
    if !names.any(|name| name == WAKE_LATENCY) {
        return Err(Malformed::new(
            "has no column wake_latency_ns; it is not a result of reveille",
        ));
    }
    let empty = || -> Vec<Column> { selected.iter().map(|(_, column)| column.clone()).collect() };
    if file.num_row_groups() == 0 {
        return sink(Columns {
            columns: empty(),
            rows: 0,
        });
    }
    for group in 0..file.num_row_groups() {
        let part = trust::guarded(|| {
            let group = file.get_row_group(group).map_err(unreadable)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
            let mut columns = empty();
            for ((at, _), column) in selected.iter().zip(&mut columns) {
                read_column(group.as_ref(), *at, rows, column)?;
            }
            Ok(Columns { columns, rows })
        })?;
        sink(part)?;
    }
    Ok(())
}

fn check_version(metadata: Option<&Vec<KeyValue>>) -> Result<(), Malformed> {
    let version = metadata
        .into_iter()
        .flatten()
        .find(|pair| pair.key == VERSION_KEY)
        .and_then(|pair| pair.value.as_deref());
    let Some(version) = version else {
        return Err(Malformed::new(
            "has no schema version; it is not a result of reveille",
        ));
    };
    match version.parse::<u32>() {
        Ok(version) => schema::check_version(version),
        Err(_) => Err(Malformed::new(format!(
            "has the schema version {version:?}, no number"
        ))),
    }
}

fn empty_column(column: &ColumnDescriptor) -> Result<Column, Malformed> {
    let flat = column.path().parts().len() == 1 && column.max_rep_level() == 0;
    let values = match column.physical_type() {
        Physical::INT64 if flat => Values::Integer(Vec::new()),
        Physical::FLOAT if flat => Values::Percent(Vec::new()),
        Physical::BYTE_ARRAY if flat => Values::Name {
            codes: Vec::new(),
            names: Vec::new(),
        },
        other => {
            return Err(Malformed::new(format!(
                "column {}: is of type {other}, which no result has; it was not written by reveille",
                column.path()
            )));
        }
    };
    Ok(Column {
        name: column.name().to_owned(),
        values,
    })
}

fn read_column(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
    column: &mut Column,
) -> Result<(), Malformed> {
    let described = group.metadata().column(at).column_descr_ptr();
    let pages = group.get_column_page_reader(at).map_err(unreadable)?;
    let checked = trust::Checked::new(pages, rows as u64, described.physical_type());
    let reader = get_column_reader(described, Box::new(checked));
    match (reader, &mut column.values) {
        (ColumnReader::Int64ColumnReader(reader), Values::Integer(values)) => {
            in_batches(reader, rows, |value| {
                values.push(value.copied().unwrap_or(NULL));
                Ok(())
            })?;
        }
        (ColumnReader::FloatColumnReader(reader), Values::Percent(values)) => {
            in_batches(reader, rows, |value| {
                values.push(value.copied().unwrap_or(f32::NAN));
                Ok(())
            })?;
        }
        (ColumnReader::ByteArrayColumnReader(reader), Values::Name { codes, names }) => {
            in_batches(reader, rows, |value| {
                codes.push(match value {
                    None => NO_NAME,
                    Some(name) => code_of(names, name.data()).map_err(|expected| {
                        Malformed::new(format!("is damaged: expected {expected}"))
                    })?,
                });
                Ok(())
            })?;
        }
        _ => return Err(Malformed::new("is damaged: a column is of two types")),
    }
    if column.values.len() != rows {
        return Err(Malformed::new(format!(
            "is damaged: column {} has {} values of {rows}",
            column.name,
            column.values.len()
        )));
    }
    Ok(())
}

/// Gives `sink` each row's value, `None` for null, until `rows` are read or the column ends.
fn in_batches<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    mut sink: impl FnMut(Option<&T::T>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut left = rows;
    let mut values = Vec::with_capacity(BATCH_ROWS.min(rows));
    let mut levels = Vec::with_capacity(BATCH_ROWS.min(rows));
    loop {
        values.clear();
        levels.clear();
        let (records, known, _) = reader
            .read_records(left.min(BATCH_ROWS), Some(&mut levels), None, &mut values)
            .map_err(unreadable)?;
        if records == 0 {
            return Ok(());
        }
        let mut known = values.iter().take(known);
        if levels.is_empty() {
            for value in known.by_ref().take(records) {
                sink(Some(value))?;
            }
        } else {
            for &level in levels.iter().take(records) {
                sink(if level > 0 { known.next() } else { None })?;
            }
        }
        left = left.saturating_sub(records);
    }
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;
    use bytes::Bytes;
    use parquet::schema::parser::parse_message_type;

    /// A file without datapoints, of any schema and metadata.
    fn empty_file(fields: &str, metadata: &[(&str, Option<&str>)]) -> Bytes {
        let schema = parse_message_type(&format!("message datapoint {{ {fields} }}")).unwrap();
        let pair = |&(key, value): &(&str, Option<&str>)| KeyValue {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        };
        let properties = WriterProperties::builder()
            .set_key_value_metadata(Some(metadata.iter().map(pair).collect()))
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        Bytes::from(writer.unwrap().into_inner().unwrap())
    }

    const LATENCY: &str = "required int64 wake_latency_ns;";
    const VERSION: (&str, Option<&str>) = (VERSION_KEY, Some("1"));

    #[test]
    fn a_flat_column_is_read_by_its_type() {
        let kind = |fields: &str| {
            let file = empty_file(&format!("{LATENCY} {fields}"), &[VERSION]);
            read(file, Some(&["a", "b"])).map(|columns| columns.columns[0].values.clone())
        };
        let name = Values::Name {
            codes: vec![],
            names: vec![],
        };
        for (physical, values) in [
            ("int64", Values::Integer(vec![])),
            ("float", Values::Percent(vec![])),
            ("binary", name),
        ] {
            for flat in ["required", "optional"] {
                let read = kind(&format!("{flat} {physical} a;"));
                assert_eq!(read.as_ref(), Ok(&values), "{flat} {physical}");
            }
            for (nested, path) in [
                (format!("repeated {physical} a;"), "a"),
                (
                    format!("required group g {{ required {physical} b; }}"),
                    "g.b",
                ),
                (
                    format!("optional group g {{ optional {physical} b; }}"),
                    "g.b",
                ),
                (
                    format!("repeated group g {{ required {physical} b; }}"),
                    "g.b",
                ),
            ] {
                let wrong = kind(&nested).unwrap_err().to_string();
                let begin = format!("column \"{path}\": is of type ");
                assert!(
                    wrong.starts_with(&begin) && wrong.ends_with("it was not written by reveille"),
                    "{wrong}"
                );
            }
        }
        for foreign in ["int32", "double", "boolean", "int96"] {
            let wrong = kind(&format!("required {foreign} a;")).unwrap_err();
            assert!(wrong.to_string().contains("which no result has"), "{wrong}");
        }
    }

    #[test]
    fn a_file_has_a_schema_version_and_a_wake_latency() {
        let why = |fields: &str, metadata: &[(&str, Option<&str>)]| {
            let read = read(empty_file(fields, metadata), None);
            read.err().map(|wrong| wrong.to_string())
        };
        assert_eq!(why(LATENCY, &[VERSION]), None);
        let other = ("writer", Some("2"));
        assert_eq!(why(LATENCY, &[other, VERSION, other]), None);
        let said = [
            (LATENCY, &[][..]),
            (LATENCY, &[other]),
            (LATENCY, &[(VERSION_KEY, None)]),
            (LATENCY, &[other, (VERSION_KEY, Some("one"))]),
            (LATENCY, &[(VERSION_KEY, Some("2"))]),
            ("required int64 cpu;", &[VERSION]),
        ]
        .map(|(fields, metadata)| {
            let case = format!("{fields} {metadata:?}");
            (case, why(fields, metadata).unwrap())
        });
        snapshot!("damaged", said);
    }

    fn definitions() -> Vec<Definition> {
        let definition = |name: &str, kind, nullable| (name.to_owned(), kind, nullable);
        vec![
            definition("wake_latency_ns", Kind::Integer, false),
            definition("silent_time_ns", Kind::Integer, true),
            definition("cc6_percent", Kind::Percent, true),
            definition("requested_state", Kind::Name, true),
        ]
    }

    /// This many datapoints, with this many names in turn, each with `prefix`.
    fn part(rows: usize, names: usize, prefix: &str) -> Columns {
        let integers = |first: i64| (first..).take(rows).collect();
        let values = [
            Values::Integer(integers(0)),
            Values::Integer(integers(5)),
            Values::Percent(vec![0.5; rows]),
            Values::Name {
                codes: (0..rows).map(|row| (row % names) as u8).collect(),
                names: (0..names).map(|name| format!("{prefix}{name}")).collect(),
            },
        ];
        let column = |((name, _, _), values): (Definition, Values)| Column { name, values };
        let columns = definitions().into_iter().zip(values).map(column);
        Columns::new(columns.collect()).unwrap()
    }

    #[test]
    fn a_full_row_group_is_written_at_once() {
        let mut writer = ParquetWriter::new(Vec::new(), definitions()).unwrap();
        for rows in [ROWS_PER_GROUP - 1, 1, 2, 1] {
            writer.push(part(rows, 1, "C")).unwrap();
        }
        let file = Bytes::from(writer.finish().unwrap());
        let reader = SerializedFileReader::new(file.clone()).unwrap();
        let groups = reader.metadata().row_groups();
        let rows: Vec<i64> = groups.iter().map(|group| group.num_rows()).collect();
        assert_eq!(rows, [ROWS_PER_GROUP as i64, 3]);
        let columns = read(file.clone(), None).unwrap();
        assert_eq!(columns.rows, ROWS_PER_GROUP + 3);
        assert!(
            columns
                .columns
                .iter()
                .all(|column| column.values.len() == columns.rows)
        );
        let mut parts = Vec::new();
        in_parts(file, Some(&["cc6_percent"]), |part| {
            parts.push((part.rows, part.columns.len()));
            Ok(())
        })
        .unwrap();
        assert_eq!(parts, [(ROWS_PER_GROUP, 1), (3, 1)]);
    }

    #[test]
    fn unknown_values_are_null_in_the_file_and_unknown_again() {
        let mut written = part(5, 2, "C");
        for column in &mut written.columns[1..] {
            match &mut column.values {
                Values::Integer(values) => values[1] = NULL,
                Values::Percent(values) => values[2] = f32::NAN,
                Values::Name { codes, .. } => codes[0] = NO_NAME,
            }
        }
        let mut writer = ParquetWriter::new(Vec::new(), definitions()).unwrap();
        writer.push(written).unwrap();
        let file = Bytes::from(writer.finish().unwrap());
        let reader = SerializedFileReader::new(file.clone()).unwrap();
        let nulls = |column: usize| {
            let chunk = reader.metadata().row_group(0).column(column);
            chunk.statistics().unwrap().null_count_opt().unwrap_or(0)
        };
        assert_eq!([0, 1, 2, 3].map(nulls), [0, 1, 1, 1]);
        let read = read(file, None).unwrap();
        assert_eq!(read.integers("wake_latency_ns"), Some(&[0, 1, 2, 3, 4][..]));
        assert_eq!(
            read.integers("silent_time_ns"),
            Some(&[5, NULL, 7, 8, 9][..])
        );
        let shares = read.percents("cc6_percent").unwrap();
        assert!(shares[2].is_nan());
        assert_eq!([shares[0], shares[1], shares[3], shares[4]], [0.5; 4]);
        // In order of first appearance: row 0 has none.
        let (codes, names) = read.names("requested_state").unwrap();
        assert_eq!(codes, [NO_NAME, 0, 1, 0, 1]);
        assert_eq!(names, ["C1", "C0"]);
    }

    #[test]
    fn more_names_than_codes_are_refused_on_writing_and_on_reading() {
        let why = "column requested_state: has more than 255 names";
        let mut writer = ParquetWriter::new(Vec::new(), definitions()).unwrap();
        writer.push(part(200, 200, "C")).unwrap();
        let wrong = writer.push(part(200, 200, "S")).unwrap_err();
        assert_eq!(wrong.to_string(), why);
        // Each row group has few enough by itself.
        let mut writer = ParquetWriter::new(Vec::new(), definitions()).unwrap();
        for prefix in ["C", "S"] {
            writer.push(part(200, 200, prefix)).unwrap();
            writer.write_group().unwrap();
        }
        let file = Bytes::from(writer.finish().unwrap());
        assert_eq!(read(file.clone(), None).unwrap_err().to_string(), why);
        let mut rows = 0;
        in_parts(file, None, |part| {
            rows += part.rows;
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, 400);
    }
}
