//! The forms of a setting: their exact text, and their interpretation by the tools that read them.

use std::path::Path;
use std::process::Command;

use crate::made_up::{self, loaded, question, sklep0, state, target};
use reveille_advise::form::{self, Name};
use reveille_advise::{Advice, Answer, Coverage, Form, Setting, Target};
use reveille_kernel::{Identity, Idle, Root};

/// A form of the setting that allows these states and forbids all deeper ones. Without sleep the budget is kept.
fn form_of(name: Name, machine: &Target, left: &[&str]) -> Form {
    let mut samples: Vec<(&str, &str, Vec<i64>)> = machine
        .states
        .iter()
        .filter(|state| state.name != "POLL" && state.disabled != Some(true))
        .map(|state| {
            let quick = left.contains(&state.name.as_str());
            let latency = if quick { 3000 } else { 90_000 };
            (state.name.as_str(), "timer", vec![latency; 3000])
        })
        .collect();
    samples.push(("POLL", "timer", vec![900; 3000]));
    let advice = Advice::of(&loaded(&samples), machine, question(50, "99.9")).unwrap();
    let setting = Setting::of(&advice, machine);
    form::one(name, &advice, &setting, machine)
}

fn text_of(name: Name, machine: &Target, left: &[&str]) -> String {
    form_of(name, machine, left).text.unwrap()
}

#[test]
fn all_forms_express_the_same_setting() {
    let machine = sklep0();
    let text = |name| text_of(name, &machine, &["C1", "C1E"]);
    assert_eq!(text(Name::Hold), "reveille hold --latency 50us\n");
    assert_eq!(text(Name::Limit), "reveille limit --deepest C1E\n");
    assert_eq!(text(Name::Kernel), "intel_idle.max_cstate=2\n");
    assert_eq!(
        text(Name::Tuned),
        "[main]\nsummary=CPUs wake within 50 us at p99.9: idle states up to C1E\n\n\
         # The budget, and no state's number: it means the same on another CPU.\n\
         [cpu]\nforce_latency=50\n"
    );
    assert_eq!(
        text(Name::Systemd),
        "[Unit]\nDescription=CPUs wake within 50 us at p99.9: idle states up to C1E\n\n\
         [Service]\nExecStart=reveille hold --latency 50us\n\
         Restart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n"
    );
    assert_eq!(
        text(Name::Udev),
        "# CPUs wake within 50 us at p99.9: idle states up to C1E\n\
         ACTION==\"add\", SUBSYSTEM==\"cpu\", KERNEL==\"cpu[0-9]*\", \
         ATTR{power/pm_qos_resume_latency_us}=\"50\"\n"
    );
    assert_eq!(form_of(Name::Udev, &machine, &["C1", "C1E"]).caveat, None);
    let file = |name| form_of(name, &machine, &["C1", "C1E"]).file;
    let files = Name::ALL.map(|name| file(name).unwrap_or_default());
    assert_eq!(
        files,
        [
            "",
            "",
            "",
            "/etc/tuned/profiles/reveille-50us/tuned.conf",
            "/etc/systemd/system/reveille-50us.service",
            "/etc/udev/rules.d/60-reveille.rules",
        ]
    );
}

#[test]
fn all_forms_exist_in_order_and_by_name() {
    let machine = sklep0();
    let result = loaded(&[("C1", "timer", vec![3000; 3000])]);
    let advice = Advice::of(&result, &machine, question(50, "99.9")).unwrap();
    let setting = Setting::of(&advice, &machine);
    let forms = form::all(&advice, &setting, &machine);
    let names: Vec<&str> = forms.iter().map(|form| form.name.as_str()).collect();
    assert_eq!(
        names,
        ["hold", "limit", "kernel", "tuned", "systemd", "udev"]
    );
    for form in forms {
        assert_eq!(form, form::one(form.name, &advice, &setting, &machine));
    }
}

