//! Cycles written by hand, in µs, for tests that need one that no log would have.

use reveille_resume::cycle::{Call, CpuStep, Cycle, Failure, Name, Stage, StageKind, Us};

/// With these stages and nothing else.
pub fn cycle(number: usize, stages: &[(StageKind, Us, Us)]) -> Cycle {
    let stage = |&(kind, start, end): &(StageKind, Us, Us)| Stage {
        kind,
        start,
        end,
        says_us: None,
    };
    Cycle {
        number,
        sleep: Some("deep".to_owned()),
        at: None,
        stages: stages.iter().map(stage).collect(),
        cpus: Vec::new(),
        calls: Vec::new(),
        asleep_us: None,
        shift_us: 0,
        failures: Vec::new(),
        cut: false,
        stamped: true,
        resolution_us: 1,
        woke: None,
        gaps: Vec::new(),
        ..Cycle::default()
    }
}

/// `driver device`, its parent (`none`: unknown), its stage, the worker, start and end.
pub fn call(names: &str, parent: &str, stage: StageKind, worker: u32, span: (Us, Us)) -> Call {
    let (driver, device) = names.split_once(' ').expect("a driver and a device");
    Call {
        device: device.into(),
        driver: Some(driver.into()),
        parent: (parent != "none").then(|| Name::from(parent)),
        function: Some("f".into()),
        stage,
        start: Some(span.0),
        end: Some(span.1),
        says_us: None,
        worker: Some(worker),
        result: Some(0),
    }
}

pub fn cpu(cpu: u32, on: bool, start: Us, end: Us) -> CpuStep {
    CpuStep {
        cpu,
        on,
        start,
        end,
    }
}

pub fn failure(at: Us, device: Option<&str>, stage: Option<StageKind>, message: &str) -> Failure {
    Failure {
        at,
        device: device.map(Name::from),
        stage,
        message: message.to_owned(),
        ..Failure::default()
    }
}
