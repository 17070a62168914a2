//! Idle states for people: the names, units and words of their figures.

use std::collections::BTreeSet;

use reveille_kernel::groups::ShareOf;
use reveille_kernel::{Cpu, IdleState, bounds, cpulist, driver_and_governor, limits};
use reveille_show::columns;
use reveille_show::quantity::{counted, listed, share};
use reveille_show::sheet::{
    Column, EXIT, EXIT_LATENCY, Heading, Judgement, Section, Sheet, Table, Value,
};

use super::{GroupStates, StateUse, States, StatesThere};

const COLUMNS: &[Column<StateUse>] = &columns!(|one|
    words "index", "#", one.state.index.to_string(), "N of cpuidle's `stateN`";
    words "name", "name", one.state.name.as_str(), "The driver's name of the state";
    words detail "description", "description", one.state.description.clone(),
        "The driver's description";
    driver(Us) "exit_latency_us", EXIT, one.state.exit_latency_us, EXIT_LATENCY;
    driver(Us) "target_residency_us", "target", one.state.target_residency_us,
        "The driver's target residency";
    words "enabled_by_default", "dflt", on(one.state.enabled_by_default), "Is it on by default?";
    words "disabled", "now", now(&one.state), "Is it on now?";
    measured(Count) "usage", "uses", one.state.usage,
        "Entries since boot, a sum over the CPUs of the group";
    measured(Us) "time_us", "time", one.state.time_us,
        "Time in it since boot, a sum over the CPUs of the group";
    measured(Percent) "time_share_percent", "share", one.time_share_percent,
        "Of the CPUs' time since boot; of all idle time where the uptime is unknown";
    measured(Percent) detail "rejected", "rejected", rejected(&one.state),
        "Requests that hardware or firmware rejected, of all requests; a count in the JSON";
    measured(Percent) "above", "above", percent(one.state.above, one.state.usage),
        "Uses for which a shallower state would have been right, of all uses; a count in the JSON";
    measured(Percent) "below", "below", percent(one.state.below, one.state.usage),
        "Uses for which a deeper state would have been right, of all uses; a count in the JSON";
);

fn on(on: Option<bool>) -> Value {
    on.map(|on| if on { "on" } else { "off" }).into()
}

fn now(state: &IdleState) -> Value {
    let is_off = state.disabled == Some(true);
    on(state.disabled.map(|disabled| !disabled)).judged(is_off.then_some(Judgement::Notable))
}

fn rejected(state: &IdleState) -> Value {
    // A rejected request is no use.
    let requests = state
        .rejected
        .zip(state.usage)
        .map(|(rejected, uses)| rejected + uses);
    percent(state.rejected, requests)
}

fn percent(part: Option<u64>, whole: Option<u64>) -> Value {
    let of = part.zip(whole).filter(|(_, whole)| *whole > 0);
    of.map(|(part, whole)| part as f64 / whole as f64 * 100.0)
        .into()
}

/// The columns of the table, by the list in the JSON that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("groups[].states[]", Column::headings(COLUMNS))]
}

/// The machine and its groups for every medium.
pub fn sheet(states: &States) -> Sheet<'_> {
    let mut sheet = Sheet {
        title: "Idle states".to_owned(),
        answer: answer(states),
        ..Sheet::default()
    };
    facts(states, &mut sheet);
    let mut shares = Vec::new();
    for group in &states.groups {
        sheet.section(section(states, group));
        if group.has_states() && !shares.contains(&group.time_share_of) {
            shares.push(group.time_share_of);
        }
    }
    let has_sums = |group: &GroupStates| group.has_states() && group.cpus.len() > 1;
    if states.groups.iter().any(has_sums) {
        sheet
            .notes
            .push("uses, time: sums over the CPUs of the group.".to_owned());
    }
    let of = |share| match share {
        ShareOf::CpuTimeSinceBoot => "share: of the group's CPU time since boot.",
        ShareOf::IdleTime => "share: of the time in the group's idle states.",
    };
    let shares = shares.into_iter().map(|share| of(share).to_owned());
    sheet.notes.extend(shares);
    sheet
}