#[test]
fn no_sleep_by_a_bound_has_no_caveat_if_the_driver_honours_it() {
    let hold = form_of(Name::Hold, &sklep0(), &[]);
    assert_eq!(hold.text.unwrap(), "reveille hold --latency 0\n");
    assert_eq!(hold.caveat, None);
}

#[test]
fn the_kernel_parameter_has_its_caveats() {
    let number = "The number is that of the folder cpuidle/stateN; POLL is 0. On CPUs for which \
                  intel_idle omits an entry of its own table (C1 or C1E on hybrid ones) it may \
                  leave one state fewer, never one more. 0 would not stop sleep: acpi_idle would \
                  take over";
    let halt = "idle=halt comes near, but waits by HLT and not by MWAIT, which was not measured";
    let mind = |left: &[&str]| form_of(Name::Kernel, &sklep0(), left).caveat.unwrap();
    assert_eq!(mind(&["C1"]), format!("{number}. {halt}"));
    assert_eq!(mind(&["C1", "C1E"]), number);
}

#[test]
fn the_kernel_form_is_empty_if_no_driver_takes_a_parameter() {
    let mut machine = target(
        "cpuidle_other",
        vec![state(1, "A", 1, 2), state(2, "B", 30, 60)],
    );
    // On x86 even the first state is not the one that remains without cpuidle.
    machine.states[1].index = 0;
    let why = |machine: &Target| {
        let form = form_of(Name::Kernel, machine, &["A"]);
        assert_eq!(form.text, None);
        form.caveat.unwrap()
    };
    assert_eq!(
        why(&machine),
        "the driver cpuidle_other has no parameter for the depth; use another form"
    );
    machine.driver = None;
    let none = "no idle driver to limit";
    assert_eq!(why(&machine), none);
    machine.is_known = false;
    let unknown = "the idle driver is unknown; give the machine with --root";
    assert_eq!(why(&machine), unknown);
}

#[test]
fn udev_disables_states_if_the_governor_honours_that_and_one_remains() {
    let text = |machine: &Target, left: &[&str]| {
        let form = form_of(Name::Udev, machine, left);
        // For the reason for which `limit` cannot, either.
        let limit = form_of(Name::Limit, machine, left);
        assert!(
            form.text.is_some() || form.caveat == limit.caveat,
            "{form:?}"
        );
        let text = form.text?;
        let rule = text.lines().nth(1).unwrap();
        Some(rule.rsplit_once(", ").unwrap().1.to_owned())
    };
    let states = || vec![state(1, "C1", 20, 20), state(2, "C6", 20, 600)];
    let disable = |index: u32| format!("ATTR{{cpuidle/state{index}/disable}}=\"1\"");
    // No bound separates the two.
    let mut machine = target("intel_idle", states());
    assert_eq!(text(&machine, &["C1"]), Some(disable(2)));
    machine.states.remove(0);
    assert_eq!(text(&machine, &["C1"]), Some(disable(2)));
    machine.governor = Some("haltpoll".to_owned());
    assert_eq!(text(&machine, &["C1"]), None);
    // No driver: no bound either. No sleep at all needs a remaining state.
    let mut machine = target("none", vec![state(1, "default_idle", 1, 1)]);
    machine.driver = None;
    assert_eq!(text(&machine, &[]), Some(disable(1)));
    machine.states.remove(0);
    assert_eq!(text(&machine, &[]), None);
}

#[test]
fn no_sleep_has_a_text_in_each_form() {
    let machine = sklep0();
    let text = |name| text_of(name, &machine, &[]);
    assert_eq!(text(Name::Hold), "reveille hold --latency 0\n");
    assert_eq!(text(Name::Limit), "reveille limit --deepest POLL\n");
    // intel_idle.max_cstate=0 would switch to acpi_idle, which sleeps.
    assert_eq!(text(Name::Kernel), "idle=poll\n");
    assert!(text(Name::Tuned).contains("force_latency=0\n"));
    // A 0 there would not be a bound.
    assert!(text(Name::Udev).contains("pm_qos_resume_latency_us}=\"n/a\""));
    let mind = form_of(Name::Udev, &machine, &[]).caveat.unwrap();
    assert!(mind.contains("0 would be no bound"), "{mind}");
}

