//! Keeps background work on few CPUs, so that the others sleep on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use reveille_kernel::{
    Cpu, Error, Idle, Journal, Restored, Result, Root, cpulist, cpuset, journal,
};

use super::{Background, Looking};

/// The CPUs on which work costs least: the most efficient kind of core. Where all are alike, one package, and on a machine
/// of one package one core: those of the first CPU, which is awake most anyway.
pub fn cheapest(idle: &Idle) -> Vec<u32> {
    let online: Vec<&Cpu> = idle.cpus.iter().filter(|cpu| cpu.online).collect();
    let Some(first) = online.first() else {
        return Vec::new();
    };
    let is_chosen: Box<dyn Fn(&Cpu) -> bool> = match online
        .iter()
        .filter_map(|cpu| cpu.kind.as_ref())
        .min_by_key(|kind| kind.power_rank())
    {
        Some(kind) => Box::new(|cpu| cpu.kind.as_ref() == Some(kind)),
        None if online.iter().any(|cpu| cpu.package != first.package) => {
            Box::new(|cpu| cpu.package == first.package)
        }
        None => Box::new(|cpu| cpu.number == first.number || first.siblings.contains(&cpu.number)),
    };
    let chosen = online.iter().filter(|cpu| is_chosen(cpu));
    chosen.map(|cpu| cpu.number).collect()
}

/// # Errors
/// [`Error::Usage`] for a CPU that is missing or offline.
pub fn are_online(idle: &Idle, cpus: &[u32]) -> Result<()> {
    for &number in cpus {
        let why = match idle.cpus.iter().find(|cpu| cpu.number == number) {
            None => format!("there is no CPU {number}"),
            Some(cpu) if !cpu.online => format!("CPU {number} is offline"),
            Some(_) => continue,
        };
        return Err(Error::Usage(format!("--cpus: {why}")));
    }
    Ok(())
}

/// Background work that is kept on some CPUs. A thread of its own looks after cgroups that are made again.
pub struct Confined {
    looking: Looking,
    background: Arc<Mutex<Vec<Followed>>>,
}

impl Confined {
    /// Lets the tasks of these cgroups use these CPUs only. The journal undoes it, but for cgroups that are made again,
    /// which [`Confined::stop`] does. `failed` has why one of these is not confined.
    ///
    /// # Errors
    /// [`Error::Usage`] for a CPU that is missing or offline. [`Error::Cannot`] where a cgroup has no cpuset or is a
    /// partition, where the kernel would not take the present list back, and for CPUs that it does not let the tasks use.
    pub fn keep(
        root: &Root,
        idle: &Idle,
        background: Vec<Background>,
        cpus: &[u32],
        journal: &mut Journal,
        failed: impl FnMut(Error) + Send + 'static,
    ) -> Result<Self> {
        are_online(idle, cpus)?;
        for cgroup in &background {
            can_be_confined(cgroup)?;
        }
        for cgroup in &background {
            confine(cgroup, cpus, journal)?;
        }
        let followed = |cgroup| Followed {
            cgroup,
            journal: Journal::new(root, Path::new(journal::FOLDER)),
            failed: None,
        };
        let background: Arc<Mutex<Vec<Followed>>> =
            Arc::new(Mutex::new(background.into_iter().map(followed).collect()));
        let (all, cpus) = (background.clone(), cpus.to_vec());
        let look_again = move || {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            let looked = all.iter_mut().map(|one| one.look(&cpus));
            looked.filter_map(Result::err).collect()
        };
        Ok(Self {
            looking: Looking::start(look_again, failed, true)?,
            background,
        })
    }

    /// Stops looking, and undoes what was done to cgroups that were made again. False if one was not confined.
    pub fn stop(mut self) -> (bool, Vec<Restored>) {
        let whole = self.looking.stop();
        let mut all = self
            .background
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let restored = all.iter_mut().map(|one| one.journal.restore()).collect();
        (whole, restored)
    }
}

/// A cgroup that may be removed and made again, as those of services are.
struct Followed {
    /// As it was confined.
    cgroup: Background,
    /// Has the one that was made again.
    journal: Journal,
    /// The one that was not confined at so many looks.
    failed: Option<(u64, u32)>,
}

