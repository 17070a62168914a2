//! `reveille power`: what activity costs, by any meter.

mod cpus;
mod meters;
mod record;
mod states;

use std::process::ExitCode;

/// Show what activity costs in power, by any meter: RAPL, chips' sensors, a battery, the board's
/// controller, a socket that measures.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille power meters                     the meters that are here, and how good each is
  reveille power meters --meter shelly:10.0.0.7  a socket in the wall
  sudo reveille power cpus --meter rapl:package-0
                                                 what the first busy CPU costs, and each further one
  sudo reveille power states --meter rapl:package-0
                                                 what each idle state saves, and from which stay on
  reveille power record --meter shelly:10.0.0.7 --out meter.csv
                                                 samples, for `resume analyze --power`

Meters:
  rapl:NAME, perf:NAME             counters of the processor; `power meters` lists them
  hwmon:CHIP:NAME, battery:NAME    sensors of chips, batteries
  dcmi                             the board's controller, by ipmitool
  shelly:HOST, tasmota:HOST        a socket by HTTP; HOST,energy: its counter; HOST/CHANNEL
  snmp:HOST,OID[,SCALE]            a PDU: the OID's value times SCALE is in W; COMMUNITY@HOST")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Meters(meters::Args),
    Record(record::Args),
    Cpus(cpus::Args),
    States(states::Args),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Meters(args) => meters::run(args),
        Command::Record(args) => record::run(args),
        Command::Cpus(args) => cpus::run(args),
        Command::States(args) => states::run(args),
    }
}
