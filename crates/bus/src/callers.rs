//! Who calls, and how much of the service a user may take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reveille_expect::monotonic_ns;
use reveille_expect::server::Rate;
use reveille_govern::holds::Owner;
use zbus::Connection;
use zbus::fdo::{DBusProxy, Error, Result};
use zbus::message::Header;
use zbus::names::UniqueName;
use zbus::proxy::CacheProperties;

/// Calls of one program that wait for the bus or polkit, at a time.
const OF_CLIENT: u32 = 4;
/// Of one user: some of them wait for a person.
const OF_USER: u32 = 16;
/// Holds of one user in a second, in the long run; each is a change of every CPU's bound, and so is its end.
const HOLDS_PER_SECOND: u32 = 10;
/// And so many at once: a user has [`reveille_govern::holds::MOST_OF_USER`] at a time.
const HOLDS_AT_ONCE: u32 = 2 * reveille_govern::holds::MOST_OF_USER as u32;
/// Lists of one user in a second: one of all holds takes a millisecond.
const LISTS_PER_SECOND: u32 = 20;
/// Reads of one user in a second, and so many at once: each takes some 0.1 ms. The others wait for their turn.
const READS_PER_SECOND: u32 = 200;
/// Programs whose users are known without asking the bus.
const KNOWN_MAX: usize = 1024;
/// Users are looked through at this number, and those of whom nothing is left are forgotten.
const SWEPT_FROM: usize = 64;

/// All callers.
// It has no connection: the connection has the objects, which have this, so it would never close.
#[derive(Clone, Default)]
pub struct Callers {
    counts: Arc<Mutex<Counts>>,
}

/// What a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A new hold.
    Hold,
    /// A list of holds.
    List,
}

/// A call that is being answered.
pub struct Caller {
    /// Who calls.
    pub owner: Owner,
    _of_user: Place,
    _of_client: Place,
}

#[derive(Default)]
struct Counts {
    calls: HashMap<Who, u32>,
    users: HashMap<u32, Rates>,
    /// The user of each program that has read. The bus gives no name twice.
    known: HashMap<String, u32>,
}

/// Whose calls are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    Client(String),
    User(u32),
}

struct Rates {
    holds: Rate,
    lists: Rate,
    reads: Rate,
}

/// One of the calls that may wait.
struct Place {
    who: Who,
    counts: Arc<Mutex<Counts>>,
}

impl Callers {
    /// Who calls; an error if its user takes too much. Root may take all.
    pub async fn admit(
        &self,
        connection: &Connection,
        call: &Header<'_>,
        of: Use,
    ) -> Result<Caller> {
        let name = call.sender().ok_or_else(unknown)?;
        // The bus has yet to say whose program it is.
        let of_client = self.place(Who::Client(name.to_string()), OF_CLIENT)?;
        let bus = DBusProxy::builder(connection).cache_properties(CacheProperties::No);
        let bus = bus.build().await?;
        let credentials = bus.get_connection_credentials(name.clone().into());
        let credentials = credentials.await.map_err(|_| unknown())?;
        let uid = credentials.unix_user_id().ok_or_else(unknown)?;
        let of_user = self.place(Who::User(uid), most_of(uid))?;
        if uid != 0 && !self.counts().takes(uid, of, monotonic_ns()) {
            let why = "this user asks too often; wait a second";
            return Err(Error::LimitsExceeded(why.into()));
        }
        Ok(Caller {
            owner: Owner {
                uid,
                pid: credentials.process_id().unwrap_or(0),
                name: name.to_string(),
            },
            _of_user: of_user,
            _of_client: of_client,
        })
    }

