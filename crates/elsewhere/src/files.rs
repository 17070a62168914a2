//! The files of a result: sent as they grow, and received.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use reveille_kernel::{Error, Result};
use reveille_results::ResultFolder;
use reveille_results::output::Existing;

use crate::frames::{Frame, LARGEST};

/// Grows line by line until the next one replaces it.
const GROWING: &str = "datapoints.partial.csv";

/// The files of a result, in the order in which they are sent: a description is valid for what was sent before it.
const FILES: [&str; 4] = [GROWING, "datapoints.parquet", "trial.json", "result.json"];

/// What of a frame may be a file's.
const PART: usize = LARGEST - 64;

/// The most bytes of a result that are kept here: a day of measuring, and no more than a disk can spare.
const MOST: u64 = 2 << 30;

/// The inode and the time of the last change.
type Stamp = (u64, i64, i64);

/// The files in a folder that are sent, as far as they were.
pub struct Sent {
    folder: PathBuf,
    grown: Option<u64>,
    stamps: [Option<Stamp>; FILES.len()],
}

impl Sent {
    /// None yet.
    pub fn of(folder: PathBuf) -> Self {
        Self {
            folder,
            grown: None,
            stamps: Default::default(),
        }
    }

    /// Whether any of them is in the folder.
    pub fn is_any_in(folder: &Path) -> bool {
        FILES.iter().any(|name| folder.join(name).exists())
    }

    /// Sends all of them whole, and which is gone, to a side that may have some.
    pub fn all(&self, send: &mut dyn FnMut(Frame)) {
        for name in FILES {
            if let Ok(file) = File::open(self.folder.join(name)) {
                let _ = whole(file, name, send);
            }
        }
        if !self.folder.join(GROWING).exists() {
            send(Frame::Removed(GROWING.to_owned()));
        }
    }

    /// Sends what is new, changed or gone; a file that cannot be read is tried again at the next call.
    pub fn look(&mut self, send: &mut dyn FnMut(Frame)) {
        for (name, stamp) in FILES.into_iter().zip(&mut self.stamps) {
            let Ok(file) = File::open(self.folder.join(name)) else {
                continue;
            };
            let Ok(now) = file.metadata() else { continue };
            let now = Some((now.ino(), now.mtime(), now.mtime_nsec()));
            if name == GROWING {
                let _ = grow(file, self.grown.get_or_insert(0), name, send);
            } else if *stamp != now && whole(file, name, send).is_ok() {
                *stamp = now;
            }
        }
        // After the one that replaces it.
        if self.grown.is_some() && !self.folder.join(GROWING).exists() {
            self.grown = None;
            send(Frame::Removed(GROWING.to_owned()));
        }
    }
}

fn grow(mut file: File, sent: &mut u64, name: &str, send: &mut dyn FnMut(Frame)) -> io::Result<()> {
    // Not beyond what is there now: it grows on.
    let there = file.metadata()?.len().saturating_sub(*sent);
    file.seek(SeekFrom::Start(*sent))?;
    let mut file = file.take(there);
    let mut bytes = Vec::new();
    while file.by_ref().take(PART as u64).read_to_end(&mut bytes)? > 0 {
        *sent += bytes.len() as u64;
        send(Frame::Append(name.to_owned(), std::mem::take(&mut bytes)));
    }
    Ok(())
}

fn whole(file: File, name: &str, send: &mut dyn FnMut(Frame)) -> io::Result<()> {
    send(Frame::Begin(name.to_owned()));
    let mut bytes = Vec::new();
    while (&file).take(PART as u64).read_to_end(&mut bytes)? > 0 {
        send(Frame::Part(std::mem::take(&mut bytes)));
    }
    send(Frame::Whole);
    Ok(())
}

/// A folder on this machine for the result of another one.
pub struct Received {
    result: ResultFolder,
    growing: Option<File>,
    arriving: Option<(String, File)>,
    has_any: bool,
    most: u64,
    /// Bytes of each of [`FILES`], and of the one that is arriving.
    sizes: [u64; FILES.len()],
    arrived: u64,
}

