//! Who owns the value that a setting has: pure, and tested with every order of events.
//!
//! A setting has one value, and its kernel does not say who wrote it. So a record has the values that this
//! program's processes may have written, and any other value is another program's. One that another program
//! writes while it is the same as ours cannot be told from ours:
//!
//! | another program writes | while | it |
//! | --- | --- | --- |
//! | another value than ours | we have claims | stays, and our claims so far do not count any more; live ones do again when it is gone |
//! | the value that we wrote last | we have claims | counts as ours, and is gone with them |
//! | the value that our claims want, and that we have not written | we have claims | stays |
//! | any value | between our reading the setting and writing it | is replaced by ours; the one before it is restored in the end |
//!
//! A live claim ([`super::live`]) that is the only one on a setting has all of that in its own page. Then
//! the record says nothing: its original is "no bound".

use serde::{Deserialize, Serialize};

use super::kind::{self, Kind};
use super::live::{self, NO_BOUND};
use super::owner::Owner;

/// A value that a process claims for a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub owner: Owner,
    /// Which of its owner's journals.
    pub journal: u32,
    pub value: String,
    /// Stays after its owner's end.
    pub kept: bool,
    /// Another program has changed the setting since: the claim no longer counts.
    pub overtaken: bool,
    /// Where the present value is, if its owner changes it without this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<live::Place>,
}

/// A setting that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Below the root.
    pub path: String,
    /// The value before the first claim.
    pub original: String,
    /// The value that was written, or several where a write has not succeeded yet. Empty for an
    /// interrupt that the kernel is about to move: any value is expected.
    pub ours: Vec<String>,
    /// Values that live claims' processes wrote alone: the setting may have them, too.
    #[serde(skip)]
    pub live: Vec<String>,
    /// No process writes it without the lock now.
    #[serde(skip)]
    pub locked: bool,
    /// Oldest first. Without any the setting is still to be restored.
    pub claims: Vec<Claim>,
    /// The setting has the value of its claims, or another program's. False after a claim was added or
    /// removed, until the setting is written.
    pub settled: bool,
}

impl Record {
    /// A setting with its first claim, which is not written yet.
    pub fn of(path: String, original: String, claim: Claim) -> Self {
        Self {
            path,
            ours: vec![original.clone()],
            original,
            live: Vec::new(),
            locked: false,
            claims: vec![claim],
            settled: false,
        }
    }

    /// Valid records have a known kind.
    pub fn kind(&self) -> Kind {
        kind::of(&self.path).expect("checked when it was read or made")
    }

    /// Whether it names known settings, values and pages only.
    pub fn is_valid(&self) -> bool {
        let claimed = self.claims.iter().map(|claim| &claim.value);
        let kind = kind::of(&self.path).filter(|_| self.path.starts_with('/'));
        let mut pages = self.claims.iter().filter_map(|claim| claim.live.as_ref());
        let is_page =
            |place: &live::Place| place.page.starts_with(live::PREFIX) && !place.page.contains('/');
        pages.all(is_page)
            && kind.is_some_and(|kind| {
                claimed
                    .chain([&self.original])
                    .all(|value| kind.takes(value))
            })
    }
}

/// What is to be done with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// It has the value that the claims resolve to, or there is none to write.
    Leave,
    /// It has another program's value.
    Foreign,
    /// It gets this value.
    Write(String),
}

impl Record {
    /// What to do with the setting if it has this value now; with `is_new` the last claim has just been added, and
    /// is to be in force whatever another program wrote.
    pub fn decide(&mut self, present: &str, is_new: bool) -> Decision {
        if !self.is_ours(present) {
            self.see_another(present, is_new);
        }
        match self.wanted() {
            Some(wanted) if wanted != present => match self.is_ours(present) {
                true => Decision::Write(wanted),
                false => Decision::Foreign,
            },
            _ => Decision::Leave,
        }
    }

    /// Another program has changed the setting since the claims before.
    fn see_another(&mut self, present: &str, is_new: bool) {
        let kind = self.kind();
        let earlier = self.claims.len() - usize::from(is_new);
        let earlier = &mut self.claims[..earlier];
        let wanted = wanted(kind, &self.original, earlier);
        let agrees = wanted.as_deref() == Some(present);
        // "No bound" is nobody's value: where it is, live claims are in force again, as they are alone.
        let is_reset = kind == Kind::Bound
            && present == NO_BOUND
            && earlier.iter().any(|claim| claim.live.is_some());
        if (is_new || is_reset) && wanted.is_some() && !agrees {
            let plain = earlier.iter_mut().filter(|claim| claim.live.is_none());
            plain.for_each(|claim| claim.overtaken = true);
        }
        let is_seen = is_new && wanted.is_some() || agrees && kind == Kind::Bound;
        if is_seen || self.has_only_live() {
            self.original = present.to_owned();
            self.ours = vec![present.to_owned()];
            self.live.clear();
        }
    }

    /// It was given this value.
    pub fn has(&mut self, value: &str) {
        self.settled = true;
        self.ours = vec![value.to_owned()];
    }

    /// The value to write; `None`: leave the present one.
    pub fn wanted(&self) -> Option<String> {
        wanted(self.kind(), &self.original, &self.claims)
    }

    /// Whether a process of this program may have written that value.
    pub fn is_ours(&self, present: &str) -> bool {
        let mut ours = self.ours.iter().chain(&self.live);
        self.ours.is_empty() || ours.any(|ours| ours == present)
    }

    /// Whether it has live claims and no others that count.
    pub fn has_only_live(&self) -> bool {
        let mut heeded = self.claims.iter().filter(|claim| !claim.overtaken);
        self.claims.iter().any(|claim| claim.live.is_some())
            && heeded.all(|claim| claim.live.is_some())
    }

    /// Whether its only claim is a live one.
    pub fn is_alone(&self) -> bool {
        matches!(&self.claims[..], [only] if only.live.is_some())
    }

    /// The value that the process of the only claim, a live one, has written by this; `None`: none of its own.
    pub fn owned_alone(&self) -> Option<String> {
        let is_own = self.is_alone() && self.original == NO_BOUND;
        let own = self.ours.first().filter(|own| is_own && *own != NO_BOUND);
        own.cloned()
    }

    /// The process of the only claim writes the setting alone from now on.
    pub fn leave_alone(&mut self) {
        self.original = NO_BOUND.to_owned();
        self.ours = vec![NO_BOUND.to_owned()];
        self.live.clear();
    }
}

/// What these claims resolve to.
fn wanted(kind: Kind, original: &str, claims: &[Claim]) -> Option<String> {
    // Of each journal only the last claim counts.
    let is_last = |nth: usize, claim: &Claim| {
        let mut later = claims[nth + 1..].iter();
        later.all(|later| (later.journal, &later.owner) != (claim.journal, &claim.owner))
    };
    let numbered = claims.iter().enumerate();
    let heeded = numbered.filter(|(nth, claim)| !claim.overtaken && is_last(*nth, claim));
    let heeded: Vec<&Claim> = heeded.map(|(_, claim)| claim).collect();
    let are_live = !heeded.is_empty() && heeded.iter().all(|claim| claim.live.is_some());
    if are_live && original != NO_BOUND {
        // Live claims alone leave another program's value as it is.
        return Some(original.to_owned());
    }
    let values: Vec<&str> = heeded.iter().map(|claim| claim.value.as_str()).collect();
    kind.wanted(original, &values)
}

#[cfg(test)]
mod tests;
