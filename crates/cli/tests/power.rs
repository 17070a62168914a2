//! `reveille power` with made-up meters, whose truth is known.

mod meter;
mod program;

use std::process::{Command, Output};
use std::time::Duration;

use meter::made_up;
use program::reveille;
use serde_json::Value;

fn power(words: &str, meter: &str) -> Command {
    let mut command = reveille();
    command
        .arg("power")
        .args(words.split(' '))
        .args(["--meter", meter]);
    command
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_meter_in_the_network_is_watched() {
    let name = made_up(Duration::from_millis(20), || 40.0);
    let meters = json(&power("meters --json --time 1s", &name).output().unwrap());
    let one = &meters["meters"][0];
    assert_eq!(
        (&one["name"], &one["scope"]),
        (&Value::from(&*name), &Value::from("wall"))
    );
    let refresh_s = one["refresh_s"].as_f64().unwrap();
    assert!((0.015..0.1).contains(&refresh_s), "{one}");
    assert!(
        (36.0..44.0).contains(&one["power_w"].as_f64().unwrap()),
        "{one}"
    );
}

#[test]
fn what_is_no_meter_gets_one_line_and_an_exit_code() {
    for (name, code, why) in [
        ("shelly:127.0.0.1:1", 1, "127.0.0.1:1"),
        ("nonsense", 3, "no such meter here"),
        ("snmp:localhost", 2, "no OID"),
        ("shelly:localhost,volts", 2, "only `energy`"),
    ] {
        let output = power("meters", name).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let has_meters = name == "nonsense" && output.status.code() == Some(2);
        assert!(
            output.status.code() == Some(code) || has_meters,
            "{name}: {errors}"
        );
        assert!(
            errors.contains(why) && errors.lines().count() == 1,
            "{name}: {errors}"
        );
    }
}
