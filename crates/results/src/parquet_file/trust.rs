//! A file's claims are checked before anything believes them.
//!
//! The parquet crate takes a file's metadata for true: damaged counts make it allocate gigabytes,
//! damaged offsets make it panic. Here counts are held against the bytes that are really there, and
//! what slips through ends as an error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{Compression, Type as Physical};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::Malformed;

/// Datapoints that a byte of a file can stand for at most. Packed differences, as we write wake
/// latencies, take five bytes per 128 values even where all are the same.
const ROWS_PER_BYTE_MAX: u64 = 64;

/// Datapoints in a row group at most; we write some 70 000.
const GROUP_ROWS_MAX: i64 = 1 << 20;

/// Are the file's row groups and column chunks where it has bytes? Otherwise: what is wrong.
pub(super) fn check(metadata: &ParquetMetaData, bytes: u64) -> std::result::Result<(), Malformed> {
    let mut rows: u64 = 0;
    for group in metadata.row_groups() {
        if !(0..=GROUP_ROWS_MAX).contains(&group.num_rows()) {
            return Err(Malformed::new(format!(
                "is damaged: a row group claims {} datapoints",
                group.num_rows()
            )));
        }
        rows += group.num_rows().unsigned_abs();
        check_group(group, bytes)?;
    }
    if rows > bytes.saturating_mul(ROWS_PER_BYTE_MAX) {
        return Err(Malformed::new(format!(
            "is damaged: {bytes} bytes cannot hold the {rows} datapoints that it claims"
        )));
    }
    Ok(())
}

fn check_group(group: &RowGroupMetaData, bytes: u64) -> std::result::Result<(), Malformed> {
    for chunk in group.columns() {
        let name = chunk.column_path();
        if chunk.compression() != Compression::UNCOMPRESSED {
            return Err(Malformed::new(format!(
                "column {name}: is compressed, which no result of reveille is"
            )));
        }
        let starts = [
            Some(chunk.data_page_offset()),
            chunk.dictionary_page_offset(),
        ];
        let length = u64::try_from(chunk.compressed_size()).ok();
        let fits = |start: i64| {
            let end = u64::try_from(start).ok()?.checked_add(length?)?;
            (end <= bytes).then_some(())
        };
        let first = starts.into_iter().flatten().min().unwrap_or_default();
        if fits(first).is_none() || starts.into_iter().flatten().any(|start| start < 0) {
            return Err(Malformed::new(format!(
                "is damaged: column {name} lies beyond the end of the file"
            )));
        }
    }
    Ok(())
}

/// Hands pages on whose counts can be true.
pub(super) struct Checked {
    pages: Box<dyn PageReader>,
    /// Datapoints of the row group.
    rows: u64,
    /// The least that a value takes in a dictionary, bytes.
    value_bytes: usize,
}

impl Checked {
    pub(super) fn new(pages: Box<dyn PageReader>, rows: u64, physical: Physical) -> Self {
        let value_bytes = match physical {
            Physical::INT64 => 8,
            // A text has at least its length before it.
            _ => 4,
        };
        Self {
            pages,
            rows,
            value_bytes,
        }
    }

    fn check(&self, page: Page) -> Result<Page> {
        let values = page.num_values();
        let possible = match &page {
            Page::DictionaryPage { buf, .. } => (buf.len() / self.value_bytes) as u64,
            _ => self.rows,
        };
        if u64::from(values) > possible {
            return Err(ParquetError::General(format!(
                "a page claims {values} values where {possible} are possible"
            )));
        }
        Ok(page)
    }
}

impl Iterator for Checked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.pages
            .get_next_page()?
            .map(|page| self.check(page))
            .transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

