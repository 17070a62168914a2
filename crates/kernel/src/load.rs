//! How idle each CPU is, by /proc/stat (proc(5)).

use std::collections::BTreeMap;

use crate::Root;

/// Ticks that each online CPU has been idle since boot, waiting for I/O included; `None` where
/// /proc/stat cannot be read. A tick is 10 ms on nearly every machine.
pub fn idle_ticks(root: &Root) -> Option<BTreeMap<u32, u64>> {
    Some(parse(&root.text("proc/stat")?))
}

/// How many tasks ran or waited to run, the mean of the last minute; `None` where /proc/loadavg cannot be
/// read.
pub fn of_last_minute(root: &Root) -> Option<f64> {
    let text = root.text("proc/loadavg")?;
    text.split_whitespace().next()?.parse().ok()
}

fn parse(stat: &str) -> BTreeMap<u32, u64> {
    let cpu = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let number = fields.next()?.parse().ok()?;
        // user nice system idle iowait ...
        let mut ticks = fields
            .skip(3)
            .take(2)
            .map(|field| field.parse::<u64>().ok());
        Some((number, ticks.next()?? + ticks.next()??))
    };
    // The first line, `cpu  ...`, is the sum of all.
    stat.lines()
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(cpu)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_the_fourth_and_fifth_field_of_each_cpus_line() {
        let stat = "cpu  9 9 9 9 9 9\ncpu0 1 2 3 40 5 6 7\ncpu11 1 2 3 7 0 6\nintr 5 1\n";
        assert_eq!(parse(stat), BTreeMap::from([(0, 45), (11, 7)]));
        assert_eq!(parse("cpu1 1 2\nnonsense"), BTreeMap::new());
    }

    #[test]
    fn a_machines_idle_ticks_are_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(idle_ticks(&root), None);
        std::fs::create_dir_all(root.path("proc")).unwrap();
        std::fs::write(root.path("proc/stat"), "cpu2 1 2 3 40 5 6\n").unwrap();
        assert_eq!(idle_ticks(&root), Some(BTreeMap::from([(2, 45)])));
        assert_eq!(of_last_minute(&root), None);
        std::fs::write(root.path("proc/loadavg"), "1.50 0.02 0.00 3/99 7\n").unwrap();
        assert_eq!(of_last_minute(&root), Some(1.5));
    }
}
