use reveille_resume::analysis::{Input, Source};
use std::path::PathBuf;
pub fn read(logs: &[PathBuf], names: &[String]) -> anyhow::Result<Vec<Input>> {
    logs.iter()
        .enumerate()
        .map(|(i, p)| {
            let cycles = serde_json::from_slice(&std::fs::read(p)?)?;
            Ok(Input {
                name: names.get(i).cloned().unwrap_or(p.display().to_string()),
                source: Source::default(),
                cycles,
                notes: vec![],
            })
        })
        .collect()
}
