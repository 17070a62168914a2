//! What Tab offers: by the protocol between a shell's script and the program, and by bash itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

fn reveille() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reveille"))
}

/// A machine with two kinds of CPUs, with these states; CPU 3 is offline.
fn machine(folder: &Path) {
    let cpu = folder.join("sys/devices/system/cpu");
    for (number, states) in [(0, ["POLL", "C1", "C6"]), (1, ["POLL", "C1", "C8 deep"])] {
        for (state, name) in states.iter().enumerate() {
            let place = cpu.join(format!("cpu{number}/cpuidle/state{state}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("name"), name).unwrap();
        }
    }
    fs::write(cpu.join("present"), "0-3,10").unwrap();
    fs::write(cpu.join("online"), "0-2,10").unwrap();
}

fn asked(folder: &Path, words: &[&str]) -> Output {
    let mut command = reveille();
    command
        .current_dir(folder)
        .arg("--")
        .arg("reveille")
        .args(words);
    command.env("REVEILLE_COMPLETE", "bash");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.output().unwrap()
}

/// What may follow the last word, which is to be completed.
fn offered(folder: &Path, words: &[&str]) -> Vec<String> {
    let output = asked(folder, words);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn states_of_all_cpus_complete_once() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let of = |words: &[&str]| offered(folder.path(), words);
    let all = ["POLL", "C1", "C6", "C8 deep"];
    assert_eq!(of(&["limit", "--root", ".", "--deepest", ""]), all);
    assert_eq!(of(&["limit", "--root=.", "--deepest", "C6"]), ["C6"]);
    assert_eq!(
        of(&["limit", "--root", ".", "--disable", "C1,C6"]),
        ["C1,C6"]
    );
    let settings = of(&["trial", "--root", ".", "--settings", ""]);
    assert_eq!(settings, [&all[..], &["no-sleep", "as-is"]].concat());
}

#[test]
fn cpus_complete_one_by_one_and_as_lists() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let one = offered(folder.path(), &["trial", "--root", ".", "--cpu", ""]);
    assert_eq!(one, ["0", "1", "2", "10"]);
    let list = |text| offered(folder.path(), &["limit", "--root", ".", "--cpu", text]);
    assert_eq!(list("1"), ["1", "10"]);
    assert_eq!(list("0,1,"), ["0,1,2", "0,1,3", "0,1,10"]);
    assert_eq!(list("0,2-"), ["0,2-3", "0,2-10"]);
    assert_eq!(list("10,1-"), ["10,1-2", "10,1-3"]);
}

#[test]
fn results_complete_and_other_files_do_not() {
    let folder = tempfile::tempdir().unwrap();
    for (name, file) in [
        ("mine", "result.json"),
        ("wults", "info.yml"),
        ("pings", "path.json"),
    ] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join(file), "").unwrap();
    }
    for file in ["resume.json", "rows.csv", "notes.txt"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    fs::create_dir(folder.path().join("a folder")).unwrap();
    let paths = |words: &[&str]| {
        let mut offered = offered(folder.path(), words);
        offered.retain(|one| !one.starts_with("--"));
        offered
    };
    // Folders on the way come last.
    let results = ["mine/", "rows.csv", "wults/", "a folder/", "pings/"];
    assert_eq!(paths(&["advise", ""]), results);
    assert_eq!(
        paths(&["hold", "--latency", "1us", "--result", ""]),
        results
    );
    assert_eq!(paths(&["path", "--result", "m"]), ["mine/"]);
    let kept = [
        ".",
        "mine/",
        "pings/",
        "resume.json",
        "rows.csv",
        "wults/",
        "a folder/",
    ];
    assert_eq!(paths(&["report", ""]), kept);
    assert_eq!(paths(&["report", "mine", "pi"]), ["pings/"]);
}

#[test]
fn names_of_this_machine_complete() {
    let here = Path::new("/");
    assert!(offered(here, &["path", "--nic", "l"]).contains(&"lo".to_owned()));
    let disks = offered(here, &["anticipate", "--device", ""]);
    if disks.is_empty() {
        println!("skipped: names of disks complete: this machine has no disk");
    }
    let is_disk = |disk: &String| Path::new("/sys/block").join(disk).exists();
    assert!(disks.iter().all(is_disk), "{disks:?}");
    let mine = std::process::id().to_string();
    assert!(offered(here, &["cost", "--pid", &mine]).contains(&mine));
    assert!(offered(here, &["hold", "--user", "roo"]).contains(&"root".to_owned()));
    assert!(offered(here, &["cost", "--", "ca"]).contains(&"cat".to_owned()));
    // Only the first word is a program.
    assert_eq!(offered(here, &["cost", "--", "cat", "pro"]), ["proc/"]);
    assert_eq!(
        offered(here, &["anticipate", "--op", "read,w"]),
        ["read,write"]
    );
    assert_eq!(offered(here, &["anticipate", "--ready", "so"]), ["softirq"]);
    assert_eq!(offered(here, &["m"]), ["measure", "model", "manual"]);
}

