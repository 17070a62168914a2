//! The user: root, capabilities, and what the kernel's settings allow to others.

use super::{Facts, Feature, Group, Presence};
use crate::Root;
use crate::capabilities::{Capability, Credentials};

pub const AS_ROOT: &str = "run as root (sudo reveille ...)";

pub fn features(facts: &Facts) -> Vec<Feature> {
    let root = facts.root;
    if !root.is_live() {
        return Vec::new();
    }
    match facts.credentials {
        Some(credentials) => of(credentials, root),
        None => {
            let unknown = Presence::Unknown("/proc/self/status is unreadable".to_owned());
            table! { User; "root", unknown => ROOT_COSTS, "mount /proc", Decides; }
        }
    }
}

/// What root lacks.
const WITHHELD: &str = "a container or service that does not withhold it (--privileged, \
                        --cap-add, AmbientCapabilities=)";
const ROOT_COSTS: &str = "settings cannot be changed: no --state, --each-state, --offline-others, \
                          and --probe user instead of BPF";

fn of(credentials: Credentials, root: &Root) -> Vec<Feature> {
    let is_root = match credentials.user {
        0 if credentials.is_outermost => Presence::Yes("user 0".to_owned()),
        0 => Presence::No("user 0 of an inner user namespace only".to_owned()),
        user => Presence::Denied(format!("user {user}")),
    };
    let capability = |capability: Capability| {
        let bits = match credentials.is_outermost {
            true => format!("effective capabilities {:#x}", credentials.capabilities),
            false => "good in an inner user namespace only".to_owned(),
        };
        match credentials.may(capability) {
            true => Presence::Yes(String::new()),
            false => Presence::refused(credentials, bits),
        }
    };
    let grant = |name: &str| match credentials.user {
        0 => WITHHELD.to_owned(),
        _ => format!("{AS_ROOT}, or setcap {name}+ep on the program"),
    };
    table! { User;
        "root", is_root =>
            ROOT_COSTS, AS_ROOT, Decides;
        "CAP_BPF", capability(Capability::Bpf) =>
            "no BPF programs: --probe user measures up to the waiting thread",
            &grant("cap_bpf,cap_perfmon"), Decides;
        "CAP_PERFMON", capability(Capability::Perfmon) =>
            "no tracing programs and, mostly, no perf counters", &grant("cap_bpf,cap_perfmon"),
            Decides;
        "CAP_SYS_ADMIN", capability(Capability::SysAdmin) =>
            "the probes' own cost is not counted", AS_ROOT;
        "CAP_SYS_NICE", capability(Capability::SysNice) =>
            "the waiting thread of --probe user has no real-time priority: other threads are in \
             its figures",
            &grant("cap_sys_nice");
        "perf for this user", perf(
                credentials,
                root.text("proc/sys/kernel/perf_event_paranoid"),
            ) =>
            "residency, SMIs and cycles are not counted; no source `remote`",
            "root, CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0";
        "BPF for this user", bpf(
                credentials,
                root.text("proc/sys/kernel/unprivileged_bpf_disabled"),
            ) =>
            "no BPF programs: --probe user measures up to the waiting thread",
            "root, or CAP_BPF and CAP_PERFMON (tracing needs them whatever the value of that sysctl)",
            Decides;
    }
}

/// What a user lacks root may have; what root lacks, a container or a service withholds.
/// Counting on a whole CPU is privileged above 0.
/// Source: Documentation/admin-guide/sysctl/kernel.rst of the kernel.
fn perf(credentials: Credentials, paranoid: Option<String>) -> Presence {
    let Some(paranoid) = paranoid else {
        return Presence::No("this kernel has no perf events".to_owned());
    };
    let setting = format!("kernel.perf_event_paranoid is {paranoid}");
    if credentials.may(Capability::Perfmon) {
        return Presence::Yes(format!("{setting}; this user may"));
    }
    match paranoid.parse::<i64>() {
        Ok(..=0) => Presence::Yes(setting),
        Ok(_) => Presence::refused(credentials, setting),
        Err(_) => Presence::Unknown(setting),
    }
}

fn bpf(credentials: Credentials, disabled: Option<String>) -> Presence {
    let setting = match disabled {
        Some(value) => format!("kernel.unprivileged_bpf_disabled is {value}"),
        None => "no kernel.unprivileged_bpf_disabled".to_owned(),
    };
    match credentials.may(Capability::Bpf) && credentials.may(Capability::Perfmon) {
        true => Presence::Yes(format!("{setting}; this user may")),
        false => Presence::refused(credentials, setting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Credentials = Credentials {
        user: 65534,
        capabilities: 0,
        is_outermost: true,
    };
    const ROOT: Credentials = Credentials {
        user: 0,
        capabilities: u64::MAX,
        is_outermost: true,
    };

    #[test]
    fn a_user_without_rights_sees_the_cost_of_each() {
        let features = of(NOBODY, &Root::at("/nonexistent"));
        assert!(features.iter().all(|feature| !feature.presence.is_yes()));
        assert!(
            features
                .iter()
                .all(|f| !f.costs.is_empty() && !f.brings.is_empty())
        );
        assert!(of(ROOT, &Root::at("/nonexistent"))[0].presence.is_yes());
    }

    #[test]
    fn perf_is_open_to_all_only_if_the_setting_allows_it() {
        let is_open = |paranoid: &str| perf(NOBODY, Some(paranoid.to_owned())).is_yes();
        assert!(is_open("0") && is_open("-1") && !is_open("1") && !is_open("4"));
        assert!(perf(ROOT, Some("4".to_owned())).is_yes());
        assert!(!perf(ROOT, None).is_yes(), "a kernel without perf");
    }

    #[test]
    fn root_of_an_inner_namespace_lacks_features_that_need_another_container() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&kernel).unwrap();
        std::fs::write(kernel.join("perf_event_paranoid"), "2\n").unwrap();
        std::fs::write(kernel.join("unprivileged_bpf_disabled"), "1\n").unwrap();
        let root = Root::at(folder.path());
        let inner = Credentials {
            is_outermost: false,
            ..ROOT
        };
        // One of the two capabilities that BPF tracing needs: CAP_BPF is 39.
        let half = Credentials {
            capabilities: 1 << 39,
            ..NOBODY
        };
        let of_each = [
            ("root", ROOT),
            ("root of an inner namespace", inner),
            ("CAP_BPF", half),
        ];
        let said = of_each.into_iter().flat_map(|(who, credentials)| {
            let features = of(credentials, &root);
            features.into_iter().map(move |feature| {
                let said = format!("{:?}\n{}", feature.presence, feature.brings);
                (format!("{who}: {}", feature.name), said)
            })
        });
        reveille_snapshot::snapshot!("features", said);
    }
}
