//! What the charts and tables of a resume have in common.

use std::fmt::Write as _;

use reveille_resume::cycle::{StageKind, Us};
use reveille_show::axis::Axis;
use reveille_show::quantity::duration;

/// In the unit that fits.
pub(super) fn time(us: Us) -> String {
    duration(us as f64 * 1e3)
}

/// The colour of a stage: the two halves' counterparts have the same.
pub(super) fn stage_class(stage: StageKind) -> &'static str {
    match stage {
        StageKind::CpusOff | StageKind::CpusOn => "c2",
        StageKind::SuspendNoirq | StageKind::ResumeNoirq => "c1",
        StageKind::SuspendLate | StageKind::ResumeEarly => "c4",
        StageKind::Suspend | StageKind::Resume => "c5",
        StageKind::Prepare | StageKind::Complete => "c7",
        StageKind::Freeze | StageKind::Thaw => "c3",
        StageKind::Platform | StageKind::Idle | StageKind::Test => "c6",
    }
}

/// The axis of time below a chart of bars: a line at its left and at `high`, and the ticks under that.
/// All in the chart's own units.
pub(super) fn below_bars(svg: &mut String, axis: &Axis, left: f64, width: f64, high: f64) {
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{left} 0v{high:.0}h{width}\"/><g class=\"ticks\">"
    );
    for tick in axis.ticks() {
        let _ = write!(
            svg,
            "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + width * axis.fraction(tick.value),
            high + 17.0,
            duration(tick.value)
        );
    }
    svg.push_str("</g>");
}