#[test]
fn nothing_known_is_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let none = offered(
        folder.path(),
        &["limit", "--root", "nowhere", "--deepest", ""],
    );
    assert_eq!(none, [""; 0]);
    for shell in ["", "0", "tcsh"] {
        let mut command = reveille();
        let output = command
            .arg("--version")
            .env("REVEILLE_COMPLETE", shell)
            .output()
            .unwrap();
        assert!(output.stderr.is_empty());
        // These two switch it off.
        assert_eq!(output.status.success(), shell != "tcsh");
    }
}

/// The scripts that `reveille manual` writes, and the program beside them under its name.
fn scripts() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert!(
        reveille()
            .arg("manual")
            .arg(folder.path())
            .status()
            .unwrap()
            .success()
    );
    symlink(
        env!("CARGO_BIN_EXE_reveille"),
        folder.path().join("reveille"),
    )
    .unwrap();
    folder
}

/// That program's output, with the program of [`scripts`] in PATH; `None` where there is none such.
fn shell(folder: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", folder.display());
    let mut command = Command::new(program);
    let done = command
        .args(arguments)
        .env("PATH", path)
        .current_dir(folder)
        .output();
    match done {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: completion by {program}: {error}");
            None
        }
    }
}

#[test]
fn bash_completes_names_with_spaces_and_after_an_equals_sign() {
    let folder = scripts();
    machine(folder.path());
    // As bash calls it: the words, with `=` as one, and the one at the cursor.
    let line = r#"
        source completions/reveille.bash
        COMP_WORDS=(reveille limit --root = . --deepest = C8) COMP_CWORD=7
        _reveille reveille C8 =
        printf '%s\n' "${COMPREPLY[@]}"
        PATH=/nowhere
        _reveille reveille C8 =
        echo ${#COMPREPLY[@]}"#;
    let Some(output) = shell(folder.path(), "bash", &["-c", line]) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "C8 deep\n0\n");
}

#[test]
fn bash_quotes_what_it_would_run() {
    let folder = scripts();
    for name in ["plain-1.2", "run$(id)", "then;id", "run`id`", "into>id"] {
        let result = folder.path().join(name);
        fs::create_dir(&result).unwrap();
        fs::write(result.join("result.json"), "").unwrap();
    }
    let line = r#"
        source completions/reveille.bash
        compopt() { echo "$2"; }
        for word in plain 'run$' then 'run`' into; do
            COMP_WORDS=(reveille show "$word") COMP_CWORD=2
            _reveille reveille "$word" show
            printf '%s\n' "${COMPREPLY[@]}"
        done"#;
    let Some(output) = shell(folder.path(), "bash", &["-c", line]) else {
        return;
    };
    // A folder has no space behind it.
    let quoted = |name| format!("filenames\nnospace\n{name}/\n");
    let names = ["run$(id)", "then;id", "run`id`", "into>id"].map(quoted);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("nospace\nplain-1.2/\n{}", names.concat())
    );
}

#[test]
fn fish_completes() {
    let folder = scripts();
    machine(folder.path());
    let line =
        "source completions/reveille.fish; complete -C 'reveille limit --root . --deepest C'";
    let Some(output) = shell(folder.path(), "fish", &["--no-config", "-c", line]) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "C1\nC6\nC8 deep\n");
}

#[test]
fn zsh_completes_at_the_first_tab() {
    let folder = scripts();
    machine(folder.path());
    // The file as zsh loads it, and what it would offer instead of a menu.
    let line = "
        fpath=($PWD/completions $fpath)
        autoload _reveille
        _describe() { print -l -- ${(P)3} }
        words=(reveille limit --root . --deepest C) CURRENT=6
        _reveille";
    let Some(output) = shell(folder.path(), "zsh", &["-f", "-c", line]) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "C1\nC6\nC8 deep\n");
}
