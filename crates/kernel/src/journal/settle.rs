//! Writes the values that claims resolve to.

use super::file::JournalFile;
use super::kind::Kind;
use super::ownership::{Decision, Record};
use crate::{Error, Result, Root, cpulist};

/// The outcome of writing one setting.
pub(super) enum Outcome {
    /// It was given this value.
    Done(String),
    /// It had this value, which is the one to write, or has none any more.
    Present(String),
    /// Another program has changed it, to this.
    Foreign(String),
    /// The CPU that it needs was taken offline by a claim, and is restored first.
    Later,
    Failed(Error),
}

/// Writes the values of these records in this order; returns the outcome of each that was tried, by its
/// place in `places`. The file lists each value before it is written; the caller saves the records
/// afterwards.
///
/// With `for_claim` the first failure ends it; if the file cannot be written, nothing is changed. Without,
/// claims were removed: the settings are restored even if the file cannot be written (a full disk), for
/// it still lists them.
pub(super) fn write_settings(
    root: &Root,
    file: &mut JournalFile,
    places: &[usize],
    for_claim: bool,
) -> Result<Vec<(usize, Outcome)>> {
    let mut plans = Vec::new();
    for &place in places {
        file.share(place);
        let plan = plan(root, &mut file.records[place], for_claim);
        if let Plan::Write { from, to } = &plan {
            file.records[place].ours = vec![from.clone(), to.clone()];
        }
        plans.push(plan);
    }
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let saved = file.save();
    if for_claim {
        saved?;
    }
    let offline = file
        .records
        .iter()
        .any(|record| record.kind() == Kind::Online && !record.claims.is_empty());
    let mut outcomes = Vec::new();
    for (nth, plan) in plans.into_iter().enumerate() {
        let record = &mut file.records[places[nth]];
        let outcome = match plan {
            Plan::Write { .. } if offline && waits_for_a_cpu(root, record) => Outcome::Later,
            plan => carry_out(root, record, plan),
        };
        if file.records[places[nth]].settled {
            file.settled(places[nth]);
        }
        let failed = matches!(outcome, Outcome::Failed(_));
        outcomes.push((nth, outcome));
        if failed && for_claim {
            break;
        }
    }
    Ok(outcomes)
}

enum Plan {
    Nothing(Outcome),
    Write { from: String, to: String },
}

fn plan(root: &Root, record: &mut Record, is_new: bool) -> Plan {
    let path = root.path(&record.path);
    let present = match record.kind().read(&path) {
        Ok(present) => present,
        Err(_) if record.kind().is_gone(&path) => {
            return Plan::Nothing(Outcome::Present(String::new()));
        }
        Err(error) => return Plan::Nothing(Outcome::Failed(error)),
    };
    let decision = record.decide(&present, is_new);
    match (decision, record.wanted()) {
        (Decision::Write(to), _) => Plan::Write { from: present, to },
        (Decision::Foreign, Some(wanted)) if was_moved(root, record, &wanted) => Plan::Write {
            from: present,
            to: wanted,
        },
        (Decision::Foreign, _) => Plan::Nothing(Outcome::Foreign(present)),
        (Decision::Leave, Some(wanted)) if may_still_move(root, record, &wanted) => Plan::Write {
            from: present,
            to: wanted,
        },
        (Decision::Leave, _) => Plan::Nothing(Outcome::Present(present)),
    }
}

/// Whether it is an interrupt that was sent to other CPUs than `wanted`: while the kernel moves it there, it shows those
/// before.
fn may_still_move(root: &Root, record: &Record, wanted: &str) -> bool {
    record.kind() == Kind::Interrupt
        && record.ours.iter().any(|ours| ours != wanted)
        && !all_are_offline(root, wanted)
}

/// Whether it is an interrupt whose original CPUs are all offline.
fn waits_for_a_cpu(root: &Root, record: &Record) -> bool {
    record.kind() == Kind::Interrupt && all_are_offline(root, &record.original)
}

/// Whether it is an interrupt that the kernel has moved, since the CPUs to which it was sent are offline, and that can
/// go where it is wanted.
fn was_moved(root: &Root, record: &Record, wanted: &str) -> bool {
    let mut sent_to = record.ours.iter().filter(|ours| **ours != record.original);
    record.kind() == Kind::Interrupt
        && sent_to.any(|cpus| all_are_offline(root, cpus))
        && !all_are_offline(root, wanted)
}

fn all_are_offline(root: &Root, cpus: &str) -> bool {
    let list = |text: &str| cpulist::parse(text).unwrap_or_default();
    let online = root.text("/sys/devices/system/cpu/online");
    let online = list(&online.unwrap_or_default());
    !list(cpus).iter().any(|cpu| online.contains(cpu))
}

fn carry_out(root: &Root, record: &mut Record, plan: Plan) -> Outcome {
    record.settled = false;
    let (from, to) = match plan {
        Plan::Nothing(Outcome::Failed(error)) => return Outcome::Failed(error),
        Plan::Nothing(outcome) => {
            match &outcome {
                Outcome::Present(present) => {
                    record.has(present);
                    if record.claims.is_empty() {
                        record.kind().leave(&root.path(&record.path));
                    }
                }
                _ => record.settled = true,
            }
            return outcome;
        }
        Plan::Write { from, to } => (from, to),
    };
    let (kind, path) = (record.kind(), root.path(&record.path));
    match kind.write(&path, &to) {
        Ok(()) => {
            record.has(&to);
            Outcome::Done(to)
        }
        Err(error) => {
            // It may have become a third value, which this write caused as well.
            record.ours = [from, to]
                .into_iter()
                .chain(kind.read(&path).ok())
                .collect();
            Outcome::Failed(error)
        }
    }
}
