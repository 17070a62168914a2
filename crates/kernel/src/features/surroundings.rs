//! What is around the kernel: hypervisor, container, lockdown; and CPUs that can go offline.

use std::path::Path;

use super::{Facts, Feature, Group, Presence, names, recorded};
use crate::pm_qos::FIRST_PID_NAMESPACE;
use crate::{Identity, Root, cpulist};

const CPU: &str = "sys/devices/system/cpu";

pub fn features(facts: &Facts) -> Vec<Feature> {
    let root = facts.root;
    table! { Machine;
        names::BARE_METAL, bare_metal(&facts.identity) =>
            "the hypervisor wakes this machine's CPUs: its time and its other guests are in every \
             figure, and the hardware's own states and counters are hidden",
            "measuring on the host", Distorts;
        "outside of containers", outside(root) =>
            "settings and BPF may be refused even to root, and other processes are not seen",
            "running on the host, or a privileged container with /sys writable",
            Distorts;
        "kernel memory for BPF", no_lockdown(root) =>
            "BPF programs may not read kernel memory: no BPF probe",
            "booting without lockdown=confidentiality", Decides;
        names::SECOND_CPU, second_cpu(facts) =>
            "no source `remote`, and the reader shares the measured CPU",
            "a machine with two CPUs online", Distorts;
        "CPU hotplug", hotplug(facts) =>
            "no --offline-others", "a kernel with CONFIG_HOTPLUG_CPU";
    }
}

/// Only x86 has a bit for "guest"; elsewhere the device tree may have an entry, or nothing does.
fn bare_metal(identity: &Identity) -> Presence {
    let is_x86 = matches!(identity.architecture.as_deref(), Some("x86_64" | "i686"));
    match &identity.hypervisor {
        Some(hypervisor) => Presence::No(format!("runs under {hypervisor}")),
        None if is_x86 && identity.cpu_model.is_some() => Presence::Yes("no hypervisor".to_owned()),
        None => Presence::Unknown("not reported by the machine".to_owned()),
    }
}

/// The kernel numbers its first namespaces alike everywhere, and a container has others of at
/// least one of these kinds.
/// Source: include/linux/proc_ns.h of the kernel.
const FIRST_NAMESPACES: [(&str, &str); 3] = [
    ("pid", FIRST_PID_NAMESPACE),
    ("user", "user:[4026531837]"),
    ("cgroup", "cgroup:[4026531835]"),
];

pub fn outside(root: &Root) -> Presence {
    if !root.is_live() {
        return recorded();
    }
    let is_other = |(kind, first): (&'static str, &str)| {
        // A kernel without that kind has no containers of that kind.
        let link = std::fs::read_link(root.path(&format!("proc/self/ns/{kind}"))).ok()?;
        (link != Path::new(first)).then_some(kind)
    };
    let others: Vec<&str> = FIRST_NAMESPACES.into_iter().filter_map(is_other).collect();
    match others.is_empty() {
        true => Presence::Yes("the first namespaces".to_owned()),
        false => Presence::No(format!("separate namespaces: {}", others.join(", "))),
    }
}

fn no_lockdown(root: &Root) -> Presence {
    let Some(levels) = root.text("sys/kernel/security/lockdown") else {
        return match root.is_live() {
            true => Presence::Yes("this kernel has none, or securityfs is not mounted".to_owned()),
            false => recorded(),
        };
    };
    // `none [integrity] confidentiality`
    let level = levels
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    match level {
        Some((level @ "confidentiality", _)) => Presence::No(level.to_owned()),
        Some((level, _)) => Presence::Yes(level.to_owned()),
        None => Presence::Unknown(levels),
    }
}

fn second_cpu(facts: &Facts) -> Presence {
    let Ok(idle) = &facts.idle else {
        return Presence::Unknown("the CPUs cannot be listed".to_owned());
    };
    let online = idle.cpus.iter().filter(|cpu| cpu.online);
    let online: Vec<u32> = online.map(|cpu| cpu.number).collect();
    let words = format!("online: {}", cpulist::format(&online));
    match online.len() {
        0 | 1 => Presence::No(words),
        _ => Presence::Yes(words),
    }
}

fn hotplug(facts: &Facts) -> Presence {
    let Ok(idle) = &facts.idle else {
        return Presence::Unknown("the CPUs cannot be listed".to_owned());
    };
    let can = |cpu: &u32| facts.root.path(&format!("{CPU}/cpu{cpu}/online")).exists();
    let cpus: Vec<u32> = idle.cpus.iter().map(|cpu| cpu.number).filter(can).collect();
    match cpus.is_empty() {
        true => Presence::No("no CPU has a file `online`".to_owned()),
        false => Presence::Yes(cpulist::named(&cpus)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lockdown_for_confidentiality_forbids_bpf() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let file = root.path("sys/kernel/security/lockdown");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "none [integrity] confidentiality\n").unwrap();
        assert!(no_lockdown(&root).is_yes());
        std::fs::write(&file, "none integrity [confidentiality]\n").unwrap();
        assert_eq!(
            no_lockdown(&root),
            Presence::No("confidentiality".to_owned())
        );
    }

    #[test]
    fn only_an_x86_with_a_known_model_reports_no_hypervisor() {
        let of = |architecture: &str, model: Option<&str>, hypervisor: Option<&str>| {
            bare_metal(&Identity {
                architecture: Some(architecture.to_owned()),
                cpu_model: model.map(str::to_owned),
                hypervisor: hypervisor.map(str::to_owned),
                ..Identity::default()
            })
        };
        let yes = Presence::Yes("no hypervisor".to_owned());
        let unknown = Presence::Unknown("not reported by the machine".to_owned());
        assert_eq!(of("x86_64", Some("X"), None), yes);
        assert_eq!(of("i686", Some("X"), None), yes);
        assert_eq!(of("x86_64", None, None), unknown);
        assert_eq!(of("aarch64", Some("Y"), None), unknown);
        let guest = Presence::No("runs under KVM".to_owned());
        assert_eq!(of("x86_64", Some("X"), Some("KVM")), guest);
    }
}