/// The states of several machines, by their names, in one table.
pub fn of_hosts(hosts: &[(String, StatesThere)]) -> Sheet<'static> {
    let mut sheet = Sheet {
        title: "Idle states".to_owned(),
        ..Sheet::default()
    };
    let mut of: Vec<(String, String)> = Vec::new();
    let mut rows = Vec::new();
    for (host, states) in hosts {
        let idle = driver_and_governor(states.driver.as_deref(), states.governor.as_deref());
        let kernel = states.machine.kernel_words();
        sheet.fact("Machine", format!("{host}: {idle}; {kernel}"));
        for group in &states.groups {
            let key = (host.clone(), group.cpu_list.clone());
            of.extend(group.states.iter().map(|_| key.clone()));
            rows.extend(&group.states);
        }
    }
    let states = Table::of("", COLUMNS, rows);
    let mut table = Table::of("Idle states by machine", KEYS, &of).whole();
    for (place, heading) in states.headings.into_iter().enumerate() {
        table = table.column(heading, states.rows.iter().map(|row| row[place].clone()));
    }
    sheet.section(Section::new("states", "States").table(table));
    sheet
}

/// What a row is of, where there are several machines.
const KEYS: &[Column<(String, String)>] = &columns!(|of|
    words "host", "host", of.0.as_str(), "The machine, as it was named";
    words "cpu_list", "CPUs", of.1.as_str(), "The CPUs of the group";
);

/// What is the same for all CPUs.
fn facts(states: &States, sheet: &mut Sheet<'_>) {
    let mut fact = |word, value: &str| {
        if !value.is_empty() {
            sheet.fact(word, value);
        }
    };
    let machine = &states.machine;
    fact("CPU", &cpu_line(states));
    fact("Kernel", machine.kernel.as_deref().unwrap_or_default());
    fact(
        "Hypervisor",
        machine.hypervisor.as_deref().unwrap_or_default(),
    );
    fact("Driver", states.driver.as_deref().unwrap_or("none"));
    if let Some(governor) = &states.governor {
        let others = states.available_governors.iter();
        let others: Vec<&str> = others
            .filter(|name| *name != governor)
            .map(String::as_str)
            .collect();
        let unused = match states.driver {
            Some(_) => "",
            None => ", unused without a driver",
        };
        let also = match others.is_empty() {
            true => String::new(),
            false => format!(" (also: {})", others.join(", ")),
        };
        fact("Governor", &format!("{governor}{unused}{also}"));
    }
    let names = states.groups.iter().flat_map(|group| &group.states);
    if names
        .into_iter()
        .any(|one| one.state.name.ends_with("_ACPI"))
    {
        let words = "the firmware's: intel_idle has none for this CPU (_ACPI)";
        fact("Table", words);
    }
    fact("Isolated", &cpulist::format(&states.isolated_cpus));
    fact("Tickless", &cpulist::format(&states.nohz_full_cpus));
    for setting in &states.command_line_settings {
        let value = setting.value.as_ref();
        let value = value.map_or(String::new(), |value| format!("={value}"));
        let words = format!("{}{value}: {}", setting.name, setting.meaning);
        fact("Booted with", &words);
    }
    if let Some(bound) = states.bound_us {
        let rules_out = match states.driver {
            Some(_) => ": no state with a longer exit latency is entered",
            None => "",
        };
        let request = "by a PM QoS request (`reveille doctor` shows the holder)";
        fact("Bound", &format!("{bound} µs {request}{rules_out}"));
    }
}

