//! /proc/cpuinfo: blocks of `key : value`, whose keys differ between architectures.

/// One block that begins with `processor : N`. What follows the last processor's block on some
/// architectures (`Hardware`, `Model` on ARM) is part of the last one here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Processor<'a> {
    pub number: u32,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Processor<'a> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        let (_, value) = self.fields.iter().find(|(name, _)| *name == key)?;
        (!value.is_empty()).then_some(value)
    }

    /// The value of a key whose value is a number.
    pub fn number_of(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }

    /// `flags` (x86), `Features` (ARM).
    pub fn has_flag(&self, flag: &str) -> bool {
        let flags = self.get("flags").or_else(|| self.get("Features"));
        flags.is_some_and(|flags| flags.split_whitespace().any(|name| name == flag))
    }

    /// What the CPU calls itself: x86 and most have `model name`, POWER `cpu`, RISC-V `uarch`; ARM
    /// gives numbers only.
    pub fn model(&self) -> Option<String> {
        let named = ["model name", "cpu model", "cpu", "uarch"];
        if let Some(name) = named.iter().find_map(|key| self.get(key)) {
            let name = name.replace(char::is_control, " ");
            return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let (implementer, part) = (self.get("CPU implementer")?, self.get("CPU part")?);
        Some(format!("ARM implementer {implementer} part {part}"))
    }
}

/// The processors of a cpuinfo text, in its order; empty for what is no such text.
pub(crate) fn parse(text: &str) -> Vec<Processor<'_>> {
    let mut processors: Vec<Processor> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if key == "processor"
            && let Ok(number) = value.parse()
        {
            let fields = Vec::new();
            processors.push(Processor { number, fields });
        } else if let Some(processor) = processors.last_mut() {
            processor.fields.push((key, value));
        }
    }
    processors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architectures_keys_give_a_model() {
        let x86 = "processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\nflags\t\t: fpu tsc\n\nprocessor\t: 1\n";
        let processors = parse(x86);
        assert_eq!(processors.len(), 2);
        assert_eq!(processors[0].model().as_deref(), Some("Some CPU @ 2 GHz"));
        assert!(processors[0].has_flag("tsc") && !processors[0].has_flag("ts"));
        assert_eq!(processors[1].model(), None);
        let arm = parse("processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
        assert_eq!(
            arm[0].model().as_deref(),
            Some("ARM implementer 0x41 part 0xd0c")
        );
        let power = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n";
        assert_eq!(
            parse(power)[0].model().as_deref(),
            Some("POWER9, altivec supported")
        );
    }

    #[test]
    fn other_text_has_no_processors() {
        assert!(parse("").is_empty());
        assert!(parse(":::\nprocessor: x\nmodel name: y\n\0").is_empty());
    }

    #[test]
    fn a_value_is_a_number_or_unknown() {
        let processors = parse("processor : 0\ncore id : 7\nphysical id : one\n");
        let of = |key: &str| processors[0].number_of(key);
        assert_eq!(
            (of("core id"), of("physical id"), of("die")),
            (Some(7), None, None)
        );
    }
}
