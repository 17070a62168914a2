//! `reveille stage`: a reverse proxy that releases requests in bursts.

pub mod bench;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use reveille_results::statistics::Percentile;
use reveille_stage::config::Upstream;

use crate::output_format::Printed;
use crate::value;

/// Hold requests, and release them in bursts, so that the server behind sleeps in between.
///
/// A reverse proxy for HTTP/1.1 and HTTP/2. Each request has a deadline; the proxy learns how long the server takes to
/// answer a burst, holds requests while all deadlines are kept, and releases all when the first one must go. While the
/// server answers it is awake, so further requests pass. Nothing is held while too little is known of the server, near
/// saturation, and where a deadline leaves no time.
///
/// It runs in the foreground until Ctrl-C or SIGTERM: then it releases what it holds and answers what is on its way.
/// A second one drops those. With --config SIGHUP reads the file again, or ends the run if that has a terminal, which may
/// have been closed.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  reveille stage --listen 0.0.0.0:8080 --upstream http://127.0.0.1:8081 --deadline 500ms
  reveille stage --listen :8080 --upstream http://a:80 --upstream http://b:80 --deadline 200ms \\
      --percentile 99 --exempt '/health*'
  reveille stage --listen :50051 --upstream h2c://127.0.0.1:50052 --deadline 1s     gRPC
  reveille stage --listen :8080 --upstream unix:/run/app.sock --deadline 500ms
  reveille stage bench                              what it gains and costs on this machine
  reveille stage --config stage.toml --metrics 9817 several services; curl localhost:9817/status

Deadlines of requests: the headers grpc-timeout, x-envoy-expected-rq-timeout-ms and
x-reveille-deadline-ms shorten the service's deadline for their request.")]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Services, in a file; each has the options below as keys
    #[arg(long, value_name = "FILE", required_unless_present = "listen")]
    pub config: Option<PathBuf>,
    /// Where clients connect to: ADDRESS:PORT, or :PORT for every address
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "config", requires = "upstream", requires = "deadline")]
    pub listen: Option<SocketAddr>,
    /// The server that answers: http://HOST:PORT, https://HOST, h2c://HOST:PORT (HTTP/2 without TLS), h2://HOST (with
    /// TLS), unix:/PATH or unix+h2c:/PATH; several take turns
    #[arg(long, value_name = "URL", requires = "listen")]
    pub upstream: Vec<Upstream>,
    /// A request is answered within this time from its arrival on
    #[arg(long, value_name = "TIME", value_parser = value::time("500ms"), requires = "listen")]
    pub deadline: Option<Duration>,
    /// The share of requests that is: 90, 99, 99.9 or 99.99
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = percentile, requires = "listen")]
    pub percentile: Percentile,
    /// Never hold requests for paths like this one; * is any text
    #[arg(long, value_name = "PATH", requires = "listen")]
    pub exempt: Vec<String>,
    /// Release at the multiples of this time, whatever the deadlines
    #[arg(long, value_name = "TIME", value_parser = value::time("500ms"), requires = "listen")]
    pub grid: Option<Duration>,
    /// Hold nothing
    #[arg(long, conflicts_with = "grid", requires = "listen")]
    pub direct: bool,
    /// Clients speak TLS: the certificate's chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "listen")]
    pub tls_certificate: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Serve metrics for Prometheus at /metrics, and the state as JSON at /status: a port of this machine's own, or
    /// ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = own_address)]
    pub metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub printed: Printed,
}

#[derive(clap::Subcommand)]
pub enum Command {
    Bench(bench::Args),
}

fn percentile(text: &str) -> Result<Percentile, String> {
    Percentile::of_percent(text).ok_or_else(|| "not 90, 99, 99.9 or 99.99".to_owned())
}

/// `:8080` is every address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .strip_prefix(':')
        .and_then(|port| port.parse::<u16>().ok());
    let every = port.map(|port| SocketAddr::from(([0_u16; 8], port)));
    let address = every.or_else(|| text.parse().ok());
    address.ok_or_else(|| "not an address, such as 127.0.0.1:8080 or :8080".to_owned())
}

/// A port alone is loopback's.
fn own_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let own = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let address = own.or_else(|_| text.parse());
    address.map_err(|_| "not an address, such as 9817 or 127.0.0.1:9817".to_owned())
}
