//! CPU lists as the kernel writes them: `0-3,8,10-11`.

/// The CPUs of a kernel list, ascending, each once; `None` if it is not such a list.
/// The empty list is the empty text.
pub fn parse(list: &str) -> Option<Vec<u32>> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // A kernel has at most 8192 CPUs; beyond that the text is not a CPU list.
        if first > last || last > 1 << 16 {
            return None;
        }
        ranges.push((first, last));
    }
    // Merged before they are spelled out: a long text must not become an enormous list.
    ranges.sort_unstable();
    let mut cpus = Vec::new();
    for (first, last) in ranges {
        let next = cpus.last().map_or(0, |last| last + 1);
        cpus.extend(first.max(next)..=last);
    }
    Some(cpus)
}

/// `CPU 3` or `CPUs 0-2`.
pub fn named(cpus: &[u32]) -> String {
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {}", format(cpus))
}

/// The shortest list of the kernel's form for these CPUs.
pub fn format(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in sorted {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_in_the_kernels_format() {
        assert_eq!(parse("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse("5,3-6,4,0-1"), Some(vec![0, 1, 3, 4, 5, 6]));
        assert_eq!(parse(""), Some(vec![]));
        assert_eq!(format(&[8, 7, 0, 1, 2, 5]), "0-2,5,7-8");
        assert_eq!(format(&[]), "");
    }

    #[test]
    fn an_invalid_list_is_refused() {
        for text in ["a", "3-1", "1-", "-1", "0-4294967295", "1,,x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_up_to_the_limit_are_accepted_and_touching_ranges_counted_once() {
        assert_eq!(parse("65536"), Some(vec![65536]));
        assert_eq!(parse("65537"), None);
        assert_eq!(parse("3-3"), Some(vec![3]));
        assert_eq!(parse("0-2,2-4,2,1-3"), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(parse("1,1"), Some(vec![1]));
    }
}
