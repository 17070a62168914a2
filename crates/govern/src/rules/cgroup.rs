//! Control groups (cgroup2) as a rule's condition.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The extended attribute of a cgroup's folder that asks for a latency: `50us`.
pub const ATTRIBUTE: &str = "user.reveille.latency_us";

/// Of a pattern: [`Places`] has a bit for each, and one more.
const PARTS_MAX: usize = 31;

/// Cgroups in which something runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Cgroup {
    /// Which ones.
    pub path: Glob,
    /// Only those with [`ATTRIBUTE`], which is the latency.
    pub xattr: bool,
}

impl std::fmt::Display for Cgroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a task in cgroup {}", self.path)?;
        match self.xattr {
            true => write!(f, " with {ATTRIBUTE}"),
            false => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Cgroup {
    /// `"PATTERN"`, or a table with `path`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            path: Glob,
            #[serde(default)]
            xattr: bool,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Cgroup;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a pattern, or a table with `path`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Cgroup, E> {
                let path = Glob::parse(text).map_err(E::custom)?;
                Ok(Cgroup { path, xattr: false })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cgroup, A::Error> {
                let Table { path, xattr } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Cgroup { path, xattr })
            }
        }
        from.deserialize_any(Either)
    }
}

/// A pattern of paths below cgroup2's root: in a name `*` is any text and `?` a character; `**` is any
/// number of names, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Glob {
    text: String,
    parts: Vec<String>,
}

/// Where in a pattern a path has come to: a bit for each part that may be next, and one for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places(u32);

impl Glob {
    fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
        let has = |wrong: fn(&String) -> bool| parts.iter().any(wrong);
        if text.starts_with('/') {
            return Err("a cgroup's path begins below cgroup2's root, without `/`".into());
        }
        if has(|part| part.is_empty() || part == "." || part == "..") {
            return Err("not the path of a cgroup, such as \"system.slice/nginx*.service\"".into());
        }
        if has(|part| part.contains("**") && part != "**") {
            return Err("`**` stands for whole names: write it between slashes".into());
        }
        if text.contains(['[', ']', '{', '}']) || text.contains(char::is_control) {
            return Err(
                "a pattern has `*`, `?` and `**`, no brackets or control characters".into(),
            );
        }
        if parts.len() > PARTS_MAX {
            return Err(format!("more than {PARTS_MAX} names"));
        }
        let text = text.to_owned();
        Ok(Self { text, parts })
    }

    /// At cgroup2's root.
    pub fn start(&self) -> Places {
        self.with_skipped(1)
    }

    /// Below, in the folder of that name.
    pub fn below(&self, at: Places, name: &OsStr) -> Places {
        let mut next = 0;
        for (nth, part) in self.parts.iter().enumerate() {
            if at.0 & 1 << nth == 0 {
                continue;
            }
            match part.as_str() {
                "**" => next |= 1 << nth,
                part if is_like(name.as_bytes(), part.as_bytes()) => next |= 1 << (nth + 1),
                _ => {}
            }
        }
        self.with_skipped(next)
    }

    /// Is the path one that the pattern stands for?
    pub fn is_match(&self, at: Places) -> bool {
        at.0 & 1 << self.parts.len() != 0
    }

    /// Could there be such paths below?
    pub fn goes_on(&self, at: Places) -> bool {
        at.0 & ((1 << self.parts.len()) - 1) != 0
    }

    /// `**` may stand for no name.
    fn with_skipped(&self, mut places: u32) -> Places {
        for (nth, part) in self.parts.iter().enumerate() {
            if places & 1 << nth != 0 && part == "**" {
                places |= 1 << (nth + 1);
            }
        }
        Places(places)
    }
}

/// Is the name like the part of a pattern? The last `*` takes more where what follows does not fit, so the
/// time is at most the product of both lengths.
fn is_like(name: &[u8], part: &[u8]) -> bool {
    let (mut n, mut p) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match part.get(p) {
            Some(b'*') => {
                star = Some((n, p));
                p += 1;
            }
            Some(b'?') => {
                n += 1;
                // The rest of a character of several bytes.
                while name.get(n).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    n += 1;
                }
                p += 1;
            }
            Some(byte) if *byte == name[n] => (n, p) = (n + 1, p + 1),
            _ => match star {
                Some((from, at)) => {
                    star = Some((from + 1, at));
                    (n, p) = (from + 1, at + 1);
                }
                None => return false,
            },
        }
    }
    part[p..].iter().all(|byte| *byte == b'*')
}

impl std::fmt::Display for Glob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, path: &str) -> bool {
        let glob = Glob::parse(pattern).unwrap();
        let names = path.split('/').map(OsStr::new);
        let at = names.fold(glob.start(), |at, name| glob.below(at, name));
        glob.is_match(at)
    }

    #[test]
    fn stars_stay_within_a_name_and_two_go_beyond_it() {
        for (pattern, path, expected) in [
            (
                "system.slice/nginx*.service",
                "system.slice/nginx.service",
                true,
            ),
            (
                "system.slice/nginx*.service",
                "system.slice/nginx@a.service",
                true,
            ),
            (
                "system.slice/nginx*.service",
                "system.slice/nginx/a.service",
                false,
            ),
            ("system.slice/nginx*.service", "system.slice", false),
            ("*", "a", true),
            ("*", "a/b", false),
            ("a?c", "abc", true),
            ("a?c", "aµc", true),
            ("a?c", "ac", false),
            ("**", "a/b/c", true),
            ("a/**", "a", true),
            ("a/**", "a/b/c", true),
            ("a/**", "b/a", false),
            ("**/b", "b", true),
            ("**/b", "a/c/b", true),
            ("**/b", "a/b/c", false),
            ("a/**/d/*", "a/b/d/c", true),
            ("a/**/d/*", "a/d", false),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxa", false),
        ] {
            assert_eq!(is_match(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn only_folders_on_the_way_go_on() {
        let glob = Glob::parse("a/b*").unwrap();
        let a = glob.below(glob.start(), OsStr::new("a"));
        assert!(glob.goes_on(glob.start()) && glob.goes_on(a) && !glob.is_match(a));
        let b = glob.below(a, OsStr::new("bc"));
        assert!(glob.is_match(b) && !glob.goes_on(b));
        let other = glob.below(glob.start(), OsStr::new("c"));
        assert!(!glob.goes_on(other) && !glob.is_match(other));
    }
}
