//! UPower's old interface.

use super::authority::{Answer, Authority};
use super::bus::Bus;
use super::client::{Client, NOBODY};
use super::service::Service;
use super::{alone, until};

const RULES: &str = "upower_qos = true\n";
const NAME: &str = "org.freedesktop.UPower";

/// cookie, uid, pid, name, held, persistent, type, value
type Listed = (u32, u32, u32, String, u64, bool, String, i32);

#[test]
fn upowers_requests_are_holds_that_end_with_their_programs() {
    let test = "upowers_requests_are_holds_that_end_with_their_programs";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let client = Client::root(&bus);
    assert!(!client.has_owner(NAME), "the rules do not ask for it");
    service.reload(RULES);
    until("it has the name", || client.has_owner(NAME));
    let authority = Authority::start(&bus, Answer::Yes);
    let nobody = Client::of(&bus, NOBODY).unwrap();
    assert_eq!(nobody.upower("GetLatency", &"cpu_dma"), Ok(-1));
    let cookie: u32 = nobody
        .upower("RequestLatency", &("cpu_dma", 0, false))
        .unwrap();
    assert_eq!(authority.asked()[0].name, nobody.name());
    until("it is in force", || client.effective(0) == Ok(0));
    assert_eq!(client.upower("GetLatency", &"cpu_dma"), Ok(0));
    let listed: Vec<Listed> = client.upower("GetLatencyRequests", &()).unwrap();
    let (number, uid, pid, name, _, persistent, of, value) = &listed[0];
    assert_eq!((*number, *uid, *pid), (cookie, NOBODY, std::process::id()));
    assert_eq!(
        (name, *persistent, of.as_str(), *value),
        (&nobody.name(), false, "cpu_dma", 0)
    );
    // Cookies of others are worth nothing.
    let other = Client::of(&bus, NOBODY).unwrap();
    let refused = other.upower::<_, ()>("CancelRequest", &cookie).unwrap_err();
    assert_eq!(refused.0, "InvalidArgs");
    assert_eq!(client.effective(0), Ok(0));
    nobody.upower::<_, ()>("CancelRequest", &cookie).unwrap();
    until("it is taken back", || client.effective(0) == Ok(-1));
    let _: u32 = nobody
        .upower("RequestLatency", &("cpu_dma", 0, false))
        .unwrap();
    until("it is in force", || client.effective(0) == Ok(0));
    drop(nobody);
    until("it ends with its program", || client.effective(0) == Ok(-1));
    assert_eq!(service.holds(), 0);
    // And its rule ends it.
    service.reload("");
    until("the name is given back", || !client.has_owner(NAME));
}

#[test]
fn what_upower_did_wrong_is_refused() {
    let test = "what_upower_did_wrong_is_refused";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::with_rules(&bus, RULES);
    let root = Client::root(&bus);
    until("it has the name", || root.has_owner(NAME));
    let _authority = Authority::start(&bus, Answer::No);
    let request = |client: &Client, of: &str, value: i32, persistent: bool| {
        let refused = client.upower::<_, u32>("RequestLatency", &(of, value, persistent));
        refused.unwrap_err().0
    };
    assert_eq!(request(&root, "cpu_dma", 50, true), "NotSupported");
    assert_eq!(request(&root, "network", 50, false), "NotSupported");
    assert_eq!(request(&root, "disk", 50, false), "InvalidArgs");
    assert_eq!(request(&root, "cpu_dma", -1, false), "InvalidArgs");
    assert_eq!(
        request(&root, "cpu_dma", 2_000_000_000, false),
        "InvalidArgs"
    );
    let nobody = Client::of(&bus, NOBODY).unwrap();
    assert_eq!(request(&nobody, "cpu_dma", 50, false), "AccessDenied");
    let least = nobody.upower::<_, ()>("SetMinimumLatency", &("cpu_dma", 100));
    assert_eq!(least.unwrap_err().0, "NotSupported");
    assert_eq!(service.holds(), 0);
}

#[test]
fn a_upower_that_runs_keeps_its_name() {
    let test = "a_upower_that_runs_keeps_its_name";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let upower = Client::root(&bus);
    upower.own(NAME).unwrap();
    let service = Service::with_rules(&bus, RULES);
    until("the problem is named", || !service.problems().is_empty());
    let why = "upower_qos: another program has the name org.freedesktop.UPower";
    assert_eq!(service.problems(), why);
    // The rest goes on.
    drop(upower.hold("0", 0).unwrap());
}
