//! What the engine's own programs take.

use std::os::fd::AsFd;

use libbpf_rs::skel::Skel;
use reveille_kernel::bpf::{Counting, RunTime, run_time, run_time_of_all};

use super::Engine;
use crate::Result;
use crate::bench::assist::OwnCost;

impl Engine {
    /// What its programs take while `io` runs, for each request that it is to anticipate. Runs for
    /// other requests, idle periods and interrupts meanwhile are in it; what its timers do is not.
    /// `None` where the kernel does not count, or no request came.
    pub fn own_cost(&self, io: impl FnOnce()) -> Result<Option<OwnCost>> {
        let Some(counting) = Counting::start() else {
            return Ok(None);
        };
        let nothing_ns = counting.of_nothing_ns()?;
        let read = || -> Result<[RunTime; 2]> {
            let programs = &self.skel.progs;
            let mut at_requests = run_time(programs.on_issue.as_fd())?;
            at_requests.add(run_time(programs.on_complete.as_fd())?);
            if self.settings.packets.any() {
                at_requests.add(run_time(programs.on_packet.as_fd())?);
                at_requests.add(run_time(programs.on_waking.as_fd())?);
            }
            Ok([run_time_of_all(self.skel.object())?, at_requests])
        };
        let (before, requests) = (read()?, self.requests()?);
        io();
        let (after, requests) = (read()?, self.requests()? - requests);
        let per_request = |which: usize| {
            let own_ns = after[which].own_ns_since(before[which], nothing_ns);
            own_ns as f64 / requests as f64
        };
        Ok((requests > 0).then(|| OwnCost {
            ns: per_request(0),
            at_requests_ns: per_request(1),
        }))
    }
}
