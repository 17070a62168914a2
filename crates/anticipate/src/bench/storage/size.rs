//! Sizes in bytes, as a reader has them.

/// `4 KiB`, `1 MiB`, `512 bytes`.
pub(crate) fn text(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {

    #[test]
    fn a_size_has_the_largest_unit_that_divides_it() {
        assert_eq!(super::text(4096), "4 KiB");
        assert_eq!(super::text(1536), "1536 bytes");
        assert_eq!(super::text(1 << 28), "256 MiB");
    }
}
