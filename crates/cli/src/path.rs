//! `reveille path`: follows packets that reach this machine, and shows where their time goes.

mod args;

use std::process::ExitCode;

use reveille_advise::MachineResult;
use reveille_kernel::network::Interface;
use reveille_kernel::{Idle, Root};
use reveille_results::kept;
use reveille_show::progress::Bar;
use reveille_watch::path::{self, FILE, Follow, Options, Setup, show};

use crate::exit;
use crate::flags;
use crate::output_format::To;
use crate::signals;
pub use args::Args;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let interface = match &args.nic {
        Some(name) => Some(Interface::named(&root, name)?),
        None => None,
    };
    let measured = match &args.result {
        Some(folder) => Some(
            MachineResult::description(folder, &Idle::read(&root)?)
                .map_err(flags::unfit)?
                .0,
        ),
        None => None,
    };
    let options = Options {
        setup: Setup {
            follow: match args.ping {
                true => Follow::Ping,
                false => Follow::Socket,
            },
            interface: interface.as_ref(),
            port: args.port,
        },
        duration: args.duration,
        count: args.count,
        measured: measured.as_ref(),
    };
    let folder = flags::output_folder(args.out.as_deref(), &[FILE])?;
    let stop = signals::stop()?;

    let path = path::run(&root, &options, &stop, &Bar::new())?;
    // An empty file would only be in the way of the next try.
    let folder = folder.filter(|_| !path.groups.is_empty());
    let kept = folder.map(|folder| kept::write_pretty(&path, FILE, &folder));
    args.printed
        .print_kept(&path, show::sheet(&path), kept.transpose(), To::Output)?;
    if path.interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if path.groups.is_empty() {
        anyhow::bail!("{}", show::nothing(&path));
    }
    Ok(ExitCode::SUCCESS)
}
