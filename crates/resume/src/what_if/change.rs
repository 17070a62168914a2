//! What can be changed, and its form on a command line.

use std::collections::HashSet;
use std::time::Duration;

use reveille_show::parse;

use crate::cycle::{STAGES, StageKind, Us, stage_name};
use crate::graph::{Graph, Half, Tree};
use crate::{Error, Result};

/// A change of a machine or of its kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The devices, and all that lies below them, are removed.
    Without(Pattern),
    /// The devices, and all that lies below them, resume after the whole has ended.
    Defer(Pattern),
    /// Something takes longer or shorter.
    Set {
        /// What does.
        what: Target,
        /// How long it takes then, µs.
        us: Us,
    },
    /// So many CPUs all in all, the one that is never taken off included. Those that the log does not
    /// have take the mean of those that it has. How many devices resume at once stays as it is: they
    /// wait rather than compute.
    Cpus(u32),
}

/// What [`Change::Set`] sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The longest call of each of these devices; with a stage, the calls in it.
    Devices {
        /// By name or by driver.
        pattern: Pattern,
        /// `None`: whichever is longest.
        stage: Option<StageKind>,
    },
    /// A stage from its start to its end, whatever is in it.
    Stage(StageKind),
}

/// Names with `*` (any characters, also none) and `?` (one character), divided by commas. A device
/// is meant by its name, by its driver's, or by any other that the log has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    alternatives: Vec<String>,
}

impl Pattern {
    /// # Errors
    /// [`Error::Usage`] if one of the names is empty.
    pub fn parse(text: &str) -> Result<Pattern> {
        let alternatives: Vec<String> = text.split(',').map(|one| one.trim().to_owned()).collect();
        if alternatives.iter().any(String::is_empty) {
            return Err(Error::Usage(format!(
                "{text:?}: a name of a device or driver is empty; give names as in 'snd*,uvc*'"
            )));
        }
        Ok(Pattern { alternatives })
    }

    /// Whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        let mut alternatives = self.alternatives.iter();
        alternatives.any(|one| glob(one.as_bytes(), name.as_bytes()))
    }

    /// The devices of which a name or the driver fits.
    pub fn devices(&self, tree: &Tree) -> Vec<usize> {
        let fits = |&device: &usize| {
            let device = &tree.devices[device];
            let names = tree.known_as.names(&device.name).iter();
            let mut names = names.chain(&device.driver).chain([&device.name]);
            names.any(|one| self.fits(one))
        };
        (0..tree.devices.len()).filter(fits).collect()
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.alternatives.join(","))
    }
}

/// On a mismatch after a `*`, that star takes one character more; only the last star can be to blame.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, n));
            }
            Some(&one) if one == b'?' || one == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((behind, taken)) => {
                    (p, n) = (behind, taken + 1);
                    star = Some((p, n));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&one| one == b'*')
}

impl Change {
    /// `snd*,uvc*`: see [`Pattern`].
    pub fn without(text: &str) -> Result<Change> {
        Ok(Change::Without(Pattern::parse(text)?))
    }

    /// `usb*`: see [`Pattern`].
    pub fn defer(text: &str) -> Result<Change> {
        Ok(Change::Defer(Pattern::parse(text)?))
    }

    /// `ata1=50ms`, `sd*@resume=1s` or `stage:resume_noirq=100ms`. Units are ns, us, ms and s.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no `=`, no such stage, or no such time.
    pub fn set(text: &str) -> Result<Change> {
        let Some((what, time)) = text.rsplit_once('=') else {
            return Err(Error::Usage(format!(
                "{text:?}: no '='; give a device and its time, as in 'ata1=50ms'"
            )));
        };
        let us = time_us(time)?;
        if let Some(name) = what.strip_prefix("stage:") {
            let what = Target::Stage(stage(name)?);
            return Ok(Change::Set { what, us });
        }
        // Names have an @ as well: `eeprom@2`.
        let (pattern, stage) = match what.rsplit_once('@') {
            Some((pattern, kind)) => match stage(kind) {
                Ok(kind) => (pattern, Some(kind)),
                Err(error) if STAGES.iter().any(|one| one.1 == kind) => return Err(error),
                Err(_) => (what, None),
            },
            None => (what, None),
        };
        let pattern = Pattern::parse(pattern)?;
        let what = Target::Devices { pattern, stage };
        Ok(Change::Set { what, us })
    }

    /// A number of CPUs, from 1.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is none.
    pub fn cpus(text: &str) -> Result<Change> {
        match text.trim().parse() {
            Ok(cpus @ 1..) => Ok(Change::Cpus(cpus)),
            _ => Err(Error::Usage(format!(
                "{text:?} is not a number of CPUs; give 1 or more"
            ))),
        }
    }

