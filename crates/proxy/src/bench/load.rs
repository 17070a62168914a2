//! Requests at instants that are drawn before.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reveille_kernel::{Error, Result};

use super::bind::bind;
use crate::timer::{Expiry, Timer};

/// Requests that are answered after so long count as failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// A surge takes this time.
const RISE: Duration = Duration::from_secs(1);
/// `stop` is looked at so often while nothing is sent.
const LOOK: Duration = Duration::from_millis(200);

/// An open load.
pub struct Load {
    /// Where other requests go, and how many a second: they do not count.
    pub beside: Option<(Uri, f64)>,
    /// The proxy.
    pub to: SocketAddr,
    /// Requests a second; 0: none.
    pub rate: f64,
    /// What the rate rises to, as a multiple, within [`RISE`] of the middle of the time that counts; 1: it stays.
    pub surge: f64,
    /// Not counted.
    pub warm_up: Duration,
    /// Counted.
    pub time: Duration,
    /// Of the instants.
    pub seed: u64,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Latencies {
    /// From the instant at which the request was to be sent, to the end of the response, ns.
    pub all_ns: Vec<i64>,
    /// Requests without a response, or with another one than 2xx.
    pub failed: u64,
}

impl Load {
    /// Sends all, from these CPUs, and waits for the responses. `read` is called before the first one that counts, and at
    /// the end of the time.
    ///
    /// # Errors
    /// No request is answered.
    pub fn run(
        &self,
        cpus: &[u32],
        stop: &AtomicBool,
        read: &mut dyn FnMut(),
    ) -> Result<Latencies> {
        let allowed = reveille_kernel::affinity::allowed();
        bind(cpus)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| Error::Cannot(format!("the load: {error}")))?;
        let latencies = runtime.block_on(self.send(stop, read));
        let latencies = latencies.map_err(|error| Error::Cannot(format!("the load: {error}")))?;
        bind(&allowed)?;
        match latencies.all_ns.is_empty() && latencies.failed > 0 {
            true => Err(Error::Cannot("the server answers no request".into())),
            false => Ok(latencies),
        }
    }

    /// What the rate is multiplied by, so long after what counts begins.
    fn times_at(&self, since: Duration) -> f64 {
        let risen = since.saturating_sub(self.time / 2).as_secs_f64() / RISE.as_secs_f64();
        1.0 + (self.surge - 1.0) * risen.min(1.0)
    }

    async fn send(&self, stop: &AtomicBool, read: &mut dyn FnMut()) -> std::io::Result<Latencies> {
        let timer = Timer::new()?;
        let client: Client<HttpConnector, Empty<Bytes>> = {
            let mut connector = HttpConnector::new();
            connector.set_nodelay(true);
            Client::builder(TokioExecutor::new()).build(connector)
        };
        let uri: Uri = format!("http://{}/", self.to)
            .parse()
            .expect("an address is one");
        let latencies = Arc::new(Mutex::new(Latencies::default()));
        let mut random = fastrand::Rng::with_seed(self.seed);
        let start = Instant::now();
        let (counts, end) = (start + self.warm_up, start + self.warm_up + self.time);
        let beside = self.beside.clone().map(|(uri, rate)| {
            tokio::spawn(sends_beside(client.clone(), uri, rate, random.fork(), end))
        });
        let mut due = start;
        let mut is_read = false;
        let mut sent = Vec::new();
        loop {
            due = match self.rate > 0.0 {
                true => {
                    let rate = self.rate * self.times_at(due.saturating_duration_since(counts));
                    due + gap(&mut random, rate)
                }
                false => end,
            };
            if !is_read && due >= counts {
                wait(&timer, counts, stop).await;
                read();
                is_read = true;
            }
            wait(&timer, due.min(end), stop).await;
            if due >= end || stop.load(Ordering::Relaxed) {
                break;
            }
            let (client, uri, latencies) = (client.clone(), uri.clone(), Arc::clone(&latencies));
            sent.push(tokio::spawn(async move {
                let is_answered = tokio::time::timeout(PATIENCE, answer(&client, uri)).await;
                if due < counts {
                    return;
                }
                let latency = i64::try_from(due.elapsed().as_nanos()).unwrap_or(i64::MAX);
                let mut latencies = latencies.lock().expect("nothing panics with it");
                match is_answered {
                    Ok(true) => latencies.all_ns.push(latency),
                    _ => latencies.failed += 1,
                }
            }));
        }
        read();
        if let Some(beside) = beside {
            beside.abort();
        }
        for one in sent {
            // It has counted itself.
            let _ = one.await;
        }
        let latencies = std::mem::take(&mut *latencies.lock().expect("nothing panics with it"));
        Ok(latencies)
    }
}

/// The load of others, at random instants until `end`.
async fn sends_beside(
    client: Client<HttpConnector, Empty<Bytes>>,
    uri: Uri,
    rate: f64,
    mut random: fastrand::Rng,
    end: Instant,
) -> std::io::Result<()> {
    let (timer, expiry) = Timer::new()?;
    let mut due = Instant::now();
    loop {
        due += gap(&mut random, rate);
        if due >= end {
            return Ok(());
        }
        timer.set(Some(due));
        expiry.wait().await?;
        let (client, uri) = (client.clone(), uri.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, answer(&client, uri)).await;
        });
    }
}

/// To the next of requests at random instants (Poisson).
fn gap(random: &mut fastrand::Rng, rate: f64) -> Duration {
    Duration::from_secs_f64(-random.f64().max(1e-12).ln() / rate)
}

async fn answer(client: &Client<HttpConnector, Empty<Bytes>>, uri: Uri) -> bool {
    let request = Request::get(uri).body(Empty::new()).expect("it has a path");
    let Ok(response) = client.request(request).await else {
        return false;
    };
    let is_good = response.status().is_success();
    response.into_body().collect().await.is_ok() && is_good
}

async fn wait((timer, expiry): &(Timer, Expiry), until: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
        timer.set(Some(until.min(Instant::now() + LOOK)));
        if expiry.wait().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::Server;
    use super::*;

    #[test]
    fn a_surge_rises_within_a_second_of_the_middle() {
        let load = Load {
            beside: None,
            to: SocketAddr::from(([127, 0, 0, 1], 1)),
            rate: 100.0,
            surge: 3.0,
            warm_up: Duration::ZERO,
            time: Duration::from_secs(20),
            seed: 1,
        };
        let at = |ms| load.times_at(Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(10_000), at(10_500), at(11_000), at(20_000)],
            [1.0, 1.0, 2.0, 3.0, 3.0]
        );
    }

    #[test]
    fn each_request_that_is_sent_is_answered() {
        let cpus = reveille_kernel::affinity::allowed();
        let server =
            Server::start(*cpus.last().unwrap(), false, None, Duration::from_millis(1)).unwrap();
        let load = Load {
            beside: None,
            to: server.address(),
            rate: 200.0,
            surge: 1.0,
            warm_up: Duration::from_millis(200),
            time: Duration::from_millis(500),
            seed: 1,
        };
        let mut reads = 0;
        let latencies = load.run(&cpus, &AtomicBool::new(false), &mut || reads += 1);
        let latencies = latencies.unwrap();
        assert_eq!((reads, latencies.failed), (2, 0));
        let count = latencies.all_ns.len();
        assert!((50..200).contains(&count), "{count}");
        assert!(latencies.all_ns.iter().all(|ns| *ns >= 1_000_000));
    }
}
