//! A dwell on this machine. Alone in its file: other tests would be the load that disturbs it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reveille_kernel::{Error, Idle, Result, Root};
use reveille_meter::{About, Counts, Meter, Scope};
use reveille_power::dwell::{Dwells, Here, Times};

/// Fails so often, and then gives 40 W.
struct Fails(About, u32);

impl Meter for Fails {
    fn about(&self) -> &About {
        &self.0
    }

    fn read(&mut self) -> Result<f64> {
        self.1 = self.1.saturating_sub(1);
        match self.1 {
            0 => Ok(40.0),
            _ => Err(Error::Failed("no answer".into())),
        }
    }
}

#[test]
fn a_dwell_for_which_the_meter_fails_is_tried_again() {
    let root = Root::default();
    let idle = Idle::read(&root).unwrap();
    let ms = Duration::from_millis;
    let times = Times {
        dwell: ms(100),
        settle: ms(0),
        refresh: ms(10),
    };
    for (fails, is_known) in [(15, true), (u32::MAX, false)] {
        let about = About {
            name: "made-up".to_owned(),
            scope: Scope::Other,
            counts: Counts::Power,
            resolution: None,
            range_j: None,
        };
        let mut meter = Fails(about, fails);
        let mut here = Here::new(&root, &idle, &mut meter, times);
        match here.dwell(&[], &AtomicBool::new(false)) {
            Ok(dwell) => assert!(is_known && dwell.unwrap().power_w == 40.0),
            Err(Error::Disturbed(why)) => println!("skipped: a meter that fails: {why}"),
            Err(why) => {
                let why = why.to_string();
                assert!(
                    !is_known && why == "no answer (in the last of 5 tries)",
                    "{why}"
                );
            }
        }
    }
}