    /// Whether the change meets anything in this graph: a device with a call in it, a stage, a CPU
    /// that is brought on.
    pub fn meets(&self, graph: &Graph) -> bool {
        let with_call: HashSet<usize> = graph.steps.iter().filter_map(|step| step.device).collect();
        match self {
            Change::Without(pattern) | Change::Defer(pattern) => {
                let devices = pattern.devices(&graph.tree).into_iter();
                let mut all = devices.flat_map(|device| graph.tree.with_below(device));
                all.any(|device| with_call.contains(&device))
            }
            Change::Set {
                what: Target::Devices { pattern, stage },
                ..
            } => {
                let devices = pattern.devices(&graph.tree);
                graph.steps.iter().any(|step| {
                    let fits = stage.is_none_or(|kind| graph.stages[step.stage].kind == kind);
                    fits && step.device.is_some_and(|device| devices.contains(&device))
                })
            }
            Change::Set {
                what: Target::Stage(kind),
                ..
            } => graph.stages.iter().any(|stage| stage.kind == *kind),
            Change::Cpus(_) => graph.steps.iter().any(|step| step.device.is_none()),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Change::Without(pattern) => write!(f, "without {pattern}"),
            Change::Defer(pattern) => write!(f, "defer {pattern}"),
            Change::Cpus(1) => write!(f, "1 CPU"),
            Change::Cpus(cpus) => write!(f, "{cpus} CPUs"),
            Change::Set { what, us } => {
                match what {
                    Target::Devices { pattern, stage } => {
                        write!(f, "{pattern}")?;
                        if let Some(stage) = stage {
                            write!(f, "@{}", stage_name(*stage))?;
                        }
                    }
                    Target::Stage(stage) => write!(f, "stage:{}", stage_name(*stage))?,
                }
                match us {
                    us if us % 1_000_000 == 0 => write!(f, "={}s", us / 1_000_000),
                    us if us % 1000 == 0 => write!(f, "={}ms", us / 1000),
                    us => write!(f, "={us}us"),
                }
            }
        }
    }
}

/// Of the resume.
fn stage(name: &str) -> Result<StageKind> {
    let of_resume = || STAGES.iter().filter(|one| Half::Resume.has(one.0));
    let found = of_resume().find(|one| one.1 == name);
    found.map(|one| one.0).ok_or_else(|| {
        let names: Vec<&str> = of_resume().map(|one| one.1).collect();
        Error::Usage(format!(
            "{name:?} is not a stage of the resume; its stages are {}",
            names.join(", ")
        ))
    })
}

/// A time with its unit, rounded to microseconds.
fn time_us(text: &str) -> Result<Us> {
    let bad = |why: String| Error::Usage(format!("{text:?}: {why}"));
    // A day is more than any stage takes, and far from where sums would overflow.
    let most = Duration::from_secs(86_400);
    let time = parse::time(text, "50ms").map_err(bad)?;
    if time > most {
        return Err(bad("longer than a day".to_owned()));
    }
    Ok((time.as_nanos() as f64 / 1e3).round() as Us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("snd*", "snd_hda_intel", true),
            ("snd*", "sn", false),
            ("*", "", true),
            ("", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*1.2", "0000:00:1f.2", false),
            ("*f.2", "0000:00:1f.2", true),
            ("a*b*c", "a--b-bc", true),
            ("a*b*c", "a--b-bcd", false),
            ("**x", "yx", true),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), name.as_bytes()),
                fits,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn alternatives_are_separated_by_commas() {
        let pattern = Pattern::parse("snd*, uvc*").unwrap();
        assert!(pattern.fits("uvcvideo") && pattern.fits("snd_soc") && !pattern.fits("usb1"));
        assert!(Pattern::parse("snd*,,uvc*").is_err());
    }

    #[test]
    fn settings_are_read_with_their_units_and_stages() {
        let set = |text: &str| Change::set(text).map(|one| one.to_string());
        assert_eq!(set("ata1=50ms").unwrap(), "ata1=50ms");
        assert_eq!(
            set("sd*@resume_early=0.5s").unwrap(),
            "sd*@resume_early=500ms"
        );
        assert_eq!(
            set("stage:resume_noirq=1500ns").unwrap(),
            "stage:resume_noirq=2us"
        );
        assert_eq!(set("eeprom@2=1us").unwrap(), "eeprom@2=1us");
        // A what-if changes the resume.
        for of_suspend in ["stage:freeze=1ms", "ata1@suspend=1ms", "stage:foo=1ms"] {
            let error = set(of_suspend).unwrap_err().to_string();
            let stages = "cpus_on, resume_noirq, resume_early, resume, complete, thaw";
            assert!(error.ends_with(stages), "{error}");
        }
        for bad in [
            "ata1",
            "ata1=",
            "ata1=5",
            "ata1=-1ms",
            "ata1=25h",
            "=1ms",
            "stage:x=1ms",
            "a=infs",
            "a=1e99s",
            "a=NaNs",
        ] {
            assert!(matches!(set(bad), Err(Error::Usage(_))), "{bad}");
        }
        assert_eq!(Change::cpus("4").unwrap(), Change::Cpus(4));
        assert!(Change::cpus("0").is_err() && Change::cpus("-1").is_err());
    }
}
