//! Every order of events among three owners and another program, up to [`DEPTH`] of them.

use super::super::live::{self, NONE, may_replace, text};
use super::super::owner::Owner;
use super::*;
use crate::pm_qos::file_of;

/// A read and a write each count.
const DEPTH: usize = 6;

/// What the other program writes: no bound, what owner 0 wants, what nobody does.
const OTHERS: [u32; 3] = [NONE, 10, 30];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Live,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// An owner takes the lock, or not, and reads the setting. It then wants that.
    Read(usize, u32),
    /// An owner ends, and reads the setting under the lock.
    End(usize),
    /// It writes what it has decided.
    Write(usize),
    Other(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    want: u32,
    owned: u32,
    before: u32,
    is_shared: bool,
}

/// A value that an owner is about to write; `None`: it leaves the setting.
#[derive(Debug, Clone)]
struct Begun {
    write: Option<u32>,
    read: u32,
    is_alone: bool,
    /// The other program has written meanwhile.
    is_blurred: bool,
    event: Event,
}

#[derive(Debug, Clone)]
struct World {
    setting: u32,
    owners: [Kind; 3],
    record: Option<Record>,
    pages: [Option<Page>; 3],
    begun: [Option<Begun>; 3],
    /// What an owner of this program wrote last.
    written: Option<u32>,
    /// What may be there in the end: one value where it can be told whose it is.
    theirs: Vec<u32>,
    /// The same when an owner wrote last: who puts our value back may mean this.
    theirs_then: Vec<u32>,
    is_theirs: bool,
    trace: Vec<Event>,
}

fn number(text: &str) -> u32 {
    if text == NO_BOUND {
        NONE
    } else {
        text.parse().unwrap()
    }
}

/// What each owner wants if it wants a bound.
fn bound(owner: usize) -> u32 {
    [10, 20, 15][owner]
}

impl World {
    fn of(owners: [Kind; 3], setting: u32, owner: &Owner) -> Self {
        let mut world = Self {
            setting,
            owners,
            record: None,
            pages: [None; 3],
            begun: [const { None }; 3],
            written: None,
            theirs: vec![setting],
            theirs_then: vec![setting],
            is_theirs: setting != NONE,
            trace: Vec::new(),
        };
        // Services are there from the beginning.
        for (index, kind) in owners.into_iter().enumerate() {
            if kind == Kind::Live {
                world.pages[index] = Some(Page {
                    want: NONE,
                    owned: NONE,
                    before: NONE,
                    is_shared: false,
                });
                world.claim(index, owner, NO_BOUND);
            }
        }
        let live = world.pages.iter().flatten().count();
        world
            .pages
            .iter_mut()
            .flatten()
            .for_each(|page| page.is_shared = live > 1);
        if let Some(record) = &mut world.record {
            record.settled = true;
        }
        world
    }

    fn claim(&mut self, index: usize, owner: &Owner, value: &str) {
        let claim = Claim {
            owner: owner.clone(),
            journal: index as u32,
            value: value.to_owned(),
            kept: false,
            overtaken: false,
            live: (self.owners[index] == Kind::Live).then(|| live::Place {
                page: String::new(),
                index,
            }),
        };
        match &mut self.record {
            Some(record) => {
                record.claims.push(claim);
                record.settled = false;
            }
            None => {
                let original = match claim.live {
                    Some(_) => NO_BOUND.to_owned(),
                    None => text(self.setting),
                };
                self.record = Some(Record::of(file_of(0), original, claim));
            }
        }
    }

    fn has_claim(&self, index: usize) -> bool {
        let record = self.record.iter();
        let mut claims = record.flat_map(|record| &record.claims);
        claims.any(|claim| claim.journal == index as u32)
    }

    fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = OTHERS.into_iter().map(Event::Other).collect();
        let is_locked = self.begun.iter().flatten().any(|begun| !begun.is_alone);
        let is_busy = self.begun.iter().flatten().any(|begun| begun.is_alone);
        for index in 0..3 {
            if self.begun[index].is_some() {
                events.push(Event::Write(index));
                continue;
            }
            // Who takes the lock waits for a write without it that has begun.
            let may_lock = !is_locked && !is_busy;
            match self.owners[index] {
                Kind::Plain if self.has_claim(index) && may_lock => events.push(Event::End(index)),
                Kind::Plain if may_lock => events.push(Event::Read(index, bound(index))),
                Kind::Live if self.has_claim(index) => {
                    let page = self.pages[index].unwrap();
                    if !page.is_shared || may_lock {
                        let other = if page.want == NONE {
                            bound(index)
                        } else {
                            NONE
                        };
                        events.push(Event::Read(index, other));
                    }
                }
                _ => {}
            }
        }
        events
    }

    fn happen(&mut self, event: Event, owner: &Owner) {
        self.trace.push(event);
        match event {
            Event::Other(value) => self.other(value),
            Event::Read(index, want) => {
                if let Some(page) = &mut self.pages[index] {
                    page.want = want;
                    if !page.is_shared {
                        return self.read_alone(index, event);
                    }
                } else {
                    let present = self.setting;
                    let is_first = self.record.is_none();
                    self.claim(index, owner, &text(want));
                    let record = self.record.as_ref().unwrap();
                    if is_first && record.wanted() == Some(text(present)) {
                        // Another program's equal value: it is in force, and nothing is recorded.
                        self.record = None;
                        return;
                    }
                }
                let is_new = self.owners[index] == Kind::Plain;
                self.read_locked(index, event, is_new);
            }
            Event::End(index) => {
                let record = self.record.as_mut().unwrap();
                record.claims.retain(|claim| claim.journal != index as u32);
                record.settled = false;
                // The page is read with the file, before its claim is removed.
                if let Some(page) = self.pages[index].take() {
                    self.know(page);
                }
                self.read_locked(index, event, false);
            }
            Event::Write(index) => {
                let begun = self.begun[index].take().unwrap();
                let was_theirs =
                    self.is_theirs && !begun.is_blurred && self.theirs == [self.setting];
                let before = self.setting;
                if let Some(write) = begun.write {
                    self.setting = write;
                    self.written = Some(write);
                    self.theirs_then.clone_from(&self.theirs);
                    self.is_theirs = self.theirs == [write] && write != NONE;
                }
                match begun.is_alone {
                    true => {
                        let page = self.pages[index].as_mut().unwrap();
                        page.before = page.owned;
                    }
                    false => self.unlock(&begun),
                }
                self.check(&begun, before, was_theirs);
            }
        }
    }

    fn other(&mut self, value: u32) {
        let mut cannot_be_told = self.written == Some(value);
        for begun in self.begun.iter_mut().flatten() {
            begun.is_blurred = true;
            cannot_be_told = true;
        }
        match cannot_be_told {
            true => self.theirs.extend(&self.theirs_then),
            false => self.theirs.clear(),
        }
        self.theirs.push(value);
        self.is_theirs = !cannot_be_told && value != NONE;
        self.setting = value;
    }

    /// As [`live::LiveBound`] without the lock.
    fn read_alone(&mut self, index: usize, event: Event) {
        let page = self.pages[index].as_mut().unwrap();
        let read = self.setting;
        let write = may_replace(&text(read), page.owned).then_some(page.want);
        if let Some(write) = write {
            page.before = read;
            page.owned = write;
        }
        self.begun[index] = Some(Begun {
            write: write.filter(|write| *write != read),
            read,
            is_alone: true,
            is_blurred: false,
            event,
        });
    }

    fn know(&mut self, page: Page) {
        let record = self.record.as_mut().unwrap();
        let owned = [page.owned, page.before].into_iter();
        record
            .live
            .extend(owned.filter(|owned| *owned != NONE).map(text));
    }

    /// As the journal under its lock.
    fn read_locked(&mut self, index: usize, event: Event, is_new: bool) {
        for page in self.pages.iter_mut().flatten() {
            page.is_shared = true;
        }
        for page in self.pages.into_iter().flatten() {
            self.know(page);
        }
        let record = self.record.as_mut().unwrap();
        for claim in &mut record.claims {
            if let Some(page) = self.pages[claim.journal as usize] {
                claim.value = text(page.want);
            }
        }
        let read = self.setting;
        let write = match record.decide(&text(read), is_new) {
            Decision::Write(value) => {
                record.ours = vec![text(read), value.clone()];
                Some(number(&value))
            }
            Decision::Leave => {
                record.has(&text(read));
                None
            }
            Decision::Foreign => {
                record.settled = true;
                None
            }
        };
        self.begun[index] = Some(Begun {
            write,
            read,
            is_alone: false,
            is_blurred: false,
            event,
        });
    }

    fn unlock(&mut self, begun: &Begun) {
        let record = self.record.as_mut().unwrap();
        if let Some(write) = begun.write {
            record.has(&text(write));
        }
        let owned = record.owned_alone().map_or(NONE, |owned| number(&owned));
        for page in self.pages.iter_mut().flatten() {
            (page.owned, page.before) = (owned, owned);
        }
        // What was read with the file is not known to the next.
        record.live.clear();
        if record.is_alone() {
            record.leave_alone();
            self.pages
                .iter_mut()
                .flatten()
                .for_each(|page| page.is_shared = false);
        }
        if record.claims.is_empty() {
            self.record = None;
        }
    }

    /// What must be so after each write.
    fn check(&self, begun: &Begun, before: u32, was_theirs: bool) {
        if begun.is_blurred {
            return;
        }
        let wants = match begun.event {
            Event::Read(_, want) => want,
            _ => NONE,
        };
        let is_plain = |index: usize| self.owners[index] == Kind::Plain;
        match begun.event {
            // A run's claim is in force; a service's is, where no other program has a value.
            Event::Read(index, _) if is_plain(index) || self.theirs == [NONE] => {
                assert!(self.setting <= wants, "not in force: {self:#?}");
            }
            _ => {}
        }
        let is_claim = matches!(begun.event, Event::Read(index, _) if is_plain(index));
        if was_theirs && before == begun.read && !is_claim {
            assert_eq!(self.setting, before, "another's value is gone: {self:#?}");
        }
    }

    /// All owners end, one after the other.
    fn end(mut self, owner: &Owner) {
        for index in 0..3 {
            if self.begun[index].is_some() {
                self.happen(Event::Write(index), owner);
            }
        }
        for index in 0..3 {
            if self.has_claim(index) {
                self.happen(Event::End(index), owner);
                self.happen(Event::Write(index), owner);
            }
        }
        assert!(self.theirs.contains(&self.setting), "in the end: {self:#?}");
        assert!(self.record.is_none());
    }
}

fn explore(world: &World, depth: usize, owner: &Owner, seen: &mut u64) {
    for event in world.events() {
        let mut next = world.clone();
        next.happen(event, owner);
        *seen += 1;
        if depth > 1 {
            explore(&next, depth - 1, owner, seen);
        }
        next.end(owner);
    }
}

#[test]
fn every_order_of_events_leaves_what_another_program_wrote() {
    let owner = Owner::this().unwrap();
    let (plain, live) = (Kind::Plain, Kind::Live);
    let mut seen = 0;
    for owners in [
        [plain, plain, live],
        [plain, live, live],
        [live, plain, live],
    ] {
        for setting in [NONE, 30] {
            explore(
                &World::of(owners, setting, &owner),
                DEPTH,
                &owner,
                &mut seen,
            );
        }
    }
    println!("{seen} orders of up to {DEPTH} events");
}
