//! A process's kernel resources.

use libbpf_rs::query::ProgInfoIter;

/// The IDs of a process's BPF programs; none if it is gone.
pub fn programs_of(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let descriptors = folder
        .into_iter()
        .flatten()
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let number = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        line.trim().parse().ok()
    };
    descriptors.filter_map(number).collect()
}

/// Is one of the programs still in the kernel?
pub fn is_loaded(programs: &[u32]) -> bool {
    ProgInfoIter::default().any(|program| programs.contains(&program.id))
}