#[test]
fn if_all_states_are_allowed_no_form_has_a_text() {
    for name in Name::ALL {
        let form = form_of(name, &sklep0(), &["C1", "C1E", "C6"]);
        assert_eq!(form.text, None);
        assert!(form.caveat.unwrap().contains("nothing to set"));
    }
}

#[test]
fn the_kernel_parameter_depends_on_the_driver() {
    let acpi = target(
        "acpi_idle",
        vec![state(1, "C1", 1, 2), state(2, "C3", 30, 60)],
    );
    assert_eq!(
        text_of(Name::Kernel, &acpi, &["C1"]),
        "processor.max_cstate=1\n"
    );
    // acpi_idle compares the number in the name, and one of the firmware's states may be missing.
    let gap = target(
        "acpi_idle",
        vec![state(1, "C2", 1, 2), state(2, "C3", 30, 60)],
    );
    assert_eq!(
        text_of(Name::Kernel, &gap, &["C2"]),
        "processor.max_cstate=2\n"
    );
    let mut arm = target("psci_idle", vec![state(1, "cpu-sleep", 300, 900)]);
    arm.architecture = Some("aarch64".to_owned());
    arm.states[0] = state(0, "WFI", 1, 1);
    assert_eq!(text_of(Name::Kernel, &arm, &["WFI"]), "cpuidle.off=1\n");
    assert_eq!(text_of(Name::Kernel, &arm, &[]), "nohlt\n");
    // There is no POLL to limit to.
    assert_eq!(form_of(Name::Limit, &arm, &[]).text, None);
    let other = target(
        "cpuidle_other",
        vec![state(1, "A", 1, 2), state(2, "B", 30, 60)],
    );
    let form = form_of(Name::Kernel, &other, &["A"]);
    assert_eq!(form.text, None);
    assert!(form.caveat.unwrap().contains("cpuidle_other"));
}

#[test]
fn states_that_no_bound_separates_are_disabled_by_name_and_number() {
    let machine = target(
        "intel_idle",
        vec![state(1, "C1", 20, 20), state(2, "C6", 20, 600)],
    );
    assert_eq!(form_of(Name::Hold, &machine, &["C1"]).text, None);
    assert_eq!(form_of(Name::Tuned, &machine, &["C1"]).text, None);
    let unit = text_of(Name::Systemd, &machine, &["C1"]);
    assert!(
        unit.contains("ExecStart=reveille limit --deepest C1\n"),
        "{unit}"
    );
    let rule = text_of(Name::Udev, &machine, &["C1"]);
    assert!(
        rule.contains("ATTR{cpuidle/state2/disable}=\"1\""),
        "{rule}"
    );
}

#[test]
fn a_governor_that_ignores_disabled_states_gets_no_disabling_line() {
    let mut machine = target("haltpoll", vec![state(1, "haltpoll idle", 1, 1)]);
    machine.governor = Some("haltpoll".to_owned());
    let limit = form_of(Name::Limit, &machine, &[]);
    assert_eq!(limit.text, None);
    assert!(limit.caveat.unwrap().contains("haltpoll"));
    let hold = text_of(Name::Hold, &machine, &[]);
    assert_eq!(hold, "reveille hold --latency 0\n");
}

#[test]
fn without_a_driver_threads_keep_the_cpus_awake() {
    let mut machine = target("none", vec![state(1, "default_idle", 1, 1)]);
    machine.driver = None;
    let hold = form_of(Name::Hold, &machine, &[]);
    assert_eq!(hold.text.unwrap(), "reveille hold --latency 0\n");
    assert!(hold.caveat.unwrap().contains("threads"));
    let unit = text_of(Name::Systemd, &machine, &[]);
    assert!(
        unit.contains("ExecStart=reveille hold --latency 0\n"),
        "{unit}"
    );
    assert_eq!(text_of(Name::Kernel, &machine, &[]), "idle=poll\n");
}

