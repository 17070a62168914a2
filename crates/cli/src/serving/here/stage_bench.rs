//! The proxy against itself.

use std::process::ExitCode;
use std::time::SystemTime;

use reveille_kernel::{Root, affinity};
use reveille_meter::Steady;
use reveille_proxy::bench::{self, Options};
use reveille_results::description::Ended;
use reveille_show::progress::Bar;
use reveille_stage::bench::{Bench, Setting, result, show};
use reveille_trial::setting::Machine;

use crate::exit::Failure;
use crate::stage::bench::Args;
use crate::value::CpuList;
use crate::{comparison, signals};

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let started = SystemTime::now();
    let root = Root::default();
    let machine = Machine::read(root.clone())?;
    let allowed = affinity::allowed();
    let server_cpus = match args.server_cpu {
        Some(CpuList(cpus)) => cpus,
        None => allowed.last().copied().into_iter().collect(),
    };
    if let Some(cpu) = server_cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Failure::usage(format!(
            "--server-cpu: this process may not use CPU {cpu}"
        )));
    }
    let Some(own) = server_cpus.first() else {
        return Err(Failure::cannot(
            "this process may use no CPU of this machine",
        ));
    };
    if args.upstream.is_none() && server_cpus.len() > 1 {
        return Err(Failure::usage(
            "--server-cpu: the own server runs on one CPU; more need --upstream",
        ));
    }
    if allowed.iter().all(|cpu| server_cpus.contains(cpu)) {
        return Err(Failure::cannot(format!(
            "the load and the proxy need a CPU beside the server's, CPU {own}"
        )));
    }
    let seed = args.seed.unwrap_or_else(|| {
        let since = started.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos() as u64
    });
    let options = Options {
        upstream: args.upstream,
        work: args.work,
        http2: args.http2,
        unix: args.unix,
        server_cpus,
        settings: Setting::ALL
            .into_iter()
            .filter(|one| args.setting.is_empty() || args.setting.contains(one))
            .collect(),
        rate: args.rate,
        surge: args.surge,
        beside: args.beside,
        deadline: args.deadline,
        percentile: args.percentile,
        grid: args.grid,
        rounds: args.rounds,
        turn: args.turn,
        seed,
    };
    let out = args.kept.folder(result::FILE)?;
    let stop = signals::stop()?;
    let named = args.meter.as_deref();
    let mut meter = named
        .map(|name| comparison::watched(&root, name, &stop))
        .transpose()?;
    let (watched, steady) = match &mut meter {
        None => (None, None),
        Some((meter, watched)) => {
            let refresh = watched.refresh_within("--turn", options.turn)?;
            let steady = Steady::new(meter.as_mut(), refresh);
            (Some(watched.clone()), Some(steady))
        }
    };
    let bar = Bar::new();
    let gathered = bench::run(&options, steady, &stop, &mut |now| {
        let step = format!("round {} of {}", now.round + 1, options.rounds);
        bar.show(&step, now.done, Some(now.left), now.setting.name());
    });
    bar.clear();
    let gathered = gathered?;
    let rounds = gathered.turns.len() / options.settings.len();
    let ended = match gathered.interrupted {
        true => Ended::Interrupted,
        false if rounds < options.rounds as usize => Ended::Disturbed(bench::other_load()),
        false => Ended::Completed,
    };
    let percent: f64 = options.percentile.percent().parse().expect("a number");
    let bench = Bench {
        about: args.kept.about(
            result::SCHEMA_VERSION,
            &machine,
            "stage-bench",
            started,
            ended.clone(),
        ),
        upstream: options
            .upstream
            .as_ref()
            .map(|upstream| match upstream.socket() {
                Some(_) => upstream.address(),
                None => upstream.uri.to_string(),
            }),
        work_s: options
            .upstream
            .is_none()
            .then_some(options.work.as_secs_f64()),
        http2: options.http2,
        unix: options.unix,
        server_cpus: options.server_cpus.clone(),
        rate_per_s: options.rate,
        surge: options.surge,
        beside_per_s: options.beside,
        deadline_s: options.deadline.as_secs_f64(),
        percentile: percent,
        grid_s: options.grid.as_secs_f64(),
        rounds: options.rounds,
        disturbed: gathered.disturbed,
        seed,
        meter: watched,
        notes: result::notes(&gathered.turns),
        settings: result::summaries(
            &gathered.turns,
            options.deadline.as_secs_f64(),
            options.server_cpus.len(),
        ),
        turns: gathered.turns,
    };
    let forget = |bench: &mut Bench| bench.turns.clear();
    let out = (result::FILE, out.as_ref());
    args.kept.print(bench, &ended, out, forget, show::sheet)
}
