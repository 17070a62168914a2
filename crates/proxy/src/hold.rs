//! Holding requests: the queue of a machine, its one timer, and the requests that wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

#[cfg(feature = "bpf")]
use crate::server::{Seat, Watch};
use crate::timer::{Expiry, Timer};
#[cfg(not(feature = "bpf"))]
use crate::without_bpf::{Seat, Watch};
use reveille_stage::counts::Account;
use reveille_stage::queue::{Machine, Mode, Passed, Verdict};
use reveille_stage::stagger::{Place, Plan, Window};

/// A machine that answers, with the requests that are held for it.
#[derive(Debug)]
pub struct Stage {
    state: Mutex<State>,
    timer: Timer,
    mode: Mode,
    place: Place,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    waiting: HashMap<u64, oneshot::Sender<u64>>,
    /// What the timer is set to.
    due: Option<Instant>,
    /// Of the services: they count the releases.
    accounts: Vec<Arc<Account>>,
    /// Nothing is held any more.
    is_over: bool,
    /// Where servers on this machine are followed; `None`: there is none.
    seat: Option<Seat>,
    /// Was the seat told that requests are held?
    is_armed: bool,
}

/// A request that may go. Dropping it says that it was not answered.
#[derive(Debug)]
pub struct Turn {
    stage: Arc<Stage>,
    service: usize,
    /// While it is open; `None` where it counts for nothing.
    burst: Option<u64>,
    /// Why it was not held; `None`: it was.
    pub passed: Option<Passed>,
}

/// As it is now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    /// Requests that are held.
    pub held: usize,
    /// Requests that the machine has to answer.
    pub open: usize,
}

impl Stage {
    /// For services of these shares and accounts; its bursts are staggered with those of the plan's other machines. A task
    /// of the runtime releases what is due.
    ///
    /// # Errors
    /// Where the kernel gives no timer.
    pub fn start(
        mode: Mode,
        shares: &[f64],
        accounts: Vec<Arc<Account>>,
        plan: &Arc<Plan>,
    ) -> std::io::Result<Arc<Self>> {
        let (timer, expiry) = Timer::new()?;
        let place = plan.place();
        let now = Instant::now();
        let began = match mode {
            Mode::Grid(step) => now.checked_sub(step.mul_f64(place.phase())).unwrap_or(now),
            Mode::Direct | Mode::Staged => now,
        };
        let stage = Arc::new(Self {
            state: Mutex::new(State {
                machine: Machine::new(mode, shares, began),
                waiting: HashMap::new(),
                due: None,
                accounts,
                is_over: false,
                seat: None,
                is_armed: false,
            }),
            timer,
            mode,
            place,
        });
        tokio::spawn(releases(Arc::downgrade(&stage), expiry));
        Ok(stage)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it is left half done by a panic of one request.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request of that service may go, which came at `arrival` and has until `deadline`.
    pub async fn turn(
        self: &Arc<Self>,
        service: usize,
        arrival: Instant,
        deadline: Instant,
    ) -> Turn {
        let (sender, receiver) = oneshot::channel();
        let request = {
            let mut state = self.state();
            if state.is_over {
                return self.passes_by(service);
            }
            let runs = state.seat.as_ref().is_some_and(Seat::runs);
            state.machine.runs_for_others(runs);
            match state.machine.comes(service, deadline, arrival) {
                Verdict::Pass(why, burst) => return self.turn_of(service, Some(burst), Some(why)),
                Verdict::Hold(request) => {
                    state.waiting.insert(request, sender);
                    self.set(&mut state, arrival);
                    request
                }
            }
        };
        let mut waiting = Waiting {
            stage: self,
            service,
            request,
            receiver: Some(receiver),
        };
        let receiver = waiting.receiver.as_mut().expect("it is taken below only");
        let burst = receiver
            .await
            .expect("a held request is released before its stage ends");
        waiting.receiver = None;
        self.turn_of(service, Some(burst), None)
    }

    /// The turn of a request that is never held. Nothing is learnt of it, and it keeps nobody awake: it may wait for long.
    pub fn passes_by(self: &Arc<Self>, service: usize) -> Turn {
        self.turn_of(service, None, Some(Passed::Exempt))
    }

    fn turn_of(
        self: &Arc<Self>,
        service: usize,
        burst: Option<u64>,
        passed: Option<Passed>,
    ) -> Turn {
        Turn {
            stage: Arc::clone(self),
            service,
            burst,
            passed,
        }
    }

    /// Releases what is held, and holds nothing any more.
    pub fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        self.release(&mut state, Instant::now());
    }

    /// As it is now.
    pub fn now(&self) -> Now {
        let state = self.state();
        Now {
            held: state.machine.held(),
            open: state.machine.open(),
        }
    }

    /// How long `size` requests of that service are expected to take; `None` if that is not known yet.
    pub fn time_of(&self, service: usize, size: usize) -> Option<Duration> {
        self.state().machine.guard(service).time_of(size)
    }

