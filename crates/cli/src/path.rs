//! `reveille path`: follows packets that reach this machine, and shows where their time goes.

mod args;
#[cfg(feature = "bpf")]
mod follow;

use std::process::ExitCode;
#[cfg(not(feature = "bpf"))]
use std::sync::atomic::AtomicBool;

use reveille_advise::MachineResult;
use reveille_kernel::network::{self, Interface};
use reveille_kernel::{Idle, Root};
use reveille_results::output::{Existing, Folder};
use reveille_watch::path::{FILE, Path, show};

use crate::chosen;
use crate::exit::{self, Failure};
use crate::printed::{To, kept_in};
use crate::signals;
pub use args::Args;
#[cfg(feature = "bpf")]
use follow::follow;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let interface = match &args.nic {
        Some(name) => Some(interface(&root, name)?),
        None => None,
    };
    let result = match &args.result {
        Some(folder) => Some(MachineResult::description(folder, &Idle::read(&root)?)?.0),
        None => None,
    };
    let folder = chosen::output_folder(args.out.as_deref(), &[FILE])?;
    let interrupted = signals::stop()?;

    let mut path = follow(&args, &root, interface.as_ref(), &interrupted)?;
    if let Some(result) = &result {
        path.estimate(result);
    }
    // An empty file would only be in the way of the next try.
    let folder = folder.filter(|_| !path.groups.is_empty());
    let kept = folder.as_ref().map_or(Ok(()), |folder| keep(folder, &path));
    let mut sheet = show::sheet(&path);
    if let Some(folder) = folder.as_ref().filter(|_| kept.is_ok()) {
        kept_in(folder, &mut sheet);
    }
    let said = args.printed.print(&path, &sheet, To::Output);
    kept?;
    exit::reader_may_leave(said)?;
    if path.interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if path.groups.is_empty() {
        anyhow::bail!("{}", show::nothing(&path));
    }
    Ok(ExitCode::SUCCESS)
}

fn interface(root: &Root, name: &str) -> anyhow::Result<Interface> {
    let Some(interface) = Interface::read(root, name) else {
        let there = network::names(root).join(", ");
        return Err(Failure::usage(format!(
            "--nic: there is no interface {name:?}; this machine has {there}"
        )));
    };
    match args::is_here(&interface) {
        true => Ok(interface),
        false => Err(Failure::usage(format!(
            "--nic: {name} is in /sys, but not in this network namespace; enter one with \
             `ip netns exec NAME`, which brings its /sys along"
        ))),
    }
}

fn keep(out: &Folder, path: &Path) -> anyhow::Result<()> {
    let mut json = serde_json::to_vec_pretty(path)?;
    json.push(b'\n');
    out.write(FILE, Existing::Stays, &json)?;
    Ok(())
}

#[cfg(not(feature = "bpf"))]
fn follow(_: &Args, _: &Root, _: Option<&Interface>, _: &AtomicBool) -> anyhow::Result<Path> {
    Err(reveille_kernel::Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into()).into())
}