/// Where the CPUs slept, and which states they may not use.
fn answer(states: &States) -> String {
    if let Some(without) = &states.without_driver {
        return format!("{} Likely why: {}.", without.does, without.reason);
    }
    let cpus = states.cpus.iter();
    let cpus = cpus.filter(|cpu| cpu.online && !cpu.states.is_empty());
    let cpus: Vec<&Cpu> = cpus.collect();
    if cpus.is_empty() {
        return match states.cpus.iter().any(|cpu| cpu.online) {
            true => "None of these CPUs has idle states.".to_owned(),
            false => "None of these CPUs is online.".to_owned(),
        };
    }
    let off = |_: &Cpu, state: &IdleState| state.disabled == Some(true);
    let bounded = |cpu: &Cpu, state: &IdleState| {
        let governor = states.governor.as_deref();
        bounds::in_force_us(cpu, states.bound_us).is_some_and(|us| {
            let mut beyond = bounds::ruled_out(&cpu.states, us, governor);
            beyond.any(|beyond| beyond.index == state.index)
        })
    };
    let unknown = |cpu: &Cpu, state: &IdleState| {
        let is_bound = bounds::in_force_us(cpu, states.bound_us).is_some();
        is_bound && state.exit_latency_us.is_none() && !bounded(cpu, state)
    };
    let never_entered = |_: &Cpu, state: &IdleState| {
        state.usage == Some(0) && state.rejected.is_some_and(|rejected| rejected > 0)
    };
    let off = named(&cpus, off).map(|names| format!("Off now: {names}."));
    let unknown = named(&cpus, unknown);
    let unknown =
        unknown.map(|names| format!("Whether a latency bound rules out {names} is unknown."));
    let bounded = named(&cpus, bounded);
    let bounded = bounded.map(|names| format!("A latency bound rules out {names}."));
    let bounded = bounded.or(unknown);
    let mut sentences: Vec<String> = slept(states, &cpus).into_iter().collect();
    if let Some(names) = named(&cpus, never_entered) {
        sentences.push(format!(
            "Hardware or firmware rejected every request of {names}."
        ));
    }
    match (off, bounded) {
        (None, None) => sentences.push("No state is off, and no known bound rules one out.".into()),
        (off, bounded) => sentences.extend(off.into_iter().chain(bounded)),
    }
    sentences.join(" ")
}

/// `The CPUs slept 99.9% of the time since boot, longest in C6 (99.8%).`
fn slept(states: &States, cpus: &[&Cpu]) -> Option<String> {
    let mut times: Vec<(&str, u64)> = Vec::new();
    let mut idle_us = 0_u64;
    for cpu in cpus {
        let poll = limits::poll(&cpu.states).map(|poll| poll.index);
        for state in &cpu.states {
            let time_us = state.time_us?;
            // A sum of all of them that no clock can count is no time.
            idle_us = idle_us.checked_add(time_us)?;
            if poll == Some(state.index) {
                continue;
            }
            match times.iter_mut().find(|(name, _)| *name == state.name) {
                Some((_, time)) => *time += time_us,
                None => times.push((&state.name, time_us)),
            }
        }
    }
    let who = match cpus.len() < states.of_cpus {
        true => cpulist::named(&cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>()),
        false => "The CPUs".to_owned(),
    };
    let (longest, time_us) = times.iter().max_by_key(|(_, time)| *time)?;
    let slept_us: u64 = times.iter().map(|(_, time)| time).sum();
    if slept_us == 0 {
        return Some(format!("{who} never slept since boot."));
    }
    let is_since_boot = |group: &GroupStates| {
        !group.has_states() || group.time_share_of == ShareOf::CpuTimeSinceBoot
    };
    let uptime_s = states
        .uptime_s
        .filter(|_| states.groups.iter().all(is_since_boot));
    Some(match uptime_s {
        Some(uptime_s) => {
            let of = |us: u64| share(us as f64 / (uptime_s * 1e6 * cpus.len() as f64));
            let slept = format!("{who} slept {} of the time since boot", of(slept_us));
            match *time_us == slept_us {
                true => format!("{slept}, all of it in {longest}."),
                false => format!("{slept}, longest in {longest} ({}).", of(*time_us)),
            }
        }
        None => format!(
            "{who} slept longest in {longest}: {} of the time in idle states.",
            share(*time_us as f64 / idle_us as f64)
        ),
    })
}

/// The states of which that is so, with the CPUs if it is not so on all that have the state.
fn named(cpus: &[&Cpu], is_so: impl Fn(&Cpu, &IdleState) -> bool) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for state in cpus.iter().flat_map(|cpu| &cpu.states) {
        if !names.contains(&state.name.as_str()) {
            names.push(&state.name);
        }
    }
    let words = names.into_iter().filter_map(|name| {
        let has = |cpu: &&&Cpu| cpu.states.iter().any(|state| state.name == name);
        let having = cpus.iter().filter(has).count();
        let with = |cpu: &&&Cpu| {
            let mut states = cpu.states.iter();
            states.any(|state| state.name == name && is_so(cpu, state))
        };
        let with: Vec<u32> = cpus.iter().filter(with).map(|cpu| cpu.number).collect();
        match with.len() {
            0 => None,
            some if some == having => Some(name.to_owned()),
            _ => Some(format!("{name} ({})", cpulist::named(&with))),
        }
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| listed(&words))
}

