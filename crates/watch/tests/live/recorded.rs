//! Recorded machines: whatever a machine reports, the view of it is plausible.

use std::path::Path;

use reveille_kernel::Root;
use reveille_watch::live::{Unit, Watch};

#[test]
fn every_recorded_machine_has_a_plausible_view() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/machines");
    let Ok(entries) = std::fs::read_dir(&machines) else {
        return println!(
            "skipped: there are no recorded machines at {}",
            machines.display()
        );
    };
    for folder in entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
    {
        let root = Root::at(&folder);
        let Ok(mut watch) = Watch::start(&root) else {
            // A folder of another kind of recording.
            continue;
        };
        let snapshot = watch.snapshot().unwrap();
        let units = snapshot
            .packages
            .iter()
            .chain(&snapshot.cores)
            .chain(&snapshot.cpus);
        for unit in units.chain([&snapshot.machine]) {
            is_within_reason(unit, &folder);
        }
        let named: usize = snapshot
            .packages
            .iter()
            .map(|package| package.cpus.len())
            .sum();
        assert!(named <= snapshot.cpus.len(), "{}", folder.display());
        serde_json::to_string(&snapshot).unwrap();
    }
}

fn is_within_reason(unit: &Unit, folder: &Path) {
    let shares = unit.states.iter().filter_map(|state| state.share_percent);
    for share in shares.chain(unit.awake_percent) {
        assert!(
            (0.0..=100.0).contains(&share),
            "{}: {unit:?}",
            folder.display()
        );
    }
    // An offline CPU has no figures.
    if !unit.online {
        assert!(
            unit.states.is_empty() && unit.awake_percent.is_none(),
            "{unit:?}"
        );
    }
    let rates = [unit.wakeups_per_s, unit.leaving_percent, unit.above_percent];
    assert!(
        rates
            .into_iter()
            .flatten()
            .all(|rate| rate >= 0.0 && rate.is_finite())
    );
}
