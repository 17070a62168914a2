//! The whole of it: when each cycle was by the meter's clock, and what it draws.

use super::{
    CyclePower, LaidBy, Power, Subject, averaged, by_wall_clock, chain, covered, drop, few,
};
use crate::cycle::Us;
use crate::power::Meter;

/// Lays a meter's samples beside the cycles. `offset` is the time from the meter's first sample to
/// the beginning of the first cycle, where the user knows it.
///
/// # Errors
/// One line that says why the cycles could not be found among the samples.
pub fn lay(meter: &Meter, subjects: &[Subject], offset: Option<Us>) -> Result<Power, String> {
    let mut notes = Vec::new();
    let (laid_by, cycles) = place(meter, subjects, offset, &mut notes)?;
    let left = subjects.len() - cycles.len();
    if left > 0 {
        notes.push(format!(
            "{left} of {} cycles have no place among the samples: the log does not tell how long a \
             sleep before them took, or they are cut",
            subjects.len()
        ));
    }
    let covered = covered(meter);
    let mut power = averaged(meter, &covered, laid_by, cycles);
    few(&power, &mut notes);
    let both = power.idle_w.zip(power.asleep_w);
    if both.is_some_and(|(idle, asleep)| asleep >= idle) {
        notes.push(
            "it draws no less asleep than idle: the clocks may not fit; --power-offset places the \
             first cycle by hand"
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
) -> Result<(LaidBy, Vec<CyclePower>), String> {
    if let Some(offset) = offset {
        let start = meter.samples[0].at_us + offset;
        return Ok((LaidBy::Offset, chain(subjects, start)));
    }
    match by_wall_clock(meter, subjects) {
        Ok(cycles) => return Ok((LaidBy::WallClock, cycles)),
        Err(why) => notes.push(format!("{why}: the drop in power was taken instead")),
    }
    let start = drop::find(meter, subjects)?;
    Ok((LaidBy::Drop, start))
}
