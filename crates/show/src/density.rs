//! The density of datapoints: counts per cell of a plane.

/// Counts over a plane of cells, row by row from the lowest value upwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Density {
    /// Cells from left to right.
    pub width: usize,
    /// Cells from bottom to top.
    pub height: usize,
    counts: Vec<u32>,
}

impl Density {
    /// A plane without datapoints.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            counts: vec![0; width * height],
        }
    }

    /// Adds a datapoint in that cell.
    pub fn add(&mut self, column: usize, row: usize) {
        self.counts[row * self.width + column] += 1;
    }

    /// All datapoints together.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The count of the fullest cell; `None` without datapoints.
    pub fn fullest(&self) -> Option<u32> {
        self.counts.iter().copied().max().filter(|count| *count > 0)
    }

    /// The lowest counts of the shades, ascending from 1: at most `shades` of them, in equal ratios
    /// up to the fullest cell. Empty without datapoints.
    pub fn levels(&self, shades: usize) -> Vec<u32> {
        let fullest = self.fullest().unwrap_or(0);
        let mut levels: Vec<u32> = Vec::new();
        for shade in 0..shades {
            // The fullest cell is in the last shade, not alone above it: hence `fullest + 1`.
            let ratio = shade as f64 / shades as f64;
            let level = (f64::from(fullest) + 1.0).powf(ratio).ceil() as u32;
            if level <= fullest && levels.last() != Some(&level) {
                levels.push(level);
            }
        }
        levels
    }

    /// One SVG path per level, as runs of cells in cell units, the first row at the bottom.
    ///
    /// A path covers every cell that reaches its level, and the next is painted over it: longer runs
    /// make shorter text than paths with only their own cells.
    pub fn paths(&self, levels: &[u32]) -> Vec<String> {
        levels.iter().map(|level| self.path(*level)).collect()
    }

    fn path(&self, level: u32) -> String {
        use std::fmt::Write as _;
        let mut path = String::new();
        for (row, counts) in self.counts.chunks(self.width).enumerate() {
            let mut column = 0;
            while column < counts.len() {
                let run = counts[column..]
                    .iter()
                    .take_while(|count| **count >= level)
                    .count();
                if run > 0 {
                    let top = self.height - 1 - row;
                    // Writing to a String cannot fail.
                    let _ = write!(path, "M{column} {top}h{run}v1h-{run}z");
                }
                column += run.max(1);
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datapoint_is_counted_once() {
        let mut density = Density::new(3, 2);
        for (column, row) in [(0, 0), (0, 0), (2, 1)] {
            density.add(column, row);
        }
        assert_eq!(density.total(), 3);
    }

    #[test]
    fn levels_rise_from_one_and_reach_no_further_than_the_fullest_cell() {
        let mut density = Density::new(2, 1);
        assert!(density.levels(8).is_empty());
        density.add(0, 0);
        assert_eq!(density.levels(8), [1]);
        for _ in 0..999 {
            density.add(1, 0);
        }
        let levels = density.levels(8);
        assert_eq!(levels[0], 1);
        assert!(
            levels.windows(2).all(|pair| pair[0] < pair[1]),
            "{levels:?}"
        );
        assert!(*levels.last().unwrap() < 999, "{levels:?}");
    }

    #[test]
    fn a_path_runs_along_the_cells_that_reach_its_level_with_low_values_at_the_bottom() {
        let mut density = Density::new(4, 2);
        for (column, row) in [(0, 0), (1, 0), (1, 0), (3, 0), (2, 1)] {
            density.add(column, row);
        }
        assert_eq!(
            density.paths(&[1, 2]),
            ["M0 1h2v1h-2zM3 1h1v1h-1zM2 0h1v1h-1z", "M1 1h1v1h-1z"]
        );
    }
}
