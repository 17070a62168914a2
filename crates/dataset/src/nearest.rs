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
    fn a_slip_finds_its_name_and_another_word_does_not() {
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
}
