//! A user's command has the rights of sudo's caller, and nothing of the program's.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::libc;

use super::{alone, state_of_cpu_0};
use crate::complains::complains;
use crate::program::{as_nobody, reveille, run};

/// Every command that runs a user's command, up to `--`.
fn that_run_commands(test: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: {test}: not root");
        return Vec::new();
    }
    let mut all = vec![
        words("hold --latency 0 --cpu 0"),
        words("hold --latency 0"),
        words("trial --settings no-sleep --settle 0s --rounds 1"),
        words("trial --settings no-sleep --settle 0s --rounds 1 --figure \\d+"),
    ];
    match state_of_cpu_0() {
        Some(state) => {
            all.push(words(&format!("limit --deepest {state} --cpu 0")));
            all.push(words(&format!(
                "trial --settings {state} --settle 0s --rounds 1"
            )));
        }
        None => println!("skipped: {test}: limit: no cpuidle driver"),
    }
    match run(reveille().args(["cost", "--", "true"])) {
        ended if ended.code == 3 => println!("skipped: {test}: cost: {}", ended.stderr.trim()),
        _ => {
            all.push(words("cost"));
            all.push(words("cost --duration 1h"));
        }
    }
    all
}

/// As started by sudo for the user nobody.
fn by_sudo() -> Command {
    let mut command = reveille();
    command.envs([
        ("SUDO_UID", "65534"),
        ("SUDO_GID", "65534"),
        ("SUDO_USER", "nobody"),
        ("SUDO_COMMAND", "reveille"),
        ("MAIL", "/var/mail/root"),
        ("KEPT", "as it was"),
    ]);
    command
}

/// The script's output when it is run by that command line, whose `--` follows these.
fn written(mut command: Command, arguments: &[String], script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let file = folder.path().join("written");
    // --figure looks for a number.
    let script = format!("{{ {script}; }} >{}; echo 1", file.display());
    let ended = run(command.args(arguments).args(["--", "sh", "-c", &script]));
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
    std::fs::read_to_string(&file).unwrap()
}

#[test]
fn under_sudo_a_command_runs_as_the_caller_and_otherwise_only_by_user() {
    let test = "under_sudo_a_command_runs_as_the_caller_and_otherwise_only_by_user";
    let Some(_alone) = alone() else {
        return;
    };
    let script = "id -u; id -g; env; cat /proc/self/status";
    for arguments in that_run_commands(test) {
        let said = written(by_sudo(), &arguments, script);
        let has = |line: &str| said.lines().any(|one| one == line);
        assert!(said.starts_with("65534\n65534\n"), "{arguments:?}: {said}");
        assert!(
            has("USER=nobody") && has("LOGNAME=nobody") && has("KEPT=as it was"),
            "{said}"
        );
        assert!(!said.contains("SUDO_") && !said.contains("MAIL="), "{said}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert!(has(&format!("{set}:\t0000000000000000")), "{said}");
        }
        let with = |user: &str| [&arguments[..], &["--user".into(), user.into()]].concat();
        let said = written(by_sudo(), &with("root"), script);
        assert!(
            said.starts_with("0\n0\n") && said.contains("SUDO_UID=65534"),
            "{said}"
        );
        assert!(written(reveille(), &arguments, script).starts_with("0\n0\n"));
        assert!(written(reveille(), &with("65534"), script).starts_with("65534\n65534\n"));
    }
}

#[test]
fn no_capability_that_outlives_a_change_of_user_reaches_the_command() {
    let test = "no_capability_that_outlives_a_change_of_user_reaches_the_command";
    let Some(_alone) = alone() else {
        return;
    };
    if that_run_commands(test).is_empty() {
        return;
    }
    // As a container may start it: capabilities in every set, which no change of user removes.
    let with_capabilities = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=+net_raw", "--ambient-caps=+net_raw"]);
        command.args(["--securebits=+no_setuid_fixup", program]);
        command
    };
    let tried = with_capabilities("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("skipped: {test}: setpriv cannot do it here");
        return;
    }
    let command = with_capabilities(env!("CARGO_BIN_EXE_reveille"));
    let arguments = ["hold", "--latency", "0", "--cpu", "0", "--user", "nobody"].map(Into::into);
    let said = written(command, &arguments, "cat /proc/self/status");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(
            said.contains(&format!("{set}:\t0000000000000000")),
            "{said}"
        );
    }
}