#[test]
fn a_name_with_a_space_is_quoted() {
    let machine = target(
        "haltpoll",
        vec![state(1, "haltpoll idle", 1, 1), state(2, "deeper", 30, 60)],
    );
    let line = text_of(Name::Limit, &machine, &["haltpoll idle"]);
    assert_eq!(line, "reveille limit --deepest 'haltpoll idle'\n");
}

#[test]
fn a_name_that_a_reader_takes_for_more_than_a_name_is_in_no_form() {
    let hostile = [
        "C1\r[script]\rscript=/tmp/evil.sh",
        "C1\nExecStart=/x",
        "C1%n",
        "C1' ; x; '",
        "C1$x",
        "C1\u{202e}",
    ];
    for name in hostile {
        // No bound parts the two.
        for exit in [10, 133] {
            let machine = target(
                "intel_idle",
                vec![state(1, name, 10, 20), state(2, "C6", exit, 600)],
            );
            for form in Name::ALL {
                let form = form_of(form, &machine, &[name]);
                let text = form.text.unwrap_or_default();
                assert!(!text.contains(name) && !text.contains('\r'), "{text:?}");
                assert!(text.is_empty() || !form.does.is_empty());
            }
            assert_eq!(form_of(Name::Limit, &machine, &[name]).text, None);
            assert!(form_of(Name::Udev, &machine, &[name]).text.is_some());
        }
    }
}

#[test]
fn no_sleep_as_such_promises_no_time() {
    let result = loaded(&[
        ("POLL", "timer", vec![81_000; 3000]),
        ("C1", "timer", vec![3000; 3000]),
    ]);
    let advice = Advice::of(&result, &sklep0(), question(0, "99.9")).unwrap();
    let setting = Setting::of(&advice, &sklep0());
    for name in [Name::Tuned, Name::Systemd, Name::Udev] {
        let text = form::one(name, &advice, &setting, &sklep0()).text.unwrap();
        assert!(
            !text.contains("within") && text.contains("never sleep"),
            "{text}"
        );
    }
}

#[test]
fn on_a_hybrid_machine_only_the_measured_kind_is_set() {
    let machine = Target {
        coverage: Coverage::Hybrid {
            kind: "efficient cores".to_owned(),
            cpus: vec![4, 5, 6],
            others: vec![0, 1, 2, 3],
            one_of_each: vec![0],
        },
        ..sklep0()
    };
    let text = |name| text_of(name, &machine, &["C1"]);
    assert_eq!(text(Name::Hold), "reveille hold --latency 2us --cpu 4-6\n");
    assert_eq!(text(Name::Limit), "reveille limit --deepest C1 --cpu 4-6\n");
    let profile = text(Name::Tuned);
    assert!(profile.contains("devices=cpu4,cpu5,cpu6\npm_qos_resume_latency_us=2\n"));
    assert!(text(Name::Udev).contains("KERNEL==\"cpu4|cpu5|cpu6\""));
    let form = form_of(Name::Kernel, &machine, &["C1"]);
    assert!(form.caveat.unwrap().contains("all CPUs"));
    // A parameter alone says so as well.
    let result = loaded(&[
        ("C1", "timer", vec![3000; 3000]),
        ("C1E", "timer", vec![90_000; 3000]),
    ]);
    let answer = Answer::of(&result, &machine, question(50, "99.9")).unwrap();
    let beside = |name| answer.beside_a_form(name).len();
    assert_eq!((beside(Name::Kernel), beside(Name::Hold)), (1, 0));
}

