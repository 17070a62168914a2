//! `reveille states`: the idle states of a machine, grouped where CPUs are alike.

mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use reveille_kernel::boot::{self, WithoutDriver};
use reveille_kernel::groups::{self, Group, ShareOf};
use reveille_kernel::pm_qos;
use reveille_kernel::{Identity, Idle, IdleState, Root, cpulist};
use serde::Serialize;

use crate::chosen::{self, CpuList};
use reveille_show::terminal;
use reveille_show::wrap;

/// Show the CPUs' idle states: the driver's figures, what is allowed, and how each was used.
///
/// CPUs that are alike are one group; those that differ (kind of core, states, disabled states,
/// latency bounds, offline) stand apart. Counts and times are since boot.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille states
  reveille states --cpu 0-3
  reveille states --json | jq '.groups[].states[] | {name, exit_latency_us}'
  reveille states --root /tmp/recorded-machine

Columns:
  exit, target   the driver's exit latency and target residency
  dflt, now      is the state on by default, and is it now
  share          of the CPUs' time since boot; of all idle time where the uptime is not known
  rejected       requests that hardware or firmware turned down, per cent of all requests
  above, below   uses for which a shallower (above) or a deeper (below) state would have been
                 right, per cent of uses")]
pub struct Args {
    /// Only these CPUs, as a list such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    cpu: Option<CpuList>,
    /// Read a recorded machine: a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON: units are in the names
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = chosen::root(args.root.as_deref())?;
    let mut view = View::read(&root)?;
    if args.cpu.is_some() {
        view.keep(&chosen::cpus(&view.idle, args.cpu.as_ref())?);
    }
    let mut out = terminal::stdout();
    match args.json {
        true => view.write_json(&mut out)?,
        false => {
            let columns = wrap::terminal().map_or(table::WIDEST, |columns| {
                columns.clamp(wrap::COLUMNS, table::WIDEST)
            });
            table::write(&view, columns, &mut out)?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is shown: the same for people and for programs.
struct View {
    identity: Identity,
    idle: Idle,
    groups: Vec<Group>,
    settings: Vec<boot::Setting>,
    without_driver: Option<WithoutDriver>,
    uptime_s: Option<f64>,
    /// The bound that processes hold on all CPUs; `None` where there is none, or it is not told.
    bound_us: Option<u32>,
}

impl View {
    fn read(root: &Root) -> anyhow::Result<Self> {
        let idle = Idle::read(root)?;
        let identity = Identity::read(root);
        let uptime = root.text("proc/uptime");
        Ok(Self {
            groups: idle.groups(),
            settings: boot::settings(identity.command_line.as_deref().unwrap_or_default()),
            without_driver: WithoutDriver::of(&idle, root),
            uptime_s: uptime.and_then(|text| text.split_whitespace().next()?.parse().ok()),
            bound_us: match root.is_live() {
                true => pm_qos::current_bound_us().ok().flatten(),
                false => None,
            },
            identity,
            idle,
        })
    }

    /// Keeps these CPUs only.
    fn keep(&mut self, cpus: &[u32]) {
        self.idle.cpus.retain(|cpu| cpus.contains(&cpu.number));
        self.groups = self.idle.groups();
    }

    fn write_json(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        let offline = self.idle.cpus.iter().filter(|cpu| !cpu.online);
        let offline: Vec<u32> = offline.map(|cpu| cpu.number).collect();
        let json = Json {
            machine: &self.identity,
            driver: self.idle.driver.as_deref(),
            governor: self.idle.governor.as_deref(),
            available_governors: &self.idle.available_governors,
            without_driver: self.without_driver.as_ref(),
            command_line_settings: &self.settings,
            uptime_s: self.uptime_s,
            bound_us: self.bound_us,
            offline_cpus: offline,
            isolated_cpus: &self.idle.isolated,
            nohz_full_cpus: &self.idle.nohz_full,
            groups: self
                .groups
                .iter()
                .map(|group| self.json_group(group))
                .collect(),
            cpus: &self.idle.cpus,
        };
        serde_json::to_writer_pretty(&mut *out, &json).map_err(std::io::Error::from)?;
        writeln!(out)?;
        Ok(())
    }

    fn json_group<'a>(&self, group: &'a Group) -> JsonGroup<'a> {
        let (time_share_of, shares) = groups::shares(group, self.uptime_s);
        let state = |(state, time_share_percent)| JsonState {
            state,
            time_share_percent,
        };
        JsonGroup {
            cpus: &group.cpus,
            cpu_list: cpulist::format(&group.cpus),
            online: group.online,
            core_kind: group.kind.as_ref().map(ToString::to_string),
            resume_latency_us: group.resume_latency_us,
            idle_time_us: group.idle_time_us(),
            time_share_of,
            states: group.states.iter().zip(shares).map(state).collect(),
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    machine: &'a Identity,
    driver: Option<&'a str>,
    governor: Option<&'a str>,
    available_governors: &'a [String],
    without_driver: Option<&'a WithoutDriver>,
    command_line_settings: &'a [boot::Setting],
    uptime_s: Option<f64>,
    /// The latency bound held through /dev/cpu_dma_latency; null where there is none or this user
    /// may not see it.
    bound_us: Option<u32>,
    offline_cpus: Vec<u32>,
    isolated_cpus: &'a [u32],
    nohz_full_cpus: &'a [u32],
    groups: Vec<JsonGroup<'a>>,
    /// Every CPU by itself, ungrouped.
    cpus: &'a [reveille_kernel::Cpu],
}

#[derive(Serialize)]
struct JsonGroup<'a> {
    cpus: &'a [u32],
    cpu_list: String,
    online: bool,
    core_kind: Option<String>,
    resume_latency_us: Option<i64>,
    idle_time_us: Option<u64>,
    time_share_of: ShareOf,
    states: Vec<JsonState<'a>>,
}

#[derive(Serialize)]
struct JsonState<'a> {
    #[serde(flatten)]
    state: &'a IdleState,
    time_share_percent: Option<f64>,
}
