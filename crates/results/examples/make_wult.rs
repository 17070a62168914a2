//! Makes a result as wult writes it, for benchmarks: `make_wult FOLDER [DATAPOINTS]`.
//!
//! The shape is that of a real one: 80 bytes a line, three idle
//! states by silent time, and a tail. The same arguments always give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

const DATAPOINTS: u64 = 1_000_000;
const SEED: u64 = 20_260_102;

/// Sebastiano Vigna's splitmix64: small, and good enough to draw latencies.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1).
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (folder, datapoints) = (arguments.next(), arguments.next());
    let Some(folder) = folder.filter(|folder| !folder.starts_with('-')) else {
        eprintln!("use: make_wult FOLDER [DATAPOINTS]");
        return ExitCode::from(2);
    };
    let datapoints = datapoints
        .and_then(|text| text.parse().ok())
        .unwrap_or(DATAPOINTS);
    match write(Path::new(&folder), datapoints) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path, datapoints: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(
        folder.join("info.yml"),
        "cpunum: 1\ndevdescr: Intel I210\ndevid: '0000:04:00.0'\nformat_version: '1.3'\n\
         reportid: synthetic\nresolution: 1\ntoolname: wult\ntoolver: 1.12.65\n",
    )?;
    let mut file = BufWriter::new(File::create(folder.join("datapoints.csv"))?);
    writeln!(
        file,
        "WakeLatency,SilentTime,IntrLatency,IntrOff,LDist,ReqCState,CC0%,CC1Derived%,CC1%,CC6%,\
         PC2%,PC6%,SMICnt,NMICnt"
    )?;
    let mut random = Random(SEED);
    for _ in 0..datapoints {
        let distance = 100.0 * 40_f64.powf(random.uniform());
        let silent = distance - 10.0 - random.exponential(2.0);
        let (state, base, spread) = match silent {
            silent if silent < 120.0 => ("C1", 1.8, 0.3),
            silent if silent < 600.0 => ("C1E", 6.5, 0.8),
            _ => ("C6", 35.0, 4.0),
        };
        let rare = if random.uniform() < 0.001 {
            random.exponential(40.0)
        } else {
            0.0
        };
        let wake = base + random.exponential(spread) + rare;
        let interrupt = wake + 3.0 + random.exponential(0.5);
        let deep = if state == "C6" {
            60.0 + 39.0 * random.uniform()
        } else {
            0.0
        };
        let package = deep * random.uniform();
        let shallow = 99.5 - deep;
        writeln!(
            file,
            "{wake:.8},{silent:.4},{interrupt:.8},1,{distance:.3},{state},0.50,{:.2},{:.2},\
             {deep:.2},{:.2},{package:.2},0,0",
            shallow * 0.2,
            shallow * 0.8,
            (deep - package) * 0.5,
        )?;
    }
    file.flush()
}