#[test]
fn a_recorded_hybrid_machine_has_both_kinds_and_the_right_table() {
    let Some((_folder, root)) = recorded("rpl0") else {
        println!(
            "skipped: a_recorded_hybrid_machine_has_both_kinds_and_the_right_table: no recordings"
        );
        return;
    };
    let (identity, idle) = (Identity::read(&root), Idle::read(&root).unwrap());
    let mut description = made_up::description();
    (description.driver, description.settings.cpu) = (None, Some(12));
    let machine = Target::new(&description, Some((&identity, &idle)));
    let Coverage::Hybrid {
        kind, cpus, others, ..
    } = &machine.coverage
    else {
        panic!("{:?}", machine.coverage);
    };
    assert!(
        cpus.contains(&12) && others.contains(&0),
        "{cpus:?} {others:?}"
    );
    assert!(!kind.is_empty());
    let limit = text_of(Name::Limit, &machine, &["C1_ACPI", "C2_ACPI"]);
    assert!(
        limit.starts_with("reveille limit --deepest C2_ACPI --cpu "),
        "{limit}"
    );
    let hold = text_of(Name::Hold, &machine, &["C1_ACPI", "C2_ACPI"]);
    assert!(
        hold.starts_with("reveille hold --latency 127us --cpu "),
        "{hold}"
    );
    let kernel = text_of(Name::Kernel, &machine, &["C1_ACPI", "C2_ACPI"]);
    assert_eq!(kernel, "intel_idle.max_cstate=2\n");
}

#[test]
fn on_recorded_machines_a_bound_selects_every_depth() {
    for name in ["cfl-u", "dnv0", "rpl0"] {
        let Some((_folder, root)) = recorded(name) else {
            println!("skipped: on_recorded_machines_a_bound_selects_every_depth: no recordings");
            return;
        };
        let (identity, idle) = (Identity::read(&root), Idle::read(&root).unwrap());
        let mut description = made_up::description();
        description.driver = None;
        let machine = Target::new(&description, Some((&identity, &idle)));
        // The enabled states: a disabled one has no datapoints.
        let states: Vec<&str> = machine
            .states
            .iter()
            .filter(|state| state.name != "POLL" && state.disabled == Some(false))
            .map(|state| state.name.as_str())
            .collect();
        for depth in 0..states.len() {
            let (left, deeper) = states.split_at(depth);
            let hold = text_of(Name::Hold, &machine, left);
            let bound = hold
                .split(&[' ', 'u', '\n'][..])
                .find_map(|word| word.parse().ok());
            let bound: u64 = bound.unwrap_or_else(|| panic!("{name}: {hold}"));
            let exit = |name: &&str| machine.state(name).unwrap().exit_latency_us.unwrap();
            assert!(
                left.iter().all(|state| exit(state) <= bound),
                "{name}: {hold}"
            );
            assert!(
                deeper.iter().all(|state| exit(state) > bound),
                "{name}: {hold}"
            );
            for form in Name::ALL {
                let form = form_of(form, &machine, left);
                assert!(form.text.is_some(), "{name}: {form:?}");
            }
        }
    }
}

/// A recorded machine, extracted anew; `None` if the recordings are unavailable.
fn recorded(name: &str) -> Option<(tempfile::TempDir, Root)> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/machines/lay-out");
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(program).arg(name).arg(folder.path()).status();
    let root = Root::at(folder.path());
    status
        .is_ok_and(|status| status.success())
        .then_some((folder, root))
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("reveille-50us.service");
    let text = text_of(Name::Systemd, &sklep0(), &["C1"]);
    // An existing program: the test is about the rest.
    std::fs::write(&unit, text.replace("=reveille ", "=/bin/true ")).unwrap();
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output();
    let Ok(output) = verify else {
        println!("skipped: systemd_accepts_the_unit: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("reveille-50us"), "{said}");
}

#[test]
fn udev_accepts_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("60-reveille.rules");
    for left in [&["C1"][..], &[]] {
        std::fs::write(&rules, text_of(Name::Udev, &sklep0(), left)).unwrap();
        let verify = Command::new("udevadm").arg("verify").arg(&rules).output();
        let Some(output) = verify.ok().filter(|output| {
            let said = String::from_utf8_lossy(&output.stderr);
            !said.contains("Unknown command verb")
        }) else {
            println!("skipped: udev_accepts_the_rule: there is no udevadm that verifies rules");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}
