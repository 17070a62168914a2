//! The model as a program, compiled from the header that the kernel runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{str, thread};

use reveille_anticipate::Learnt;
use tempfile::TempDir;

pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model");
pub const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    pub ns: u64,
    pub early_ns: u64,
    pub late_ns: u64,
}

/// The program's answers to a list of questions.
#[derive(Default)]
pub struct Script(String);

impl Script {
    pub fn observe(&mut self, sectors: u32, ns: u64) {
        writeln!(self.0, "o {sectors} {ns}").unwrap();
    }

    pub fn predict(&mut self, sectors: u32) {
        writeln!(self.0, "p {sectors}").unwrap();
    }

    /// The answers, in order, and the model at the end.
    ///
    /// # Panics
    /// If the program was killed by a signal, which indicates undefined behaviour.
    pub fn run(mut self) -> (Vec<Option<Prediction>>, Fields) {
        self.0.push_str("m\n");
        let mut program = Command::new(compiled())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = program.stdin.take().unwrap();
        let asking = thread::spawn(move || stdin.write_all(self.0.as_bytes()));
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "the model: {}", output.status);
        asking.join().unwrap().unwrap();
        let output = str::from_utf8(&output.stdout).unwrap();
        let (answers, fields) = output.trim_end().rsplit_once('\n').unwrap_or(("", output));
        (answers.lines().map(answer).collect(), Fields::read(fields))
    }
}

fn answer(line: &str) -> Option<Prediction> {
    if line == "-" {
        return None;
    }
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
    let [ns, early_ns, late_ns] = numbers[..] else {
        panic!("not an answer: {line}");
    };
    Some(Prediction {
        ns,
        early_ns,
        late_ns,
    })
}

/// The fields of the model.
#[derive(Debug)]
pub struct Fields(Vec<(String, i64)>);

impl Fields {
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let field = |pair: &[&str]| (pair[0].to_owned(), pair[1].parse().unwrap());
        Self(words.chunks_exact(2).map(field).collect())
    }

    pub fn get(&self, name: &str) -> i64 {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.unwrap_or_else(|| panic!("no field {name}")).1
    }

    pub fn learnt(&self) -> Learnt {
        let small = |name| u32::try_from(self.get(name)).unwrap();
        let large = |name| u64::try_from(self.get(name)).unwrap();
        Learnt {
            age: small("age"),
            informed: small("informed"),
            mean_sectors: large("mean_sectors"),
            mean_ns: large("mean_ns"),
            var: large("var"),
            cov: self.get("cov"),
            early: small("early"),
            late: small("late"),
            seen_var_sectors: large("seen_var_sectors"),
            seen_var_ns: large("seen_var_ns"),
            seen_cov: self.get("seen_cov"),
        }
    }
}

/// With a trap for each fault (an overflow, signed or unsigned; a division by zero; a shift by too
/// much). Only clang can do so for unsigned numbers, and BPF needs it anyway.
fn compiled() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("model");
        let trap = [
            "-fsanitize=undefined,unsigned-integer-overflow",
            "-fsanitize-trap=all",
        ];
        if !compile("clang", &trap, &program) {
            println!("skipped: overflows in the model: there is no clang");
            assert!(compile("cc", &[], &program), "Rust links with cc");
        }
        (folder, program)
    });
    program
}

/// `false` if there is no such compiler.
fn compile(compiler: &str, more: &[&str], program: &Path) -> bool {
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(more)
        .args(["-I", HEADERS, "-o"])
        .arg(program)
        .arg(format!("{FOLDER}/program.c"))
        .output();
    let Ok(output) = output else { return false };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {said}");
    true
}