/// `Model; 104 CPUs, 52 cores, 2 packages`; of some of them: `Model; CPUs 1,9 of 104`.
pub fn cpu_line(states: &States) -> String {
    let cpus = &states.cpus;
    let model = states.machine.cpu_model.as_deref();
    let model = model.unwrap_or("of unknown model");
    if cpus.len() < states.of_cpus {
        let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.number).collect();
        return format!(
            "{model}; {} of {}",
            cpulist::named(&numbers),
            states.of_cpus
        );
    }
    let packages: BTreeSet<u32> = cpus.iter().filter_map(|cpu| cpu.package).collect();
    let cores = cpus.iter().filter_map(|cpu| cpu.package.zip(cpu.core));
    let cores: BTreeSet<(u32, u32)> = cores.collect();
    let mut parts = vec![counted(cpus.len() as u64, "CPU")];
    if cores.len() > 1 && cpus.iter().all(|cpu| cpu.core.is_some()) {
        parts.push(counted(cores.len() as u64, "core"));
        parts.push(counted(packages.len() as u64, "package"));
    }
    if !states.offline_cpus.is_empty() {
        parts.push(format!("{} offline", states.offline_cpus.len()));
    }
    format!("{model}; {}", parts.join(", "))
}

/// Which CPUs a group is, what sets them apart, and its states.
fn section(states: &States, group: &GroupStates) -> Section<'static> {
    let noun = if group.cpus.len() == 1 { "CPU" } else { "CPUs" };
    let mut name = format!("{noun} {}", group.cpu_list);
    if let Some(kind) = &group.core_kind {
        name += &format!(", {kind}");
    }
    let missing = match (group.online, group.states.is_empty(), &states.driver) {
        (false, ..) => "offline",
        (true, true, Some(_)) => "no idle states",
        (true, true, None) => "no idle states known to the kernel",
        (true, false, _) => "",
    };
    let section = Section::new("group", name.as_str());
    let section = match missing {
        "" => section.titled(),
        missing => section.text(format!("{name}: {missing}")),
    };
    let section = match bound(group, states.governor.as_deref()) {
        Some(bound) if group.online => section.text(bound),
        _ => section,
    };
    match missing {
        "" => {
            let mut table = Table::of(name, COLUMNS, &group.states).whole();
            let mut all = group.states.iter().filter_map(|one| one.state.rejected);
            if all.any(|rejected| rejected > 0) {
                table.headings.iter_mut().for_each(|heading| {
                    heading.detail &= heading.key != "rejected";
                });
            }
            section.table(table)
        }
        _ => section,
    }
}

