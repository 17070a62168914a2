//! The verifier accepts the model, and the kernel computes the same as this machine's compiler. It
//! needs root and BPF; otherwise the test reports that it was skipped and why.

use std::path::Path;
use std::process::Command;

use fastrand::Rng;
use libbpf_rs::{ObjectBuilder, ProgramInput};

use super::program::{FOLDER, HEADERS, Prediction, Script};
use super::{SIZES, linear, normal, series};

const TEST: &str = "the_kernel_predicts_the_same_as_user_space";

fn compile(object: &Path) -> Result<(), String> {
    let status = Command::new("clang")
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror",
        ])
        .arg(format!(
            "-I/usr/include/{}-linux-gnu",
            std::env::consts::ARCH
        ))
        .args(["-I", HEADERS, "-c", "-o"])
        .arg(object)
        .arg(format!("{FOLDER}/model.bpf.c"))
        .status()
        .map_err(|error| format!("clang: {error}"))?;
    assert!(status.success(), "clang does not compile the model for BPF");
    Ok(())
}

/// `struct step`
fn step(observed: (u32, u64), predicted: u32) -> [u8; 40] {
    let mut step = [0; 40];
    step[..4].copy_from_slice(&observed.0.to_ne_bytes());
    step[4..8].copy_from_slice(&predicted.to_ne_bytes());
    step[8..16].copy_from_slice(&observed.1.to_ne_bytes());
    step
}

fn prediction(step: &[u8; 40]) -> Option<Prediction> {
    let number = |at: usize| u64::from_ne_bytes(step[at..at + 8].try_into().unwrap());
    (number(16) > 0).then(|| Prediction {
        ns: number(16),
        early_ns: number(24),
        late_ns: number(32),
    })
}

#[test]
fn the_kernel_predicts_the_same_as_user_space() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("model.bpf.o");
    if let Err(why) = compile(&object) {
        println!("skipped: {TEST}: {why}");
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: {TEST}: loading BPF programs takes root");
        return;
    }
    libbpf_rs::set_print(None);
    let open = ObjectBuilder::default().open_file(&object).unwrap();
    let object = match open.load() {
        Ok(object) => object,
        // For root EACCES or EINVAL means that the verifier rejects the program.
        Err(error) if reveille_kernel::bpf::KernelBtf::read().is_err() => {
            println!("skipped: {TEST}: {error}");
            return;
        }
        Err(error) => panic!("the kernel refuses the model: {error}"),
    };
    let program = object.progs_mut().next().unwrap();

    // A device that jumps, with invalid values in between.
    let mut rng = Rng::with_seed(13);
    let noisy = |scale: f64| {
        move |rng: &mut Rng, size| match rng.u32(..50) {
            0 => 5e6,
            _ => scale * linear(size) * (0.1 * normal(rng)).exp(),
        }
    };
    let mut ios = series(&mut rng, 1500, &SIZES, noisy(1.0));
    ios.extend([(0, 7), (8, 0), (8, u64::MAX), (65_536, 1 << 34), (1, 1)]);
    ios.extend(series(&mut rng, 500, &SIZES, noisy(4.0)));

    let mut script = Script::default();
    let mut kernel = Vec::new();
    for (at, &(sectors, ns)) in ios.iter().enumerate() {
        let asked = SIZES[at % SIZES.len()];
        script.observe(sectors, ns);
        script.predict(asked);
        let mut step = step((sectors, ns), asked);
        let input = ProgramInput {
            context_in: Some(&mut step),
            ..ProgramInput::default()
        };
        let output = program.test_run(input).unwrap();
        assert_eq!(output.return_value, 0);
        kernel.push(prediction(&step));
    }
    let (predicted, fields) = script.run();
    assert!(predicted.iter().flatten().count() > 1900);
    assert!(fields.get("changes") > 0, "{fields:?}");
    for (at, (predicted, kernel)) in predicted.iter().zip(&kernel).enumerate() {
        assert_eq!(predicted, kernel, "after I/O {at}");
    }
}
