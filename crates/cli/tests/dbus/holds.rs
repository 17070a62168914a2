//! What the interface does.

use std::collections::HashMap;
use std::time::Duration;

use reveille_bus::NAME;
use zbus::zvariant::Value;

use super::authority::{Answer, Authority};
use super::bus::Bus;
use super::client::{Client, NOBODY};
use super::service::Service;
use super::{alone, until};

#[test]
fn a_bound_is_held_on_the_scopes_cpus_while_a_descriptor_is_open() {
    let test = "a_bound_is_held_on_the_scopes_cpus_while_a_descriptor_is_open";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let _service = Service::start(&bus);
    let client = Client::root(&bus);
    assert_eq!(client.effective(0), Ok(-1));
    let held = client.hold("0", 0).unwrap();
    let copy = held.try_clone().unwrap();
    until("it is held", || client.effective(0) == Ok(0));
    if let Ok(other) = client.effective(1) {
        assert_eq!(other, -1);
    }
    let listed = client.holds().unwrap();
    assert_eq!(listed.len(), 1);
    let (_, scope, latency_us, uid, pid, name, reason, _) = &listed[0];
    assert_eq!((scope.as_str(), *latency_us, *uid), ("0", 0, 0));
    assert_eq!((*pid, name), (std::process::id(), &client.name()));
    assert_eq!(reason, "a test");
    drop(held);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.effective(0), Ok(0), "a copy is open");
    drop(copy);
    until("it is taken back", || client.effective(0) == Ok(-1));
    assert!(client.holds().unwrap().is_empty());
}

#[test]
fn a_request_that_means_nothing_is_refused_and_named() {
    let test = "a_request_that_means_nothing_is_refused_and_named";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let client = Client::root(&bus);
    let long = "0,".repeat(100_000);
    for (scope, latency_us, why) in [
        ("", 0, "neither `all` nor a list"),
        ("x", 0, "neither `all` nor a list"),
        ("0-", 0, "neither `all` nor a list"),
        ("3-1", 0, "neither `all` nor a list"),
        ("0-4000000000", 0, "neither `all` nor a list"),
        (&long, 0, "neither `all` nor a list"),
        ("0-65535", 0, "no such CPU"),
        ("all", 2_000_000_000, "less than 2000s"),
        ("all", u32::MAX, "less than 2000s"),
    ] {
        let (error, text) = client.hold(scope, latency_us).unwrap_err();
        assert_eq!(error, "InvalidArgs", "{text}");
        assert!(text.contains(why), "{text}");
    }
    let options = HashMap::from([("pid", Value::from(1u32))]);
    let (error, text) = client.hold_with("all", 0, options).unwrap_err();
    assert_eq!(
        (error.as_str(), text.as_str()),
        ("InvalidArgs", "unknown option \"pid\"")
    );
    assert_eq!(client.effective(65_535).unwrap_err().0, "InvalidArgs");
    assert_eq!(service.holds(), 0);
    // The longest that the kernel takes.
    drop(client.hold("all", 1_999_999_999).unwrap());
}

#[test]
fn a_user_has_a_bounded_number_of_holds_and_others_still_get_theirs() {
    let test = "a_user_has_a_bounded_number_of_holds_and_others_still_get_theirs";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let _service = Service::start(&bus);
    let _authority = Authority::start(&bus, Answer::Yes);
    let greedy = Client::of(&bus, NOBODY).unwrap();
    let mut held: Vec<_> = (0..16).map(|_| greedy.hold("0", 0).unwrap()).collect();
    // A connection of its own has no more.
    let again = Client::of(&bus, NOBODY).unwrap();
    let (error, text) = again.hold("0", 0).unwrap_err();
    assert_eq!(error, "LimitsExceeded");
    assert!(text.contains("16 holds"), "{text}");
    Client::of(&bus, 1).unwrap().hold("0", 0).unwrap();
    held.pop();
    until("a place is free", || again.hold("0", 0).is_ok());
    // And not all the time.
    let refused = (0..100).filter_map(|_| again.hold("0", 0).err());
    let refused: Vec<_> = refused.collect();
    assert!(refused.len() >= 50, "{}", refused.len());
    let (error, text) = refused.last().unwrap();
    assert_eq!(error, "LimitsExceeded");
    assert!(text.contains("too often"), "{text}");
}

#[test]
fn changes_are_told_and_rules_are_named() {
    let test = "changes_are_told_and_rules_are_named";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let client = Client::root(&bus);
    let other = Client::root(&bus);
    let longest = Duration::from_secs(20);
    let mut held = None;
    assert!(client.changed_by(|| held = other.hold("0", 0).ok(), longest));
    let let_go = || {
        drop(held.take());
        // Its connection may have a copy until it runs.
        let _ = other.version();
    };
    assert!(client.changed_by(let_go, longest));
    let rules = "[[rule]]\nname = \"night\"\nlatency = \"0\"\ncpus = \"0\"\n";
    assert!(client.changed_by(|| service.reload(rules), longest));
    until("the rule is named", || client.rules().unwrap() == ["night"]);
    // After the signals of what has changed: a device of which no rule knows.
    std::thread::sleep(Duration::from_millis(500));
    let device = || std::fs::write("/sys/class/net/lo/uevent", "change").unwrap();
    assert!(!client.changed_by(device, Duration::from_secs(1)));
    // By the rule, and a hold stays in force over a reload.
    until("it is held", || client.effective(0) == Ok(0));
    let _held = other.hold("0", 0).unwrap();
    service.reload("");
    until("no rule is left", || client.rules().unwrap().is_empty());
    until("the hold is in force", || client.effective(0) == Ok(0));
}

#[test]
fn nobody_else_gets_the_name_and_a_taken_one_is_left_alone() {
    let test = "nobody_else_gets_the_name_and_a_taken_one_is_left_alone";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let nobody = Client::of(&bus, NOBODY).unwrap();
    let refused = nobody.own(NAME).unwrap_err();
    assert!(refused.contains("not allowed to own"), "{refused}");
    let root = Client::root(&bus);
    root.own(NAME).unwrap();
    let service = Service::unserved(&bus.address(), "");
    until("the problem is named", || !service.problems().is_empty());
    let problems = service.problems();
    assert_eq!(
        problems,
        format!("D-Bus is not served: another program has the name {NAME}")
    );
}