/// A per-CPU bound and what it rules out; `None` where there is no bound.
fn bound(group: &GroupStates, governor: Option<&str>) -> Option<String> {
    let bound = bounds::own_us(group.resume_latency_us?)?;
    let all: Vec<IdleState> = group.states.iter().map(|one| one.state.clone()).collect();
    let beyond = bounds::ruled_out(&all, bound, governor);
    let beyond: Vec<String> = beyond.map(|state| state.name.clone()).collect();
    let rules_out = match group.states.is_empty() {
        true => String::new(),
        false => format!(": {}", bounds::in_words(&beyond, &all)),
    };
    Some(format!(
        "bound by pm_qos_resume_latency_us to {bound} µs{rules_out}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_kernel::{Idle, Root};
    use reveille_show::sheet::not_in_json;

    /// A CPU with these files below its cpuidle folder.
    fn machine(files: &[(&str, &str)]) -> States {
        let folder = tempfile::tempdir().unwrap();
        let cpus = folder.path().join("sys/devices/system/cpu");
        let own = files
            .iter()
            .map(|(file, text)| (format!("cpu0/{file}"), *text));
        let all = own.chain([
            ("present".to_owned(), "0"),
            ("online".to_owned(), "0"),
            ("cpuidle/current_driver".to_owned(), "some_idle"),
        ]);
        for (file, text) in all {
            let path = cpus.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        States::of(&root, Idle::read(&root).unwrap(), &[0])
    }

    #[test]
    fn every_column_is_a_field_of_the_json() {
        let states = machine(&[("cpuidle/state0/name", "C1")]);
        let json = serde_json::to_value(&states).unwrap();
        for (list, headings) in reference() {
            assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
        }
    }

    #[test]
    fn a_bound_names_the_states_that_it_rules_out() {
        let bounded = |us: &str| {
            let states = machine(&[
                ("cpuidle/state0/name", "POLL"),
                ("cpuidle/state0/latency", "0"),
                ("cpuidle/state1/name", "C1"),
                ("cpuidle/state1/latency", "2"),
                ("cpuidle/state2/name", "C6"),
                ("cpuidle/state2/latency", "133"),
                ("power/pm_qos_resume_latency_us", us),
            ]);
            bound(&states.groups[0], None).unwrap_or_default()
        };
        assert_eq!(bounded("0"), "");
        assert!(bounded("10").ends_with("10 µs: rules out C6"));
        assert!(bounded("n/a").ends_with("0 µs: rules out C1, C6"));
        assert!(bounded("133").ends_with("rules out no state"));
    }

    #[test]
    fn the_answer_has_where_cpus_slept_and_what_they_may_not_use() {
        let state = |index: u32, name: &str, exit: &str, time: &str| {
            let file = |file: &str| format!("cpuidle/state{index}/{file}");
            [
                ("name", name),
                ("latency", exit),
                ("time", time),
                ("disable", "0"),
            ]
            .map(|(one, text)| (file(one), text.to_owned()))
        };
        let of = |times: [&str; 3], more: &[(&str, &str)], uptime: &str| {
            let mut files: Vec<(String, String)> = Vec::new();
            for (place, (name, exit)) in [("POLL", "0"), ("C1", "2"), ("C6", "133")]
                .iter()
                .enumerate()
            {
                files.extend(state(place as u32, name, exit, times[place]));
            }
            let more = more
                .iter()
                .map(|(file, text)| ((*file).into(), (*text).into()));
            files.extend(more);
            files.push(("../../../../../proc/uptime".into(), format!("{uptime} 1\n")));
            let files: Vec<(&str, &str)> = files
                .iter()
                .map(|(file, text)| (file.as_str(), text.as_str()))
                .collect();
            answer(&machine(&files))
        };
        let rejected = [
            ("cpuidle/state2/usage", "0"),
            ("cpuidle/state2/rejected", "2400000"),
            ("cpuidle/state1/usage", "7"),
            ("cpuidle/state1/rejected", "9"),
        ];
        let said = of(["9000000", "5000000", "0"], &rejected, "100");
        assert!(
            said.contains(" Hardware or firmware rejected every request of C6. "),
            "{said}"
        );
        let all_on = "No state is off, and no known bound rules one out.";
        // Polling is no sleep: 5 and 25 of 100 s.
        let times = ["9000000", "5000000", "25000000"];
        assert_eq!(
            of(times, &[], "100"),
            format!("The CPUs slept 30.0% of the time since boot, longest in C6 (25.0%). {all_on}")
        );
        assert_eq!(
            of(["0", "5000000", "0"], &[], "100"),
            format!("The CPUs slept 5.00% of the time since boot, all of it in C1. {all_on}")
        );
        // The recording is of a longer time than its uptime.
        assert_eq!(
            of(["10000000", "10000000", "20000000"], &[], "1"),
            format!("The CPUs slept longest in C6: 50.0% of the time in idle states. {all_on}")
        );
        assert_eq!(
            of(["7", "0", "0"], &[], "100"),
            format!("The CPUs never slept since boot. {all_on}")
        );
        let more = [
            ("cpuidle/state2/disable", "1"),
            ("power/pm_qos_resume_latency_us", "1"),
        ];
        assert!(
            of(times, &more, "100")
                .ends_with(". Off now: C6. A latency bound rules out C1 and C6.")
        );
        let more = [("power/pm_qos_resume_latency_us", "2")];
        assert!(of(times, &more, "100").ends_with("(25.0%). A latency bound rules out C6."));
    }

    #[test]
    fn a_share_of_zero_is_unknown() {
        assert_eq!(percent(Some(0), Some(0)), Value::Unknown);
        assert_eq!(percent(Some(0), Some(4)), Value::Number(0.0));
        assert_eq!(percent(Some(1), Some(0)), Value::Unknown);
        assert_eq!(percent(None, Some(4)), Value::Unknown);
        assert_eq!(percent(Some(1), Some(4)), Value::Number(25.0));
    }
}
