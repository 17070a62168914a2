//! Who may hold.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::authority::{Answer, Authority};
use super::bus::{Bus, PACKAGE};
use super::client::{Client, NOBODY};
use super::service::Service;
use super::{alone, until};
use crate::complains::complains;
use crate::program::as_nobody;

const ACTION: &str = "org.reveille.hold-latency";

#[test]
fn without_polkit_only_root_may_hold() {
    let test = "without_polkit_only_root_may_hold";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let nobody = Client::of(&bus, NOBODY).unwrap();
    let (error, text) = nobody.hold("0", 0).unwrap_err();
    assert_eq!(error, "AccessDenied");
    assert!(text.contains("only root may hold"), "{text}");
    Client::root(&bus).hold("0", 0).unwrap();
    // Reading needs nothing.
    nobody.holds().unwrap();
    nobody.effective(0).unwrap();
    nobody.version().unwrap();
    let (_folder, mut command) = as_nobody().unwrap();
    service.beside(&mut command, &["hold", "--latency", "0", "--via-service"]);
    complains(&mut command, 3, "only root may hold");
}

#[test]
fn polkit_is_asked_about_the_callers_own_name_on_the_bus() {
    let test = "polkit_is_asked_about_the_callers_own_name_on_the_bus";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let _service = Service::start(&bus);
    let authority = Authority::start(&bus, Answer::Yes);
    Client::root(&bus).hold("0", 0).unwrap();
    assert!(authority.asked().is_empty(), "root needs no polkit");
    let nobody = Client::of(&bus, NOBODY).unwrap();
    nobody.hold("0", 0).unwrap();
    let asked = &authority.asked()[0];
    assert_eq!(asked.subject, "system-bus-name");
    assert_eq!(asked.name, nobody.name());
    assert_eq!(asked.action, ACTION);
    drop(authority);
    let _authority = Authority::start(&bus, Answer::No);
    let (error, text) = nobody.hold("0", 0).unwrap_err();
    assert_eq!(
        (error.as_str(), text),
        ("AccessDenied", format!("polkit refuses {ACTION}"))
    );
}

#[test]
fn while_polkit_asks_a_user_others_are_answered_and_who_leaves_leaves_nothing() {
    let test = "while_polkit_asks_a_user_others_are_answered_and_who_leaves_leaves_nothing";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let authority = Authority::start(&bus, Answer::AskUser);
    let nobody = Client::of(&bus, NOBODY).unwrap();
    let (error, _) = nobody.hold("0", 0).unwrap_err();
    assert_eq!(error, "InteractiveAuthorizationRequired");
    assert!(!authority.asked()[0].interactive);
    // More than may wait of one program.
    (0..8).for_each(|_| nobody.send_hold("0", 0));
    let is_asking = || {
        authority
            .asked()
            .iter()
            .filter(|one| one.interactive)
            .count()
    };
    until("polkit asks", || is_asking() == 4);
    let root = Client::root(&bus);
    drop(root.hold("0", 0).unwrap());
    root.holds().unwrap();
    drop(nobody);
    until("the questions are taken back", || {
        authority.seen.lock().unwrap().taken_back.len() == 4
    });
    assert_eq!(is_asking(), 4);
    until("nothing is held", || service.holds() == 0);
    // Nor does a place stay taken.
    let nobody = Client::of(&bus, NOBODY).unwrap();
    nobody.send_hold("0", 0);
    until("polkit asks again", || is_asking() == 5);
}

/// The real polkitd with the shipped action and these rules; it ends with the value.
struct Polkit {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Polkit {
    fn start(bus: &Bus, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| fs::set_permissions(path, PermissionsExt::from_mode(0o755));
        open(folder.path()).unwrap();
        for part in ["actions", "rules"] {
            fs::create_dir(folder.path().join(part)).unwrap();
            open(&folder.path().join(part)).unwrap();
        }
        let action = format!("{PACKAGE}/org.reveille.policy");
        fs::copy(action, folder.path().join("actions/org.reveille.policy")).unwrap();
        fs::write(folder.path().join("rules/50-test.rules"), rules).unwrap();
        let script = "mount --bind $1/actions /usr/share/polkit-1/actions &&
            mount --bind $1/rules /etc/polkit-1/rules.d && exec $2 --no-debug";
        let child = Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh"])
            .args([folder.path(), Path::new(POLKITD)])
            .env("DBUS_SYSTEM_BUS_ADDRESS", bus.address())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let root = Client::root(bus);
        until("polkitd has its name", || {
            root.has_owner("org.freedesktop.PolicyKit1")
        });
        Self {
            child,
            _folder: folder,
        }
    }
}

impl Drop for Polkit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const POLKITD: &str = "/usr/lib/polkit-1/polkitd";

#[test]
fn the_shipped_action_asks_for_an_administrator_outside_a_session_and_rules_decide() {
    let test = "the_shipped_action_asks_for_an_administrator_outside_a_session_and_rules_decide";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    if !Path::new(POLKITD).exists() {
        return println!("skipped: {test}: no polkitd");
    }
    let service = Service::start(&bus);
    let nobody = Client::of(&bus, NOBODY).unwrap();
    let other = Client::of(&bus, 1).unwrap();
    let polkit = Polkit::start(&bus, "");
    Client::root(&bus).hold("0", 0).unwrap();
    let (error, text) = nobody.hold("0", 0).unwrap_err();
    assert_eq!(error, "InteractiveAuthorizationRequired", "{text}");
    let (_folder, mut command) = as_nobody().unwrap();
    service.beside(&mut command, &["hold", "--latency", "0", "--via-service"]);
    complains(&mut command, 3, "--via-service: refused");
    drop(polkit);
    let rules = format!(
        "polkit.addRule(function(action, subject) {{
           if (action.id == '{ACTION}')
             return subject.user == 'nobody' ? polkit.Result.YES : polkit.Result.NO; }});"
    );
    let _polkit = Polkit::start(&bus, &rules);
    nobody.hold("0", 0).unwrap();
    let (error, text) = other.hold("0", 0).unwrap_err();
    assert_eq!(
        (error.as_str(), text),
        ("AccessDenied", format!("polkit refuses {ACTION}"))
    );
    let (_folder, mut command) = as_nobody().unwrap();
    service.beside(
        &mut command,
        &["hold", "--latency", "0", "--via-service", "--", "true"],
    );
    assert!(command.status().unwrap().success());
}

#[test]
fn the_shipped_files_name_the_same_things() {
    let text = |file: &str| fs::read_to_string(format!("{PACKAGE}/{file}")).unwrap();
    let action = text("org.reveille.policy");
    for line in [
        "<action id=\"org.reveille.hold-latency\">",
        "<allow_any>auth_admin_keep</allow_any>",
        "<allow_inactive>auth_admin_keep</allow_inactive>",
        "<allow_active>yes</allow_active>",
    ] {
        assert_eq!(action.matches(line).count(), 1, "{line}");
    }
    let activation = text("org.reveille.Reveille1.service");
    let has = |line| activation.lines().any(|one| one == line);
    assert!(
        has("Name=org.reveille.Reveille1")
            && has("SystemdService=dbus-org.reveille.Reveille1.service")
    );
}
