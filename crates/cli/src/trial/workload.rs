//! From flags to a workload.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use reveille_kernel::affinity::{self, Binding};
use reveille_trial::workload::{
    Command, Description, ECHO_MAX_SIZE, ECHO_MIN_SIZE, Echo, Figure, NANOSECONDS, PING_MAX_SIZE,
    PING_MIN_SIZE, PORT, Pace, PaceDescription, Ping, Requests, Transport, Workload,
};

use super::Args;
use crate::exit::Failure;

/// # Errors
/// Where no workload is given, or it cannot be had.
pub fn of(args: &Args) -> anyhow::Result<Box<dyn Workload>> {
    match (&args.ping, &args.echo) {
        (Some(host), _) => ping(args, host),
        (None, Some(server)) => echo(args, server),
        (None, None) if args.command.is_empty() => Err(Failure::usage(
            "there is nothing to run: give --ping HOST, --echo HOST:PORT, or a command after `--`",
        )),
        (None, None) => command(args),
    }
}

fn command(args: &Args) -> anyhow::Result<Box<dyn Workload>> {
    let figure = match &args.figure {
        Some(expression) => Figure::Output {
            expression: expression.clone(),
            unit: args.unit.clone(),
        },
        None => Figure::Duration,
    };
    let run_as = args.user.run_as()?;
    let command = Command::new(&args.command, run_as, figure, args.higher_is_better);
    Ok(Box::new(command?))
}

fn ping(args: &Args, host: &str) -> anyhow::Result<Box<dyn Workload>> {
    let size = size(args, 56, PING_MIN_SIZE, PING_MAX_SIZE)?;
    let address = resolve(host, 0)?.ip();
    let asks_on = bind(args.cpu)?;
    let ping = Ping::new(address, size)?;
    let mut notes = Vec::new();
    if is_local(address) {
        notes.push(format!(
            "{address} is this machine: its answer needs no other CPU and no interrupt, so only the \
             way there from sleep is in the figure."
        ));
    }
    let name = named(host, &address.to_string());
    let description = description(
        args,
        "ping",
        &format!("ping {name}, {size} bytes"),
        size,
        notes,
    );
    Ok(Box::new(Requests::new(
        ping,
        asks_on,
        pace(args)?,
        description,
        args.seed,
    )))
}

fn echo(args: &Args, server: &str) -> anyhow::Result<Box<dyn Workload>> {
    let size = size(args, 64, ECHO_MIN_SIZE, ECHO_MAX_SIZE)?;
    let (transport, by) = match args.tcp {
        true => (Transport::Tcp, "TCP"),
        false => (Transport::Udp, "UDP"),
    };
    let mut notes = Vec::new();
    let (echo, asks_on, name) = if server == "self" {
        let (here, there) = two_cpus(args.cpu);
        let asks_on = bind(here)?;
        if let Some((here, there)) = here.zip(there) {
            notes.push(format!(
                "CPU {here} asks, CPU {there} answers: each wakes the other, over loopback."
            ));
        }
        let echo = Echo::with_own_server(transport, size, there)?;
        (echo, asks_on, "itself".to_owned())
    } else {
        let address = resolve_server(server)?;
        (
            Echo::new(address, transport, size),
            bind(args.cpu)?,
            named(server, &address.to_string()),
        )
    };
    let what = format!("echo from {name} by {by}, {size} bytes");
    let description = description(args, "echo", &what, size, notes);
    Ok(Box::new(Requests::new(
        echo,
        asks_on,
        pace(args)?,
        description,
        args.seed,
    )))
}

fn description(
    args: &Args,
    kind: &str,
    what: &str,
    size: usize,
    notes: Vec<String>,
) -> Description {
    Description {
        kind: kind.into(),
        what: what.into(),
        figure: "round trip".into(),
        unit: NANOSECONDS.into(),
        higher_is_better: false,
        pace: Some(PaceDescription {
            requests_per_round: args.requests,
            interval_ms: args.interval.as_secs_f64() * 1e3,
            timeout_ms: args.timeout.as_secs_f64() * 1e3,
            size_bytes: size,
        }),
        notes,
    }
}

/// A longer pause could not be interrupted soon.
const INTERVAL_MAX_S: f64 = 10.0;

fn pace(args: &Args) -> anyhow::Result<Pace> {
    if args.interval.is_zero() || args.interval.as_secs_f64() > INTERVAL_MAX_S {
        return Err(Failure::usage(
            "--interval: must be above 0 and at most 10s",
        ));
    }
    // The kernel counts a socket's timeout in its ticks.
    if args.timeout.as_millis() == 0 || args.timeout.as_secs_f64() > INTERVAL_MAX_S {
        return Err(Failure::usage("--timeout: must be from 1ms to 10s"));
    }
    Ok(Pace {
        requests: args.requests,
        interval: args.interval,
        timeout: args.timeout,
    })
}

fn size(args: &Args, default: usize, min: usize, max: usize) -> anyhow::Result<usize> {
    let size = args.size.unwrap_or(default);
    match (min..=max).contains(&size) {
        true => Ok(size),
        false => Err(Failure::usage(format!(
            "--size {size}: must be from {min} to {max} bytes"
        ))),
    }
}

/// Binds this thread to that CPU, if one is given.
fn bind(cpu: Option<u32>) -> anyhow::Result<Option<Binding>> {
    Ok(cpu.map(Binding::here).transpose()?)
}

/// The CPU that asks and another one that answers; the same one twice is `None` for the second.
fn two_cpus(asks: Option<u32>) -> (Option<u32>, Option<u32>) {
    let allowed = affinity::allowed();
    let asks = asks.or_else(|| allowed.first().copied());
    // The farthest by number: threads of one core are neighbours, or half of all CPUs apart.
    let answers = allowed.iter().rev().copied().find(|cpu| Some(*cpu) != asks);
    (asks, answers)
}

fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let unknown = |why: String| Failure::usage(format!("{host}: this host cannot be found: {why}"));
    let mut found = (host, port)
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| unknown("it has no address".into()))
}

/// `host`, `host:port`, `10.0.0.1`, `::1`, `[::1]:7177`.
fn resolve_server(server: &str) -> anyhow::Result<SocketAddr> {
    if let Ok(address) = server.parse::<SocketAddr>() {
        return Ok(address);
    }
    let is_ipv6 = server
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_ipv6());
    match server.rsplit_once(':').filter(|_| !is_ipv6) {
        None => resolve(server, PORT),
        Some((host, port)) => {
            let port = port.parse().map_err(|_| {
                Failure::usage(format!(
                    "--echo {server}: {port:?} is no port; write HOST:PORT"
                ))
            })?;
            resolve(host, port)
        }
    }
}

fn named(given: &str, address: &str) -> String {
    match given == address {
        true => address.to_owned(),
        false => format!("{given} ({address})"),
    }
}

/// Can a socket be bound to it? Then it is one of this machine's.
fn is_local(address: IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_in_every_usual_way() {
        for (server, address) in [
            ("127.0.0.1", "127.0.0.1:7177"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("::1", "[::1]:7177"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(resolve_server(server).unwrap().to_string(), address);
        }
        assert!(resolve_server("127.0.0.1:http!").is_err());
    }

    #[test]
    fn the_answer_comes_from_another_cpu_where_there_is_one() {
        let (asks, answers) = two_cpus(None);
        assert!(asks.is_some());
        assert!(answers.is_none() || answers != asks);
    }
}
