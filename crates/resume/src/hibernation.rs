//! Suspends to disk, of which a log's words about the image and its failures are read, and no stages.

use serde::{Deserialize, Serialize};

use crate::cycle::{Us, time};

/// The memory's image, as the kernel makes room for it, writes it or reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its size in KiB.
    pub kbytes: u64,
    /// How long that took.
    pub took_us: Us,
}

/// A suspend to disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hibernation {
    /// Memory was freed for the image.
    pub allocated: Option<Image>,
    /// It was written to the disk.
    pub written: Option<Image>,
    /// It was read from there, by the kernel that the machine boots for that.
    pub read: Option<Image>,
    /// Then it slept in memory, too (hybrid sleep).
    #[serde(default)]
    pub in_memory: bool,
    /// The machine came back from it, or gave it up: the log has its end.
    pub ended: bool,
    /// In the kernel's own text.
    pub failures: Vec<String>,
}

/// Of one suspend to disk no more failures are kept.
const FAILURES_MAX: usize = 100;

/// What a device fails to do, in its own messages.
const STEPS: [&str; 7] = [
    "freeze",
    "thaw",
    "quiesce",
    "restore",
    "recover",
    "power off",
    "poweroff",
];

/// The words that failures begin with, behind `PM: ` and `hibernation: `.
const FAILURES: [&str; 10] = [
    "Some devices failed to power down",
    "Some system devices failed to power down",
    "Wakeup event detected during hibernation",
    "Not enough ",
    "Image allocation is ",
    "Error ",
    "Failed to ",
    "Cannot ",
    "resume failed ",
    "Image mismatch",
];

/// Of these, what is said once more where an image cannot be read.
const FOLLOWING: [&str; 3] = [
    "Error ",
    "Failed to load hibernation image",
    "resume failed ",
];

impl Hibernation {
    /// Takes what the message says of it: `PM: hibernation: Wrote 493824 kbytes in 3.20 seconds (154.32 MB/s)`,
    /// to Linux 5.8 or so without `hibernation: `. Whether it says anything.
    pub(crate) fn hears(&mut self, message: &str) -> bool {
        let ends = ["Restarting tasks", "PM: Image restored successfully"];
        self.ended |= ends.iter().any(|words| message.starts_with(words));
        self.in_memory |= !self.ended && message.contains("to enter system sleep state S3");
        let (device, text) = match message.split_once("PM: ") {
            Some(of_power_management) => of_power_management,
            None if message.starts_with("Freezing ") => ("", message),
            None => return false,
        };
        let text = text.strip_prefix("hibernation: ").unwrap_or(text);
        let image = |(verb, rest)| Some((verb, image(rest)?));
        match text.split_once(' ').and_then(image) {
            Some(("Allocated", image)) => self.allocated = Some(image),
            Some(("Wrote", image)) => self.written = Some(image),
            Some(("Read", image)) => self.read = Some(image),
            Some(_) => return false,
            None if is_failure(device, text) => {
                // What follows from the one before it.
                let follows = FOLLOWING.iter().any(|words| text.starts_with(words));
                let is_new = !follows || self.failures.is_empty();
                if is_new && self.failures.len() < FAILURES_MAX {
                    let words = text.trim_end_matches([' ', ':']);
                    self.failures.push(format!("{device}{words}"));
                }
            }
            // `Creating image:`, to Linux 5.8 or so `Creating hibernation image:`
            None if text.starts_with("Creating ") => {}
            None => return false,
        }
        true
    }

    /// What is known of it, in a sentence.
    pub(crate) fn words(&self) -> String {
        let image = |verb: &str, image: Option<Image>| {
            let Image { kbytes, took_us } = image?;
            Some(format!("{verb} {} MiB in {}", kbytes / 1024, time(took_us)))
        };
        let known = [
            image("allocated", self.allocated),
            image("wrote", self.written),
            self.in_memory.then(|| "suspended to RAM".to_owned()),
            image("read", self.read),
            Some(match (self.ended, self.failures.is_empty()) {
                (true, true) => "came back".to_owned(),
                (true, false) => "ended with a failure".to_owned(),
                (false, _) => "its end is not in the log".to_owned(),
            }),
        ];
        Vec::from_iter(known.into_iter().flatten()).join(", ")
    }
}

/// `493824 kbytes in 3.20 seconds`
fn image(text: &str) -> Option<Image> {
    let (kbytes, rest) = text.split_once(" kbytes in ")?;
    let (seconds, _) = rest.split_once(" seconds")?;
    let seconds: f64 = seconds.parse().ok().filter(|s| (0.0..1e6).contains(s))?;
    Some(Image {
        kbytes: kbytes.parse().ok()?,
        took_us: (seconds * 1e6).round() as Us,
    })
}

/// `PM: Image allocation is 28906 pages short`, `usb 1-1: PM: failed to restore async: error -19`
fn is_failure(device: &str, text: &str) -> bool {
    if text.starts_with("Freezing ") {
        return text.contains(" failed after ") || text.contains(" aborted");
    }
    if device.is_empty() {
        return FAILURES.iter().any(|words| text.starts_with(words));
    }
    let what = text.strip_prefix("failed to ").unwrap_or_default();
    STEPS.iter().any(|step| what.starts_with(step))
}