/// With two files that the caller has opened for the command.
fn with_files(mut command: Command) -> Command {
    let file = std::fs::File::open("/dev/null").unwrap();
    let before_exec = move || {
        for number in [33, 35] {
            // SAFETY: the call creates a descriptor of that number; nothing else here has it.
            nix::errno::Errno::result(unsafe { libc::dup2(file.as_raw_fd(), number) })?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only dup2(2) is called.
    unsafe { command.pre_exec(before_exec) };
    command
}

#[test]
fn only_the_callers_descriptors_reach_the_command() {
    let test = "only_the_callers_descriptors_reach_the_command";
    let Some(_alone) = alone() else {
        return;
    };
    // `ls` opens the folder itself, at the lowest free number.
    let script = "ls /proc/self/fd";
    let mut directly = with_files(Command::new("sh"));
    let directly = directly.args(["-c", script]).output().unwrap();
    let expected = String::from_utf8(directly.stdout).unwrap();
    assert!(expected.contains("33\n35\n"), "{expected}");
    for arguments in that_run_commands(test) {
        let listed = written(with_files(reveille()), &arguments, script);
        assert_eq!(listed, expected, "{arguments:?}");
    }
}

#[test]
fn a_command_keeps_its_callers_scheduling_limits_and_signals() {
    let test = "a_command_keeps_its_callers_scheduling_limits_and_signals";
    let Some(_alone) = alone() else {
        return;
    };
    let script = "grep -E '^(SigBlk|SigIgn|Cpus_allowed_list|NoNewPrivs)' /proc/self/status; \
                  cat /proc/self/limits /proc/self/oom_score_adj /proc/self/timerslack_ns; \
                  cut -d ' ' -f 18,19,40,41 /proc/self/stat";
    // SIGUSR1 blocked, SIGHUP ignored, a niceness of 3. Ctrl-C and Ctrl-\ as `reveille()` has them, though this test
    // may run in the background of a shell.
    let changed = |mut command: Command| {
        let before_exec = || {
            use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
            let mut blocked = SigSet::empty();
            blocked.add(Signal::SIGUSR1);
            blocked.thread_block()?;
            // SAFETY: these are no handlers.
            unsafe {
                signal(Signal::SIGHUP, SigHandler::SigIgn)?;
                signal(Signal::SIGINT, SigHandler::SigDfl)?;
                signal(Signal::SIGQUIT, SigHandler::SigDfl)?;
            }
            // SAFETY: the call takes a number.
            unsafe { libc::nice(3) };
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(before_exec) };
        command
    };
    let directly = changed(Command::new("sh"))
        .args(["-c", script])
        .output()
        .unwrap();
    let expected = String::from_utf8(directly.stdout).unwrap();
    for arguments in that_run_commands(test) {
        assert_eq!(
            written(changed(reveille()), &arguments, script),
            expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn a_program_that_the_user_may_not_execute_is_refused_before_any_change() {
    let test = "a_program_that_the_user_may_not_execute_is_refused_before_any_change";
    let Some(_alone) = alone() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho 1\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    for arguments in that_run_commands(test) {
        let words = "nobody may not execute it; --user root runs it as root";
        complains(by_sudo().args(&arguments).arg("--").arg(&program), 2, words);
        let as_root = run(by_sudo()
            .args(&arguments)
            .args(["--user", "root", "--"])
            .arg(&program));
        assert_eq!(as_root.code, 0, "{}", as_root.stderr);
        let unknown = ["--user", "no such user", "--", "true"];
        complains(reveille().args(&arguments).args(unknown), 2, "unknown user");
    }
}

#[test]
fn only_root_runs_commands_as_others() {
    let Some((_folder, nobody)) = as_nobody() else {
        println!("skipped: only_root_runs_commands_as_others: it takes root to leave root");
        return;
    };
    let program = Path::new(nobody.get_program()).to_owned();
    let again = |user: &str| {
        let mut command = Command::new(&program);
        command
            .uid(65534)
            .gid(65534)
            .args(["trial", "--settings", "no-sleep", "--user", user]);
        command.args(["--", "true"]);
        command
    };
    complains(
        &mut again("root"),
        2,
        "only root can run a command as another user",
    );
    // One's own user is not another one; the missing right is then the one to change settings.
    assert_ne!(run(&mut again("nobody")).code, 2);
}
