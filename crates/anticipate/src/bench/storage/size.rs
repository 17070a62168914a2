//! Sizes in bytes, as a user writes and reads them.

/// `4 KiB`, `1 MiB`, `512 bytes`.
pub(crate) fn text(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

/// Reads `4KiB`, `4k`, `512`, `1MiB`: a positive number of bytes, in powers of 1024.
///
/// # Errors
/// In words, for what is none.
pub fn parse(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("{text:?} is no size such as 4KiB, 512 or 256MiB");
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_lowercase().as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1_u64 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(unit).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("4KiB", 4096),
            ("512", 512),
            ("4k", 4096),
            ("1 MiB", 1 << 20),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "KiB", "-4k", "4 parsecs", "99999999999GiB", "1.5k"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(super::text(4096), "4 KiB");
        assert_eq!(super::text(1536), "1536 bytes");
        assert_eq!(super::text(1 << 28), "256 MiB");
    }
}
