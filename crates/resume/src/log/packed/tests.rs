use super::*;

/// Returns its bytes in pieces of this size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(self.0.len()).min(into.len());
        into[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

fn text_of(bytes: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    text(bytes).unwrap().read_to_end(&mut found).unwrap();
    found
}

fn refused(bytes: &[u8]) -> String {
    let read = text(bytes).and_then(|mut text| text.read_to_end(&mut Vec::new()));
    let error = read.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    error.to_string()
}

fn lines() -> Vec<u8> {
    b"[    1.000000] x\n".repeat(20)
}

/// `lines()`, compressed by gzip, `xz --check=crc32` and zstd.
fn packed() -> [Vec<u8>; 3] {
    let mut gzip = Vec::new();
    flate2::read::GzEncoder::new(&lines()[..], flate2::Compression::fast())
        .read_to_end(&mut gzip)
        .unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zstd = ruzstd::encoding::compress_to_vec(&lines()[..], level);
    [gzip, XZ.to_vec(), zstd]
}

const XZ: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21, 0x01,
    0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x01, 0x53, 0x00, 0x14, 0x5d, 0x00, 0x2d,
    0x88, 0x30, 0x46, 0x22, 0xe1, 0x9f, 0xfa, 0xe5, 0x51, 0x3a, 0x61, 0x17, 0xd1, 0x68, 0x10, 0xb0,
    0xa6, 0xc0, 0x00, 0x00, 0x27, 0xe1, 0x91, 0xdc, 0x00, 0x01, 0x2c, 0xd4, 0x02, 0x00, 0x00, 0x00,
    0x82, 0x00, 0x47, 0x65, 0x3e, 0x30, 0x0d, 0x8b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
];

#[test]
fn concatenated_compressed_parts_are_all_unpacked() {
    for packed in packed() {
        assert_eq!(text_of(&packed), lines());
        let twice = text_of(&packed.repeat(2));
        assert_eq!(twice, lines().repeat(2));
        // A read of zero bytes returns nothing, and later reads return everything.
        let mut text = text(&packed[..]).unwrap();
        assert_eq!(text.read(&mut []).unwrap(), 0);
        let mut found = Vec::new();
        text.read_to_end(&mut found).unwrap();
        assert_eq!(found, lines());
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let [.., zstd] = packed();
    // Eight bytes, and as many as the last four of these specify.
    let skipped = |bytes: u8| {
        let head = [0x5f, 0x2a, 0x4d, 0x18, bytes, 0, 0, 0];
        [&head[..], &vec![0x28; usize::from(bytes)]].concat()
    };
    for bytes in [0, 1, 5, 200] {
        let skipped = skipped(bytes);
        let text = [&skipped[..], &skipped, &zstd, &skipped, &zstd, &skipped].concat();
        assert_eq!(text_of(&text), lines().repeat(2), "{bytes}");
    }
}

#[test]
fn truncated_or_damaged_compressed_data_is_refused_with_a_message() {
    let cut = "it is packed, and cut";
    let [gzip, xz, _] = packed();
    for packed in [gzip, xz] {
        let words = refused(&packed[..packed.len() - 1]);
        assert!(words.starts_with(cut), "{words}");
        let mut damaged = packed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 4].fill(0xff);
        let words = refused(&damaged);
        assert!(words.starts_with("it is packed, and cannot be"), "{words}");
    }
}

#[test]
fn utf_16_text_does_not_depend_on_the_chunks_of_the_input() {
    // Of one, two, three and four bytes in UTF-8.
    let whole = "PM: x \u{fc} \u{2020} \u{1f600} \n".repeat(20);
    let units: Vec<u16> = whole.encode_utf16().collect();
    for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        for mark in [&[0xfeff_u16][..], &[]] {
            let units = mark.iter().chain(&units);
            let packed: Vec<u8> = units.flat_map(|&unit| bytes(unit)).collect();
            for piece in [1, 2, 3, 7, usize::MAX] {
                // Into a small buffer, and into a large one.
                for room in [1, 5, 1000] {
                    let mut text = text(Pieces(&packed, piece)).unwrap();
                    let (mut found, mut buffer) = (Vec::new(), vec![0; room]);
                    while let n @ 1.. = text.read(&mut buffer).unwrap() {
                        found.extend_from_slice(&buffer[..n]);
                    }
                    assert_eq!(found, whole.as_bytes(), "{piece}, {room}");
                }
            }
        }
    }
    // An unpaired surrogate is replaced, and a pair after one is intact.
    let halves = [0xfeff_u16, 0xd83d, 0x61, 0xde00, 0xd83d, 0xd83d, 0xde00];
    let bytes: Vec<u8> = halves.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    assert_eq!(
        text_of(&bytes),
        "\u{fffd}a\u{fffd}\u{fffd}\u{1f600}".as_bytes()
    );
}