impl Followed {
    /// Confines it where it was made again. An error is that of the second look: at the first, its list may not have
    /// been written yet.
    fn look(&mut self, cpus: &[u32]) -> Result<()> {
        let folder = &self.cgroup.folder;
        let number = fs::metadata(folder).map(|folder| folder.ino());
        let Some(number) = number.ok().filter(|number| *number != self.cgroup.number) else {
            return Ok(());
        };
        // Of the one that was removed.
        self.journal.restore();
        let again = Background {
            number,
            folder: folder.clone(),
        };
        let done = can_be_confined(&again).and_then(|()| confine(&again, cpus, &mut self.journal));
        let Err(why) = done else {
            self.cgroup = again;
            return Ok(());
        };
        // Its list may have been written, in vain.
        self.journal.restore();
        let before = self.failed.filter(|(failed, _)| *failed == number);
        let looks = before.map_or(1, |(_, looks)| looks.saturating_add(1));
        self.failed = Some((number, looks));
        match looks {
            2 => Err(Error::Cannot(format!(
                "a cgroup was made again, and is not kept on its CPUs: {why}"
            ))),
            _ => Ok(()),
        }
    }
}

fn can_be_confined(cgroup: &Background) -> Result<()> {
    let folder = &cgroup.folder;
    let above = folder.parent().unwrap_or(folder).display();
    let why = match cpuset::of(folder).as_deref() {
        None => format!(
            "has no cpuset.cpus; `echo +cpuset > {above}/cgroup.subtree_control` enables it, where the controller is \
             not used by cgroup 1"
        ),
        Some(_) if cpuset::is_partition(folder) => {
            "is a partition, which other CPUs would make invalid; --cpus is for cgroups whose cpuset.cpus.partition is \
             `member`"
                .to_owned()
        }
        // It could not be restored.
        Some("") => "has an empty cpuset.cpus, which the kernel does not take back while tasks are in the cgroup; \
                     write the CPUs that it may use there first"
            .to_owned(),
        Some(_) => return Ok(()),
    };
    let folder = folder.display();
    Err(Error::Cannot(format!("--cpus: {folder} {why}")))
}

fn confine(cgroup: &Background, cpus: &[u32], journal: &mut Journal) -> Result<()> {
    let set = journal.set(&cpuset::setting(cgroup.number), &cpulist::format(cpus));
    set.map_err(|why| why.by_root("the CPUs of a cgroup can only be changed"))?;
    // The kernel takes CPUs that the cgroup above has not, and lets the tasks use others then.
    let folder = cgroup.folder.display();
    let Some(used) = cpuset::effective(&cgroup.folder) else {
        return Err(Error::Cannot(format!(
            "--cpus: {folder} was removed meanwhile"
        )));
    };
    let is_within = cpulist::parse(&used)
        .is_some_and(|used| !used.is_empty() && used.iter().all(|cpu| cpus.contains(cpu)));
    if is_within {
        return Ok(());
    }
    let asked = cpulist::format(cpus);
    Err(Error::Cannot(format!(
        "--cpus: with {asked} the kernel lets the tasks of {folder} use {used}: the cgroup above it may not use {asked}"
    )))
}

#[cfg(test)]
mod tests {
    use reveille_kernel::CoreKind;

    use super::*;

    fn machine(cpus: &[(u32, u32, Option<CoreKind>)]) -> Idle {
        let cpu = |(number, (package, core, kind)): (usize, &(u32, u32, Option<CoreKind>))| Cpu {
            number: number as u32,
            online: true,
            package: Some(*package),
            core: Some(*core),
            resume_latency_us: None,
            siblings: (0..cpus.len() as u32)
                .filter(|other| cpus[*other as usize].1 == *core)
                .collect(),
            kind: kind.clone(),
            states: Vec::new(),
        };
        Idle {
            driver: None,
            governor: None,
            available_governors: Vec::new(),
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            isolated: Vec::new(),
            nohz_full: Vec::new(),
        }
    }

    #[test]
    fn the_cheapest_cpus_are_efficient_cores_one_package_or_one_core() {
        let alike = [(0, 0, None), (0, 1, None), (0, 0, None), (0, 1, None)];
        assert_eq!(cheapest(&machine(&alike)), [0, 2]);
        let packages = [(0, 0, None), (1, 1, None), (0, 2, None), (1, 3, None)];
        assert_eq!(cheapest(&machine(&packages)), [0, 2]);
        let [performance, efficient] = [CoreKind::Performance, CoreKind::Efficient].map(Some);
        let hybrid = [
            (0, 0, performance),
            (0, 1, efficient.clone()),
            (0, 2, efficient),
        ];
        assert_eq!(cheapest(&machine(&hybrid)), [1, 2]);
        let [big, little] = [CoreKind::Capacity(1024), CoreKind::Capacity(400)].map(Some);
        assert_eq!(cheapest(&machine(&[(0, 0, little), (0, 1, big)])), [0]);
        let mut offline = machine(&alike);
        offline.cpus[0].online = false;
        assert_eq!(cheapest(&offline), [1, 3]);
        assert_eq!(cheapest(&machine(&[])), [0_u32; 0]);
    }
}