    /// Waits until the caller's user may read; an error if too many of its calls wait already.
    pub async fn read(&self, connection: &Connection, call: &Header<'_>) -> Result<()> {
        let name = call.sender().ok_or_else(unknown)?;
        let known = self.counts().known.get(name.as_str()).copied();
        if known == Some(0) {
            return Ok(());
        }
        let _of_client = self.place(Who::Client(name.to_string()), OF_CLIENT)?;
        let uid = match known {
            Some(uid) => uid,
            None => self.user(connection, name).await?,
        };
        let _of_user = self.place(Who::User(uid), most_of(uid))?;
        loop {
            let now_ns = monotonic_ns();
            let may = match uid {
                0 => Ok(()),
                _ => self.counts().rates(uid, now_ns).reads.take(now_ns),
            };
            match may {
                Ok(()) => return Ok(()),
                Err(at_ns) => {
                    let wait = Duration::from_nanos(at_ns.saturating_sub(now_ns));
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    async fn user(&self, connection: &Connection, name: &UniqueName<'_>) -> Result<u32> {
        let bus = DBusProxy::builder(connection).cache_properties(CacheProperties::No);
        let bus = bus.build().await?;
        let uid = bus.get_connection_unix_user(name.clone().into());
        let uid = uid.await.map_err(|_| unknown())?;
        let known = &mut self.counts().known;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(name.to_string(), uid);
        Ok(uid)
    }

    fn place(&self, who: Who, most: u32) -> Result<Place> {
        let mut counts = self.counts();
        let calls = counts.calls.entry(who.clone()).or_default();
        if *calls >= most {
            let whose = match who {
                Who::Client(_) => "program",
                Who::User(_) => "user",
            };
            let why = format!("{most} calls of this {whose} wait already, which is the maximum");
            return Err(Error::LimitsExceeded(why));
        }
        *calls += 1;
        Ok(Place {
            who,
            counts: self.counts.clone(),
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = counts.calls.get_mut(&self.who) {
            *calls -= 1;
            if *calls == 0 {
                counts.calls.remove(&self.who);
            }
        }
    }
}

impl Counts {
    fn takes(&mut self, uid: u32, of: Use, now_ns: u64) -> bool {
        let rates = self.rates(uid, now_ns);
        let rate = match of {
            Use::Hold => &mut rates.holds,
            Use::List => &mut rates.lists,
        };
        rate.take(now_ns).is_ok()
    }

    fn rates(&mut self, uid: u32, now_ns: u64) -> &mut Rates {
        if self.users.len() >= SWEPT_FROM {
            self.users.retain(|_, rates| !rates.are_full(now_ns));
        }
        self.users.entry(uid).or_insert_with(|| Rates {
            holds: Rate::new(HOLDS_PER_SECOND, HOLDS_AT_ONCE, now_ns),
            lists: Rate::new(LISTS_PER_SECOND, LISTS_PER_SECOND, now_ns),
            reads: Rate::new(READS_PER_SECOND, READS_PER_SECOND, now_ns),
        })
    }
}

impl Rates {
    fn are_full(&mut self, now_ns: u64) -> bool {
        let all = [&mut self.holds, &mut self.lists, &mut self.reads];
        all.into_iter().all(|rate| rate.is_full(now_ns))
    }
}

/// Calls of that user that may wait; root's are the machine's own.
fn most_of(uid: u32) -> u32 {
    if uid == 0 { u32::MAX } else { OF_USER }
}

fn unknown() -> Error {
    Error::AccessDenied("the bus does not know the caller".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_user_changes_bounds_at_a_bounded_rate_and_other_users_do_not_notice() {
        let mut counts = Counts::default();
        let mut taken = |uid, of, at| counts.takes(uid, of, at);
        let at_once = (0..1000).filter(|_| taken(1000, Use::Hold, 0)).count();
        assert_eq!(at_once, HOLDS_AT_ONCE as usize);
        assert!(taken(1001, Use::Hold, 0) && taken(1000, Use::List, 0));
        let later = (0..1000).filter(|_| taken(1000, Use::Hold, SECOND)).count();
        assert_eq!(later, HOLDS_PER_SECOND as usize);
    }

    #[test]
    fn a_user_reads_at_a_bounded_rate_of_its_own() {
        let mut counts = Counts::default();
        let mut reads = |uid, at_ns| counts.rates(uid, at_ns).reads.take(at_ns);
        let at_once = (0..1000).take_while(|_| reads(1000, 0).is_ok()).count();
        assert_eq!(at_once, READS_PER_SECOND as usize);
        // The next one waits its part of a second.
        assert_eq!(reads(1000, 0), Err(SECOND / u64::from(READS_PER_SECOND)));
        assert_eq!(reads(1001, 0), Ok(()));
    }

    #[test]
    fn users_that_ask_no_more_are_forgotten() {
        let mut counts = Counts::default();
        for uid in 0..10_000 {
            counts.takes(uid, Use::Hold, u64::from(uid) * SECOND);
        }
        assert!(counts.users.len() <= SWEPT_FROM);
    }
}
