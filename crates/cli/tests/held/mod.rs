//! What a process holds in the kernel.

use libbpf_rs::query::ProgInfoIter;

/// The BPF programs that a process holds, by their numbers; none where it is gone.
pub fn programs_of(pid: u32) -> Vec<u32> {
    let held = std::fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let told = held
        .into_iter()
        .flatten()
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let number = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        line.trim().parse().ok()
    };
    told.filter_map(number).collect()
}

/// Is one of the programs in the kernel still?
pub fn is_loaded(programs: &[u32]) -> bool {
    ProgInfoIter::default().any(|program| programs.contains(&program.id))
}
