//! The latest snapshot, and the trends of earlier ones, which are small even with many CPUs.

use std::collections::{BTreeMap, VecDeque};

use reveille_watch::live::{Snapshot, Unit};

/// The length of trends in refreshes: two minutes at one per second.
pub const REMEMBERED: usize = 120;

#[derive(Debug, Clone, Default)]
pub struct History {
    latest: Option<Snapshot>,
    /// By the unit's label.
    trends: BTreeMap<String, VecDeque<Point>>,
    /// The duration of each remembered refresh, s.
    lasted_s: VecDeque<f64>,
    /// Refreshes so far, including forgotten ones.
    seen: usize,
}

/// A unit's remembered figures at a refresh.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    awake_percent: Option<f32>,
    wakeups_per_s: Option<f32>,
}

/// A figure of a unit that is drawn over time.
#[derive(Debug, Clone, Copy)]
pub enum Figure {
    AwakePercent,
    WakeupsPerSecond,
}

/// A figure at each remembered refresh, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Trend {
    points: Vec<Option<f32>>,
    /// Refreshes before the first of them.
    before: usize,
}

impl History {
    pub fn latest(&self) -> Option<&Snapshot> {
        self.latest.as_ref()
    }

    pub fn push(&mut self, snapshot: Snapshot) {
        self.seen += 1;
        self.lasted_s.push_back(snapshot.elapsed_s);
        if self.lasted_s.len() > REMEMBERED {
            self.lasted_s.pop_front();
        }
        // Units that are gone, or were not there before, have gaps.
        for points in self.trends.values_mut() {
            points.push_back(Point::default());
        }
        for unit in units(&snapshot) {
            let gaps = || vec![Point::default(); self.lasted_s.len()].into();
            let points = self.trends.entry(unit.label.clone()).or_insert_with(gaps);
            if let Some(newest) = points.back_mut() {
                *newest = Point {
                    awake_percent: unit.awake_percent.map(|value| value as f32),
                    wakeups_per_s: unit.wakeups_per_s.map(|value| value as f32),
                };
            }
        }
        for points in self
            .trends
            .values_mut()
            .filter(|points| points.len() > REMEMBERED)
        {
            points.pop_front();
        }
        self.latest = Some(snapshot);
    }

    /// The time span of the trends, s.
    pub fn span_s(&self) -> f64 {
        self.lasted_s.iter().sum()
    }

    pub fn trend(&self, unit: &Unit, figure: Figure) -> Trend {
        let Some(points) = self.trends.get(&unit.label) else {
            return Trend::default();
        };
        let value = |point: &Point| match figure {
            Figure::AwakePercent => point.awake_percent,
            Figure::WakeupsPerSecond => point.wakeups_per_s,
        };
        Trend {
            points: points.iter().map(value).collect(),
            before: self.seen - points.len(),
        }
    }
}

impl Trend {
    pub fn highest(&self) -> Option<f32> {
        self.points.iter().copied().flatten().reduce(f32::max)
    }

    /// The trend in at most `width` values. If it is longer, each value is the mean of several
    /// refreshes, always of the same ones, so that the picture moves and does not flicker.
    pub fn means(&self, width: usize) -> Vec<Option<f32>> {
        let together = REMEMBERED.div_ceil(width.max(1));
        let mut groups: Vec<(f32, usize)> = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            if at == 0 || (self.before + at).is_multiple_of(together) {
                groups.push((0.0, 0));
            }
            if let (Some((sum, count)), Some(point)) = (groups.last_mut(), point) {
                *sum += point;
                *count += 1;
            }
        }
        groups.drain(..groups.len().saturating_sub(width));
        let mean = |(sum, count): (f32, usize)| (count > 0).then(|| sum / count as f32);
        groups.into_iter().map(mean).collect()
    }
}

/// All units, the machine first.
pub fn units(snapshot: &Snapshot) -> impl Iterator<Item = &Unit> {
    [&snapshot.machine]
        .into_iter()
        .chain(&snapshot.packages)
        .chain(&snapshot.cores)
        .chain(&snapshot.cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(label: &str, awake_percent: f64) -> Snapshot {
        Snapshot {
            elapsed_s: 1.0,
            machine: Unit {
                label: label.into(),
                awake_percent: Some(awake_percent),
                ..Unit::default()
            },
            ..Snapshot::default()
        }
    }

    fn trend(history: &History, label: &str, width: usize) -> Vec<Option<f32>> {
        let unit = Unit {
            label: label.into(),
            ..Unit::default()
        };
        history.trend(&unit, Figure::AwakePercent).means(width)
    }

    #[test]
    fn a_unit_that_comes_and_goes_leaves_gaps() {
        let mut history = History::default();
        history.push(snapshot("CPU 0", 10.0));
        history.push(snapshot("CPU 1", 20.0));
        history.push(snapshot("CPU 0", 30.0));
        let wide = REMEMBERED;
        assert_eq!(
            trend(&history, "CPU 0", wide),
            [Some(10.0), None, Some(30.0)]
        );
        assert_eq!(trend(&history, "CPU 1", wide), [None, Some(20.0), None]);
        assert_eq!(history.span_s(), 3.0);
    }

    #[test]
    fn a_narrow_trend_has_means_and_forgets_old_values() {
        let mut history = History::default();
        for refresh in 0..REMEMBERED + 60 {
            history.push(snapshot("machine", if refresh < 60 { 99.0 } else { 40.0 }));
        }
        let narrow = trend(&history, "machine", 10);
        assert_eq!(narrow, vec![Some(40.0); 10]);
        assert_eq!(history.span_s(), REMEMBERED as f64);
    }

    #[test]
    fn means_are_always_of_the_same_refreshes() {
        let mut history = History::default();
        for refresh in 0..REMEMBERED + 7 {
            history.push(snapshot("machine", refresh as f64));
        }
        let before = trend(&history, "machine", 10);
        history.push(snapshot("machine", 0.0));
        let after = trend(&history, "machine", 10);
        // 12 refreshes per value: the one from 108 to 119 does not change.
        let whole = Some((108..120).sum::<usize>() as f32 / 12.0);
        assert!(before.contains(&whole) && after.contains(&whole));
    }
}
