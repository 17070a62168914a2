//! The place of each cycle among a meter's samples, and the power there.

use super::{
    AlignedBy, CyclePower, Power, Subject, averaged, by_wall_clock, chain, covered, drop, few,
};
use crate::cycle::Us;
use crate::power::Meter;

/// Aligns a meter's samples with the cycles. `offset` is the time from the meter's first sample to
/// the beginning of the first cycle, where the user knows it.
///
/// # Errors
/// One line: why the cycles could not be found among the samples.
pub fn align(meter: &Meter, subjects: &[Subject], offset: Option<Us>) -> Result<Power, String> {
    let mut notes = Vec::new();
    let (aligned_by, cycles) = place(meter, subjects, offset, &mut notes)?;
    let left = subjects.len() - cycles.len();
    if left > 0 {
        notes.push(format!(
            "{left} of {} cycles have no place among the samples: the time of a sleep before them \
             is unknown, or they are cut",
            subjects.len()
        ));
    }
    let covered = covered(meter);
    let mut power = averaged(meter, &covered, aligned_by, cycles);
    few(&power, &mut notes);
    let both = power.idle_w.zip(power.asleep_w);
    if both.is_some_and(|(idle, asleep)| asleep >= idle) {
        notes.push(
            "its power asleep is not below idle: the clocks may be misaligned; --power-offset \
             places the first cycle by hand"
                .to_owned(),
        );
    }
    power.notes = notes;
    Ok(power)
}

fn place(
    meter: &Meter,
    subjects: &[Subject],
    offset: Option<Us>,
    notes: &mut Vec<String>,
) -> Result<(AlignedBy, Vec<CyclePower>), String> {
    if let Some(offset) = offset {
        let start = meter.samples[0].at_us + offset;
        return Ok((AlignedBy::Offset, chain(subjects, start)));
    }
    match by_wall_clock(meter, subjects) {
        Ok(cycles) => return Ok((AlignedBy::WallClock, cycles)),
        Err(why) => notes.push(format!("{why}: aligned by the drop in power instead")),
    }
    let start = drop::find(meter, subjects)?;
    Ok((AlignedBy::Drop, start))
}