    /// Sets the timer to when the first request must go, and releases all if that is now.
    fn set(&self, state: &mut State, now: Instant) {
        let due = state.machine.due(now).map(|due| match self.mode {
            Mode::Staged if due > now => {
                let takes = state.machine.takes();
                self.place.plan(Window { begins: due, takes }, now)
            }
            _ => due,
        });
        if due.is_some_and(|due| due <= now) {
            return self.release(state, now);
        }
        let holds = due.is_some();
        if let Some(seat) = state.seat.as_ref().filter(|_| holds != state.is_armed) {
            seat.arm(holds);
            state.is_armed = holds;
        }
        if due == state.due {
            return;
        }
        state.due = due;
        self.timer.set(due);
    }

    fn release(&self, state: &mut State, now: Instant) {
        let due = state.machine.due(now).map_or(now, |due| due.min(now));
        let takes = state.machine.takes();
        let released = state.machine.release(due, now);
        if !released.is_empty() {
            self.place.plan(Window { begins: now, takes }, now);
            state.accounts.iter().for_each(|account| account.bursts());
        }
        for one in released {
            let waiting = state.waiting.remove(&one.request);
            // Its client may be gone.
            if waiting.is_none_or(|waiting| waiting.send(one.burst).is_err()) {
                state.machine.answered(one.burst, now, false);
            }
        }
        self.set(state, now);
    }

    /// What it holds goes early while one of these tasks runs, instead of those before. False: there is no seat left.
    ///
    /// # Errors
    /// Where the kernel does not take the tasks.
    pub fn follows(&self, watch: &Arc<Watch>, tasks: &[u32]) -> reveille_kernel::Result<bool> {
        let mut state = self.state();
        if state.seat.is_none() {
            state.seat = watch.seat();
        }
        let Some(seat) = &state.seat else {
            return Ok(false);
        };
        seat.follow(tasks)?;
        self.set(&mut state, Instant::now());
        Ok(true)
    }

    /// The bell rang: if that was for this queue, what it holds goes.
    pub fn server_runs(&self) {
        let mut state = self.state();
        if state.is_armed && state.seat.as_ref().is_some_and(Seat::has_rung) {
            state.is_armed = false;
            state.accounts.iter().for_each(|account| account.early());
            self.release(&mut state, Instant::now());
        }
    }

    fn timer_expired(&self) {
        let mut state = self.state();
        let now = Instant::now();
        match state.due.take() {
            // Planned anew it would find no time before another machine's burst.
            Some(due) if due <= now => self.release(&mut state, now),
            _ => self.set(&mut state, now),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The task that waits for it ends.
        self.timer.set(Some(Instant::now()));
    }
}

/// Releases what is due, until the stage is dropped.
async fn releases(stage: Weak<Stage>, timer: Expiry) {
    while timer.wait().await.is_ok() {
        let Some(stage) = stage.upgrade() else {
            return;
        };
        stage.timer_expired();
    }
}

/// Of a request that is held: dropping it, as its client is gone, takes it out of the queue.
struct Waiting<'a> {
    stage: &'a Stage,
    service: usize,
    request: u64,
    receiver: Option<oneshot::Receiver<u64>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut receiver) = self.receiver.take() else {
            return;
        };
        let mut state = self.stage.state();
        let now = Instant::now();
        match receiver.try_recv() {
            // It was released in the meantime.
            Ok(burst) => state.machine.answered(burst, now, false),
            Err(_) => {
                state.waiting.remove(&self.request);
                state.machine.gone(self.service, self.request);
                self.stage.set(&mut state, now);
            }
        }
    }
}

impl Turn {
    /// The response is there.
    pub fn answered(mut self, now: Instant) {
        self.ends(now, true);
    }

    fn ends(&mut self, now: Instant, is_answer: bool) {
        if let Some(burst) = self.burst.take() {
            self.stage.state().machine.answered(burst, now, is_answer);
        }
    }

    /// It missed its deadline because it was held.
    pub fn missed(&self) {
        self.stage.state().machine.missed(self.service);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.ends(Instant::now(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_before_that_of_another_machine() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let plan = Arc::new(Plan::default());
            let stage = Stage::start(Mode::Staged, &[0.99], Vec::new(), &plan).unwrap();
            let hour = Duration::from_secs(3600);
            for _ in 0..20 {
                let now = Instant::now();
                let turn = stage.turn(0, now, now + hour).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
                turn.answered(Instant::now());
            }
            let began = Instant::now();
            let other = plan.place();
            let window = Window {
                begins: began + Duration::from_secs(1),
                takes: hour,
            };
            other.plan(window, began);
            // Alone it would go after more than 8 s.
            let turn = stage.turn(0, began, began + Duration::from_secs(10)).await;
            assert_eq!(turn.passed, None);
            let held = began.elapsed();
            assert!(held < Duration::from_secs(5), "{held:?}");
        });
    }
}