impl Received {
    /// Nothing yet.
    pub fn into_result(result: ResultFolder) -> Self {
        Self {
            result,
            growing: None,
            arriving: None,
            has_any: false,
            most: MOST,
            sizes: Default::default(),
            arrived: 0,
        }
    }

    /// The result, as far as it came.
    pub fn result(&self) -> &ResultFolder {
        &self.result
    }

    /// Whether anything came of a result.
    pub fn has_any(&self) -> bool {
        self.has_any
    }

    /// Keeps what a frame says of a file.
    ///
    /// # Errors
    /// If a file cannot be written, or is none of a result; if there is too much.
    pub fn keep(&mut self, frame: Frame) -> Result<()> {
        match frame {
            Frame::Append(name, bytes) => {
                let place = known(&name)?;
                as_sent(name == GROWING, &name)?;
                self.sizes[place] += bytes.len() as u64;
                bounded(&self.sizes, self.arrived, self.most)?;
                let file = match &mut self.growing {
                    Some(file) => file,
                    none => none.insert(self.result.folder().create(&name)?),
                };
                self.has_any = true;
                let path = self.result.path().join(name);
                file.write_all(&bytes).map_err(Error::at(&path))
            }
            Frame::Begin(name) => {
                known(&name)?;
                self.arrived = 0;
                let file = self.result.folder().nameless(OFlag::empty());
                let file = file.map_err(Error::at(&self.result.path().join(&name)))?;
                self.arriving = Some((name, file));
                Ok(())
            }
            Frame::Part(bytes) => match &mut self.arriving {
                Some((name, file)) => {
                    self.arrived += bytes.len() as u64;
                    bounded(&self.sizes, self.arrived, self.most)?;
                    let path = self.result.path().join(name);
                    file.write_all(&bytes).map_err(Error::at(&path))
                }
                None => Ok(()),
            },
            Frame::Whole => match self.arriving.take() {
                Some((name, file)) => {
                    if name == GROWING {
                        self.growing = None;
                    }
                    self.place(&name, file)?;
                    self.sizes[known(&name)?] = std::mem::take(&mut self.arrived);
                    self.has_any = true;
                    Ok(())
                }
                None => Ok(()),
            },
            Frame::Removed(name) => {
                self.sizes[known(&name)?] = 0;
                if name == GROWING {
                    self.growing = None;
                }
                self.result.folder().remove(&name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn place(&self, name: &str, mut file: File) -> Result<()> {
        let mut unfinished = self.result.folder().begin(name, Existing::Stays)?;
        let rewound = file.rewind();
        let copied = rewound.and_then(|()| io::copy(&mut file, &mut unfinished.file));
        copied.map_err(|error| unfinished.failed(error))?;
        unfinished.place()?;
        Ok(())
    }
}

/// Its place in [`FILES`]: the other machine names no other file here.
fn known(name: &str) -> Result<usize> {
    let unknown = || {
        Error::Failed(format!(
            "the other side sent a file {name:?}, which no result has"
        ))
    };
    let place = FILES.iter().position(|one| *one == name);
    place.ok_or_else(unknown)
}

/// Only one file grows: what would go into it under another name would be counted as the other's.
fn as_sent(is_so: bool, name: &str) -> Result<()> {
    let wrong = || {
        Error::Failed(format!(
            "the other side sent {name} in a way that it does not"
        ))
    };
    is_so.then_some(()).ok_or_else(wrong)
}

/// A hostile machine does not fill this one's disk.
fn bounded(sizes: &[u64], arrived: u64, most: u64) -> Result<()> {
    match sizes.iter().sum::<u64>() + arrived > most {
        true => Err(Error::Failed(format!(
            "the other side sent more than {} MiB of a result",
            most >> 20
        ))),
        false => Ok(()),
    }
}

/// Removes a folder with what is in it; tries again while what ends there still writes.
pub fn remove(folder: &Path) {
    for _ in 0..5 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(200));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_as_they_grow_and_as_they_end() {
        let (far, near) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = ResultFolder::create(near.path().join("out")).unwrap();
        let mut received = Received::into_result(folder);
        let mut sent = Sent::of(far.path().to_owned());
        let at = |name: &str| near.path().join("out").join(name);
        let mut pass = |received: &mut Received| {
            let mut names = Vec::new();
            sent.look(&mut |frame| {
                if let Frame::Append(name, _) | Frame::Begin(name) | Frame::Removed(name) = &frame {
                    names.push(name.clone());
                }
                received.keep(frame).unwrap();
            });
            names
        };
        assert!(pass(&mut received).is_empty());
        assert!(!received.has_any());
        let mut growing = File::create(far.path().join(GROWING)).unwrap();
        fs::write(far.path().join("result.json"), "{}").unwrap();
        growing
            .write_all("a,b\n".repeat(40_000).as_bytes())
            .unwrap();
        assert_eq!(
            pass(&mut received),
            [GROWING, GROWING, GROWING, "result.json"]
        );
        growing.write_all(b"1,2\n").unwrap();
        assert_eq!(pass(&mut received), [GROWING]);
        assert!(pass(&mut received).is_empty(), "nothing has changed");
        assert_eq!(fs::read_to_string(at(GROWING)).unwrap().len(), 160_004);
        assert_eq!(fs::read_to_string(at("result.json")).unwrap(), "{}");

        fs::remove_file(far.path().join(GROWING)).unwrap();
        fs::write(far.path().join("datapoints.parquet"), vec![7; 200_000]).unwrap();
        fs::write(far.path().join("new"), "{\"a\":1}").unwrap();
        fs::rename(far.path().join("new"), far.path().join("result.json")).unwrap();
        // The old one stays until the new one is there.
        assert_eq!(
            pass(&mut received),
            ["datapoints.parquet", "result.json", GROWING]
        );
        assert!(!at(GROWING).exists());
        assert_eq!(
            fs::read(at("datapoints.parquet")).unwrap(),
            vec![7; 200_000]
        );
        assert_eq!(fs::read_to_string(at("result.json")).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn another_machine_does_not_fill_this_ones_disk() {
        let near = tempfile::tempdir().unwrap();
        let folder = ResultFolder::create(near.path()).unwrap();
        let mut received = Received::into_result(folder);
        received.most = 1400;
        let mut keep = |frame| received.keep(frame).is_ok();
        let grows = |size| Frame::Append(GROWING.to_owned(), vec![7; size]);
        let begins = || Frame::Begin("result.json".to_owned());
        assert!(keep(grows(600)));
        // A file that is sent again takes the place of the one before.
        for _ in 0..3 {
            assert!(keep(begins()) && keep(Frame::Part(vec![7; 400])) && keep(Frame::Whole));
        }
        // While it arrives, both are there.
        assert!(keep(begins()) && keep(Frame::Part(vec![7; 400])));
        assert!(!keep(Frame::Part(vec![7; 1])));
        assert!(!keep(grows(1)));
        assert!(keep(Frame::Removed(GROWING.to_owned())));
        assert!(keep(grows(500)));
        // What grows counts as what it is.
        assert!(!keep(Frame::Append("result.json".to_owned(), vec![7; 1])));
        assert!(keep(Frame::Removed("trial.json".to_owned())));
        assert!(!keep(grows(501)));
    }

    #[test]
    fn another_machine_writes_no_other_file() {
        let near = tempfile::tempdir().unwrap();
        let folder = ResultFolder::create(near.path()).unwrap();
        let mut received = Received::into_result(folder);
        for name in ["../x", "/etc/x", "report.html", ""] {
            for frame in [
                Frame::Begin(name.into()),
                Frame::Append(name.into(), vec![1]),
                Frame::Removed(name.into()),
            ] {
                assert!(received.keep(frame).is_err(), "{name}");
            }
        }
        assert_eq!(fs::read_dir(near.path()).unwrap().count(), 0);
    }
}
