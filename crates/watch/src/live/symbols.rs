//! Names of the kernel's functions by their addresses: /proc/kallsyms.

use reveille_kernel::Root;

/// The kernel's functions by address. One string holds all names: there are a hundred thousand.
pub struct Symbols {
    /// Address, and offset of the name in `names`; ascending.
    functions: Vec<(u64, u32)>,
    names: String,
}

impl Symbols {
    /// `None` if the file is missing, or addresses are hidden from this user (`kernel.kptr_restrict`).
    pub fn read(root: &Root) -> Option<Self> {
        let symbols = Self::parse(&root.text("proc/kallsyms")?);
        (!symbols.functions.is_empty()).then_some(symbols)
    }

    /// Lines such as `ffffffff81000000 t tick_nohz_handler`; a module's name may follow.
    fn parse(text: &str) -> Self {
        let mut functions = Vec::new();
        let mut names = String::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            // Hidden addresses are zero.
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let Ok(start) = u32::try_from(names.len()) else {
                break;
            };
            functions.push((address, start));
            names.push_str(name);
            names.push('\n');
        }
        functions.sort_unstable();
        Self { functions, names }
    }

    fn name_at(&self, start: u32) -> &str {
        self.names[start as usize..]
            .split('\n')
            .next()
            .unwrap_or("")
    }

    /// The function that begins at the address or last before it.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|&(start, _)| start <= address);
        let &(_, start) = self.functions.get(after.checked_sub(1)?)?;
        Some(self.name_at(start))
    }

    /// The address of a function; `None` for a name that is missing or ambiguous.
    pub fn address(&self, name: &str) -> Option<u64> {
        let mut found = self
            .functions
            .iter()
            .filter(|&&(_, start)| self.name_at(start) == name);
        let &(address, _) = found.next()?;
        found.next().is_none().then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_function_has_its_name() {
        let symbols = Symbols::parse(
            "ffffffff81000200 T second\nffffffff81000100 t first\nffffffff81000180 d data\n\
             0000000000000000 T hidden\nffffffff81000300 t twice\t[module]\n\
             ffffffff81000400 t twice\nnonsense\n",
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_0100), Some("first"));
        assert_eq!(symbols.name(0xffff_ffff_8100_01ff), Some("first"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0300), Some("twice"));
        assert_eq!(symbols.name(1), None);
        assert_eq!(symbols.address("second"), Some(0xffff_ffff_8100_0200));
        for name in ["hidden", "data", "twice", "fir"] {
            assert_eq!(symbols.address(name), None, "{name}");
        }
    }
}
