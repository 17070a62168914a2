//! "Did you mean": the known name that is nearest to a mistyped one.

/// Edits beyond which a name is another one and no slip, as a share of its length.
const EDITS_PER_LETTER: usize = 3;

/// Names longer than this are not looked for.
const LETTERS_MAX: usize = 64;

/// The nearest of `known`, `None` where none is near.
pub(crate) fn name<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > LETTERS_MAX {
        return None;
    }
    let near = known.map(|known| (edits(typed, known), known));
    // A column without its unit is meant more often than one with other letters.
    let rank = |&(edits, known): &(usize, &str)| (!known.starts_with(typed), edits);
    let (edits, nearest) = near.min_by_key(rank)?;
    let is_near = nearest.starts_with(typed) && typed.len() >= 3
        || edits <= typed.len().div_ceil(EDITS_PER_LETTER);
    is_near.then_some(nearest)
}

/// Levenshtein's distance, letters in either case being the same.
fn edits(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in right.iter().enumerate() {
            let same = letter.eq_ignore_ascii_case(other);
            let replaced = diagonal + usize::from(!same);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_another_word_does_not() {
        let known = ["wake_latency_ns", "silent_time_ns", "cpu"];
        assert_eq!(
            name("wake_latncy_ns", known.into_iter()),
            Some("wake_latency_ns")
        );
        assert_eq!(
            name("silent_time", known.into_iter()),
            Some("silent_time_ns")
        );
        assert_eq!(name("CPU", known.into_iter()), Some("cpu"));
        assert_eq!(name("temperature", known.into_iter()), None);
    }

    #[test]
    fn the_distance_is_the_least_number_of_letters_to_change() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("aBC", "Abc", 0),
            // One letter more, less or different, at either end and inside.
            ("abc", "xabc", 1),
            ("abc", "abxc", 1),
            ("abc", "abcx", 1),
            ("abc", "bc", 1),
            ("abc", "ac", 1),
            ("abc", "ab", 1),
            ("abc", "xbc", 1),
            ("abc", "axc", 1),
            ("abc", "abx", 1),
            // The textbook's example.
            ("kitten", "sitting", 3),
            ("saturday", "sunday", 3),
            ("flaw", "lawn", 2),
            ("ca", "abc", 3),
        ] {
            assert_eq!(edits(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn a_name_is_near_by_prefix_or_by_one_edit_in_three_letters() {
        for (typed, known, expected) in [
            // Three letters are a prefix, two are not.
            ("tim", &["time_ns"][..], Some("time_ns")),
            ("ti", &["time_ns"], None),
            // One edit in three letters, two in four.
            ("cpx", &["cpu"], Some("cpu")),
            ("cxy", &["cpu"], None),
            ("abxy", &["abcd"], Some("abcd")),
            ("axyz", &["abcd"], None),
            // A prefix is preferred to fewer edits; of several the nearest.
            (
                "cpu_fr",
                &["gpu_fr", "cpu_frequency"],
                Some("cpu_frequency"),
            ),
            ("time", &["time_stamp_ns", "time_ns"], Some("time_ns")),
            ("cpu", &[], None),
        ] {
            assert_eq!(name(typed, known.iter().copied()), expected, "{typed}");
        }
    }

    #[test]
    fn a_name_of_more_than_64_letters_is_not_compared() {
        let of = |letters: usize| "x".repeat(letters);
        let (longest, longer) = (of(64), of(65));
        assert_eq!(name(&longest, [&*longest].into_iter()), Some(&*longest));
        assert_eq!(name(&longer, [&*longer].into_iter()), None);
    }
}