#[test]
fn a_utf_8_byte_order_mark_is_not_part_of_the_text() {
    assert_eq!(text_of(b"\xef\xbb\xbf[    1.0] x\n"), b"[    1.0] x\n");
    assert_eq!(text_of(b"\xef\xbb"), b"\xef\xbb");
}

#[test]
fn carriage_returns_end_lines_if_nothing_else_does() {
    assert_eq!(text_of(b"a\rb\r"), b"a\nb\n");
    assert_eq!(text_of(b"a\r\nb\r"), b"a\r\nb\r");
    // The beginning decides.
    let long = |end: &str| ["x".repeat(HEAD_BYTES), end.to_owned()].concat();
    assert_eq!(text_of(long("\r\n").as_bytes()), long("\r\n").as_bytes());
    assert_eq!(text_of(b""), b"");
}

#[test]
fn one_control_character_in_twenty_is_binary() {
    let no_text = "it is not text";
    let of = |controls: usize, others: usize| [vec![1_u8; controls], vec![b'x'; others]].concat();
    for (controls, others) in [(4, 76), (3, 61), (63, 0), (0, 64), (0, 1000)] {
        assert_eq!(text_of(&of(controls, others)), of(controls, others));
    }
    // One more than one in twenty; 64 characters suffice for a decision.
    for (controls, others) in [(5, 75), (4, 60), (64, 0), (205, 3891)] {
        assert!(
            refused(&of(controls, others)).starts_with(no_text),
            "{controls}"
        );
    }
    // Tabs, line feeds and escapes are text, and zeros come from a machine that crashed.
    for byte in *b"\t\n\x1b\0" {
        let text = [vec![b'x'; 4], vec![byte; 100]].concat();
        assert_eq!(text_of(&text), text);
    }
}

#[test]
fn blocks_of_zeros_do_not_decide_whether_it_is_text() {
    let no_text = "it is not text";
    let zeros = |count: usize| vec![0_u8; count];
    // A log that starts with them; after 4096 of them the rest is unknown.
    for count in [1, 2, 3, 512, HEAD_BYTES - 1, HEAD_BYTES, 2 * HEAD_BYTES] {
        let text = [zeros(count), lines()].concat();
        assert_eq!(text_of(&text), text, "{count}");
    }
    // Of the remaining characters one in twenty may be a control character, wherever the zeros are.
    let of = |controls: usize, others: usize| {
        let (controls, others) = (vec![1_u8; controls], vec![b'x'; others]);
        [zeros(1500), controls, zeros(1500), others].concat()
    };
    for (controls, others) in [(4, 76), (3, 61), (63, 0)] {
        assert_eq!(text_of(&of(controls, others)), of(controls, others));
    }
    for (controls, others) in [(5, 75), (4, 60), (64, 0)] {
        assert!(
            refused(&of(controls, others)).starts_with(no_text),
            "{controls}"
        );
    }
}

#[test]
fn other_file_types_are_refused_by_name() {
    let mut tar = [b'a'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    // The compressed file may be one, too.
    let mut gzip = Vec::new();
    flate2::read::GzEncoder::new(&b"PERFILE2"[..], flate2::Compression::fast())
        .read_to_end(&mut gzip)
        .unwrap();
    let said = [
        ("UTF-32", &b"\xff\xfe\0\0P\0\0\0"[..]),
        ("UTF-32, big-endian", b"\0\0\xfe\xff\0\0\0P"),
        ("bzip2", b"BZh91AY"),
        ("lz4", b"\x04\x22\x4d\x18d"),
        ("zip", b"PK\x03\x04"),
        ("7z", b"7z\xbc\xaf\x27\x1c"),
        ("journal", b"LPKSHHRH\0"),
        ("trace-cmd", b"\x17\x08\x44tracing6"),
        ("perf", b"PERFILE2"),
        ("perf, packed", &gzip),
        ("ELF", b"\x7fELF\x02"),
        ("tar", &tar),
    ]
    .map(|(kind, bytes)| (kind, refused(bytes)));
    reveille_snapshot::snapshot!("unreadable", said);
    tar[261] = b'x';
    assert_eq!(text_of(&tar), tar);
}