thread_local! {
    /// Is this thread within [`guarded`]?
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Is a panic of the calling thread caught here, and becomes an error of this crate? The parquet crate
/// panics on some damaged files. The program's panic hook, which a library must not replace, runs first:
/// one that asks this and stays silent prints only the error.
pub fn panic_becomes_an_error() -> bool {
    GUARDED.get()
}

/// Does `work`; a panic in it becomes an error.
pub(super) fn guarded<T>(
    work: impl FnOnce() -> std::result::Result<T, Malformed>,
) -> std::result::Result<T, Malformed> {
    let outer = GUARDED.replace(true);
    // What `work` leaves half done is dropped with its error.
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    done.unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        let line = why.lines().next().unwrap_or_default();
        Err(Malformed::new(format!("is damaged: {line}")))
    })
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;

    #[test]
    fn the_programs_panic_hook_stays_and_is_informed_of_a_caught_panic() {
        thread_local! {
            static CAUGHT: Cell<u32> = const { Cell::new(0) };
        }
        // Other tests panic as well.
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match panic_becomes_an_error() {
            true => CAUGHT.set(CAUGHT.get() + 1),
            false => print(info),
        }));
        let wrong = guarded::<()>(|| panic!("of the parquet crate")).unwrap_err();
        assert!(wrong.to_string().ends_with("of the parquet crate"));
        assert_eq!(CAUGHT.get(), 1);
        assert!(!panic_becomes_an_error());
    }

    #[test]
    fn a_column_ends_within_the_file() {
        use parquet::file::metadata::ColumnChunkMetaData;
        use parquet::schema::types::{ColumnDescriptor, ColumnPath, SchemaDescriptor, Type};
        use std::sync::Arc;

        let column = Type::primitive_type_builder("a", Physical::INT64);
        let column = Arc::new(column.build().unwrap());
        let schema = Type::group_type_builder("schema").with_fields(vec![column.clone()]);
        let schema = SchemaDescriptor::new(Arc::new(schema.build().unwrap()));
        let (schema, path) = (Arc::new(schema), ColumnPath::from("a"));
        let why = |data: i64, dictionary: Option<i64>, length: i64, how: Compression| {
            let descriptor = ColumnDescriptor::new(column.clone(), 0, 0, path.clone());
            let chunk = ColumnChunkMetaData::builder(Arc::new(descriptor))
                .set_compression(how)
                .set_data_page_offset(data)
                .set_dictionary_page_offset(dictionary)
                .set_total_compressed_size(length)
                .build()
                .unwrap();
            let group = RowGroupMetaData::builder(schema.clone());
            let group = group.set_column_metadata(vec![chunk]).build().unwrap();
            let found = check_group(&group, 100);
            found.map_err(|wrong| wrong.to_string()).err()
        };
        let plain = Compression::UNCOMPRESSED;
        for fits in [
            why(4, None, 96, plain),
            why(30, Some(4), 96, plain),
            // Some writers put 0 where there is no dictionary.
            why(4, Some(0), 96, plain),
        ] {
            assert_eq!(fits, None);
        }
        for beyond in [
            why(4, None, 97, plain),
            why(30, Some(4), 97, plain),
            why(4, None, -1, plain),
            why(-1, None, 10, plain),
            why(4, Some(-1), 10, plain),
            why(i64::MAX, None, i64::MAX, plain),
        ] {
            assert!(beyond.unwrap().contains("beyond the end"));
        }
        assert!(
            why(4, None, 96, Compression::SNAPPY)
                .unwrap()
                .contains("compressed")
        );
    }

    use parquet::basic::Encoding;
    use parquet::file::metadata::FileMetaData;
    use parquet::schema::types::SchemaDescriptor;
    use std::sync::Arc;

    #[test]
    fn a_file_may_claim_no_more_datapoints_than_its_bytes_can_hold() {
        let schema = parquet::schema::parser::parse_message_type("message a {}").unwrap();
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
        let why = |rows: &[i64], bytes: u64| {
            let group = |&rows: &i64| {
                let group = RowGroupMetaData::builder(schema.clone());
                group.set_num_rows(rows).build().unwrap()
            };
            let file = FileMetaData::new(1, 0, None, None, schema.clone(), None);
            let metadata = ParquetMetaData::new(file, rows.iter().map(group).collect());
            let found = check(&metadata, bytes);
            found.map_err(|wrong| wrong.to_string()).err()
        };
        // 64 for each byte, in all groups together.
        for rows in [&[][..], &[0], &[6400], &[3200, 3200], &[0, 6399, 1]] {
            assert_eq!(why(rows, 100), None, "{rows:?}");
        }
        let mut said = Vec::new();
        for rows in [&[6401][..], &[3200, 3201], &[80, 81, 7000]] {
            said.push((format!("{rows:?} in 100 bytes"), why(rows, 100).unwrap()));
        }
        // A million and some in a group.
        assert_eq!(why(&[1_048_576], 1 << 20), None);
        for rows in [1_048_577, i64::MAX, -1] {
            said.push((
                format!("{rows} in a group"),
                why(&[5, rows], 1 << 20).unwrap(),
            ));
        }
        snapshot!("damaged", said);
    }

    /// Pages that claim this many values.
    struct Pages(Vec<Page>);

    impl Iterator for Pages {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Self::Item> {
            self.get_next_page().transpose()
        }
    }

    impl PageReader for Pages {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            Ok(self.0.pop())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(self.0.last().map(|page| PageMetadata {
                num_rows: None,
                num_levels: Some(page.num_values() as usize),
                is_dict: false,
            }))
        }

        fn skip_next_page(&mut self) -> Result<()> {
            self.0.pop();
            Ok(())
        }
    }

    fn data(num_values: u32) -> Page {
        Page::DataPage {
            buf: bytes::Bytes::new(),
            num_values,
            encoding: Encoding::PLAIN,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        }
    }

    fn dictionary(num_values: u32, bytes: usize) -> Page {
        Page::DictionaryPage {
            buf: vec![0; bytes].into(),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }
    }

    #[test]
    fn a_page_may_claim_no_more_values_than_it_can_have() {
        let why = |page: Page, physical: Physical| {
            let mut checked = Checked::new(Box::new(Pages(vec![page])), 10, physical);
            checked.get_next_page().err().map(|wrong| wrong.to_string())
        };
        // As many as the row group has datapoints; in a dictionary as many as its bytes hold.
        for (page, physical) in [
            (data(0), Physical::INT64),
            (data(10), Physical::FLOAT),
            (dictionary(3, 24), Physical::INT64),
            (dictionary(6, 27), Physical::FLOAT),
            (dictionary(100, 400), Physical::BYTE_ARRAY),
        ] {
            assert_eq!(why(page, physical), None);
        }
        let said = [
            ("11 values", data(11), Physical::INT64),
            ("all values", data(u32::MAX), Physical::INT64),
            (
                "a dictionary of 4 in 31 bytes",
                dictionary(4, 31),
                Physical::INT64,
            ),
            ("of 7 in 27 bytes", dictionary(7, 27), Physical::FLOAT),
            ("of 1 in 3 bytes", dictionary(1, 3), Physical::BYTE_ARRAY),
        ]
        .map(|(case, page, physical)| (case, why(page, physical).unwrap()));
        snapshot!("damaged", said);
    }

    #[test]
    fn pages_are_passed_on_peeked_and_skipped_unchanged() {
        let pages = Pages(vec![data(11), data(3), data(2), data(1)]);
        let mut checked = Checked::new(Box::new(pages), 10, Physical::INT64);
        assert_eq!(checked.get_next_page().unwrap().unwrap().num_values(), 1);
        let peeked = checked.peek_next_page().unwrap().unwrap();
        assert_eq!(peeked.num_levels, Some(2));
        checked.skip_next_page().unwrap();
        assert_eq!(checked.next().unwrap().unwrap().num_values(), 3);
        assert!(checked.next().unwrap().is_err());
        assert!(checked.next().is_none() && checked.peek_next_page().unwrap().is_none());
    }

    #[test]
    fn a_panic_is_reported_by_its_first_line_and_an_error_unchanged() {
        let guarded_result = |work: fn() -> std::result::Result<(), Malformed>| {
            guarded(work).map_err(|wrong| wrong.to_string())
        };
        assert_eq!(guarded_result(|| Ok(())), Ok(()));
        let why = |work| guarded_result(work).unwrap_err();
        assert_eq!(why(|| Err(Malformed::new("as it is"))), "as it is");
        assert_eq!(why(|| panic!("one\ntwo")), "is damaged: one");
        assert_eq!(why(|| panic!("{}", 1 + 1)), "is damaged: 2");
        assert_eq!(why(|| std::panic::panic_any(7)), "is damaged: unknown");
    }

    #[test]
    fn a_nested_guard_leaves_the_outer_one_in_place() {
        assert!(!panic_becomes_an_error());
        let inner = guarded(|| {
            guarded(|| Ok(())).unwrap();
            Ok(panic_becomes_an_error())
        });
        assert_eq!(inner, Ok(true));
        assert!(!panic_becomes_an_error());
    }
}
