//! The name of another machine.

use std::fmt;
use std::str::FromStr;

/// What `ssh` connects to: `HOST`, `USER@HOST`, `ssh://USER@HOST:PORT`, or a name in its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(String);

/// Longer than any name in the DNS (253) with a user and a port.
const LONGEST: usize = 512;

impl Host {
    /// As the user gave it.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Host {
    type Err = String;

    /// `ssh` itself judges the name. An option, or what is no name in any case, does not get there.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_odd = |character: char| character.is_whitespace() || character.is_control();
        match text {
            "" => Err("empty; give a host, such as user@host".to_owned()),
            _ if text.starts_with('-') => Err("a host does not begin with `-`".to_owned()),
            _ if text.contains(is_odd) => Err("a host has no spaces".to_owned()),
            _ if text.len() > LONGEST => Err("too long for a host".to_owned()),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_no_option_of_ssh() {
        for good in ["sut", "me@sut", "ssh://me@sut:2222", "me@fe80::1%eth0"] {
            assert_eq!(good.parse::<Host>().unwrap().name(), good);
        }
        let long = "x".repeat(513);
        for bad in ["", "-oProxyCommand=x", "a b", "a\nb", "a\u{1b}", &long] {
            assert!(bad.parse::<Host>().is_err(), "{bad:?}");
        }
    }
}
