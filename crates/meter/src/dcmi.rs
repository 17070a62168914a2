//! The board's management controller, by `ipmitool dcmi power reading` (DCMI 1.5, section 6.6.1).

use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use reveille_kernel::{Error, Result};

use crate::reading::{About, Counts, Meter, Scope, quoted};

/// A controller that is busy answers within a second or two.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How often a running ipmitool is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A pipe's content; the answer has some 400 bytes.
const ANSWER_MAX: usize = 64 << 10;

/// The controller's meter.
pub struct Dcmi {
    program: String,
    about: About,
}

impl Dcmi {
    /// The meter, if `program` (ipmitool) is here and the controller measures.
    ///
    /// # Errors
    /// As [`Meter::read`].
    pub fn find(program: &str) -> Result<Self> {
        let mut meter = Self {
            program: program.to_owned(),
            about: About {
                name: "dcmi".to_owned(),
                scope: Scope::Platform,
                counts: Counts::Power,
                resolution: Some(1.0),
                range_j: None,
            },
        };
        meter.read()?;
        Ok(meter)
    }

    fn ask(&self) -> Result<String> {
        let failed =
            |error: std::io::Error| Error::Cannot(format!("dcmi: {}: {error}", self.program));
        let mut child = Command::new(&self.program)
            .args(["dcmi", "power", "reading"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let began = Instant::now();
        // An answer that does not fit into the pipe is none: its writer waits until it is ended.
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break status,
                None if began.elapsed() < TIMEOUT => std::thread::sleep(LOOK),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let program = &self.program;
                    return Err(Error::Failed(format!(
                        "dcmi: {program} did not end within 5 s"
                    )));
                }
            }
        };
        let mut text = vec![0; ANSWER_MAX];
        let read = match child.stdout.take() {
            None => 0,
            Some(mut out) => {
                // Not until its end: a process that ipmitool left may keep it open.
                fcntl(&out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| failed(e.into()))?;
                match out.read(&mut text) {
                    Err(why) if why.kind() == ErrorKind::WouldBlock => 0,
                    read => read.map_err(failed)?,
                }
            }
        };
        text.truncate(read);
        match status.success() {
            true => Ok(String::from_utf8_lossy(&text).into_owned()),
            false => Err(Error::Cannot(format!(
                "dcmi: `{} dcmi power reading` failed; it needs root and a controller with DCMI",
                self.program
            ))),
        }
    }
}

impl Meter for Dcmi {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        parse(&self.ask()?)
    }
}

/// W of ipmitool's answer.
fn parse(answer: &str) -> Result<f64> {
    let value = |name: &str| {
        let mut lines = answer
            .lines()
            .filter_map(|line| line.trim().strip_prefix(name));
        Some(lines.next()?.trim_start_matches(':').trim())
    };
    // Bit 6 of the answer's last byte.
    if let Some(state) = value("Power reading state is").filter(|state| *state != "activated") {
        return Err(Error::Cannot(format!(
            "dcmi: the controller's power reading is {}",
            quoted(state)
        )));
    }
    let watts = value("Instantaneous power reading");
    let watts = watts.and_then(|text| text.strip_suffix("Watts")?.trim().parse::<u32>().ok());
    watts.map(f64::from).ok_or_else(|| {
        Error::Failed(format!(
            "dcmi: the answer is no reading: {}",
            quoted(answer)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\n    Instantaneous power reading:                   220 Watts\n    \
        Minimum during sampling period:                 12 Watts\n    Sampling period:  00000001 Seconds.\n    \
        Power reading state is:                   activated\n\n";

    fn program(script: &str) -> (tempfile::TempDir, String) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ipmitool");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        (folder, path.to_string_lossy().into_owned())
    }

    fn said(script: &str) -> String {
        let (_folder, program) = program(script);
        match Dcmi::find(&program) {
            Ok(mut meter) => meter.read().unwrap().to_string(),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn the_present_power_is_read_if_the_reading_is_on() {
        assert_eq!(parse(ANSWER).unwrap(), 220.0);
        for wrong in ["nan", "inf", "-5", "1e9"] {
            assert!(parse(&ANSWER.replace("220", wrong)).is_err(), "{wrong}");
        }
        let off = parse(&ANSWER.replace("activated", "deactivated"));
        assert!(off.unwrap_err().to_string().contains("\"deactivated\""));
        let words = parse("DCMI request failed\nbecause: nothing").unwrap_err();
        assert_eq!(
            words.to_string(),
            "dcmi: the answer is no reading: \"DCMI request failed because: nothing\""
        );
    }

    #[test]
    fn ipmitool_is_run_and_given_up() {
        let answer = format!("test \"$*\" = 'dcmi power reading' && printf '%s' '{ANSWER}'");
        assert_eq!(said(&answer), "220");
        assert!(said("exit 1").contains("needs root and a controller"));
        assert!(said("exec head -c 10000000 /dev/zero").contains("did not end within 5 s"));
        // What it leaves behind keeps its standard output open.
        let leaves = format!("sleep 60 & echo $! >\"$0.left\"; printf '%s' '{ANSWER}'");
        let (_folder, program) = program(&leaves);
        let watts = Dcmi::find(&program).and_then(|mut meter| meter.read());
        let left = std::fs::read_to_string(format!("{program}.left")).unwrap();
        let left = nix::unistd::Pid::from_raw(left.trim().parse().unwrap());
        nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGKILL).expect("it still runs");
        assert_eq!(watts.unwrap(), 220.0);
        let absent = Dcmi::find("/nonexistent/ipmitool")
            .err()
            .unwrap()
            .to_string();
        assert!(absent.contains("No such file"), "{absent}");
    }
}
