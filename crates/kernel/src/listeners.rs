//! The processes that listen at an address of this computer, or at a Unix socket, in any of its network namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::Root;

/// `st` of a listening socket in /proc/net/tcp: TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: &str = "0A";
/// Of one that is connected: TCP_ESTABLISHED.
const ESTABLISHED: &str = "01";

/// The processes that serve that TCP address, in order, as far as this user may see them: those that have connections to it,
/// or else those that have a socket listening there. Empty for an address of another computer, and for one that is translated
/// (NAT) on its way.
pub fn of(root: &Root, address: SocketAddr) -> Vec<u32> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let mut found = BTreeSet::new();
    for (own, processes) in namespaces(root) {
        let of = |file: &str| {
            let text = root.text(&format!("proc/{}/net/{file}", processes[0]));
            text.unwrap_or_default()
        };
        let is_here = match address.ip() {
            ip if ip.is_loopback() || ip.is_unspecified() => own,
            IpAddr::V4(ip) => has_v4(&of("fib_trie"), ip),
            IpAddr::V6(ip) => has_v6(&of("if_inet6"), ip),
        };
        if !is_here {
            continue;
        }
        let tables = [of("tcp"), of("tcp6")];
        let all = |state: &str| {
            let of_table = |table: &String| sockets(table, address, state);
            tables.iter().flat_map(of_table).collect::<BTreeSet<_>>()
        };
        // Others may hold the listening socket, too: who started the server, or what else that one started.
        let mut sockets = all(ESTABLISHED);
        if sockets.is_empty() {
            sockets = all(LISTEN);
        }
        if !sockets.is_empty() {
            let has_one = |process: &&u32| has_one(root, **process, &sockets);
            found.extend(processes.iter().filter(has_one));
        }
    }
    found.into_iter().collect()
}

/// The processes that serve the Unix socket of that path, as it was bound; else as [`of`]. Containers may have others of the
/// same name: they count only if this process's network namespace has none.
pub fn of_path(root: &Root, path: &Path) -> Vec<u32> {
    let mut found = BTreeSet::new();
    let mut all = namespaces(root);
    all.sort_by_key(|(own, _)| !own);
    for (own, processes) in all {
        let table = root.text(&format!("proc/{}/net/unix", processes[0]));
        let table = table.unwrap_or_default();
        let mut sockets = sockets_at(&table, path, false);
        if sockets.is_empty() {
            sockets = sockets_at(&table, path, true);
        }
        if !sockets.is_empty() {
            let has_one = |process: &&u32| has_one(root, **process, &sockets);
            found.extend(processes.iter().filter(has_one));
        }
        if own && !found.is_empty() {
            break;
        }
    }
    found.into_iter().collect()
}

/// The inodes of the sockets of that path, by /proc/net/unix: those that listen, or those that are connected. A connection
/// has the path at the server's end only.
fn sockets_at(table: &str, path: &Path, listens: bool) -> BTreeSet<String> {
    /// `Flags` of a socket that listens: __SO_ACCEPTCON, include/linux/net.h.
    const LISTENS: u32 = 1 << 16;
    /// `St` of one that is connected: SS_CONNECTED, include/uapi/linux/net.h.
    const CONNECTED: &str = "03";
    let found = |line: &str| {
        let mut fields = line.splitn(7, char::is_whitespace);
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let (state, rest) = (fields.nth(1)?, fields.next()?);
        // The inode has a width.
        let (inode, at) = rest.trim_start().split_once(' ')?;
        let is_one = match listens {
            true => flags & LISTENS != 0,
            false => state == CONNECTED,
        };
        (is_one && Path::new(at) == path).then(|| inode.to_owned())
    };
    table.lines().filter_map(found).collect()
}

/// The processes of each network namespace; true: it is this process's.
fn namespaces(root: &Root) -> Vec<(bool, Vec<u32>)> {
    let link = |process: &str| fs::read_link(root.path(&format!("proc/{process}/ns/net"))).ok();
    let own = link("self");
    let mut all: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for name in root.names("proc").unwrap_or_default() {
        let Ok(process) = name.parse() else { continue };
        // Of kernel threads, and of processes that this user may not see, there is none.
        if let Some(namespace) = link(&name) {
            all.entry(namespace).or_default().push(process);
        }
    }
    let all = all.into_iter();
    all.map(|(namespace, processes)| (Some(namespace) == own, processes))
        .collect()
}

/// Has a namespace that IPv4 address, by its `fib_trie`: an address, and in one of the lines below it `host LOCAL`?
fn has_v4(trie: &str, ip: Ipv4Addr) -> bool {
    let leaf = format!("|-- {ip}");
    let mut lines = trie.lines().map(str::trim);
    while lines.any(|line| line == leaf) {
        let mut below = lines.clone().take_while(|line| line.starts_with('/'));
        if below.any(|line| line.ends_with("host LOCAL")) {
            return true;
        }
    }
    false
}

/// Has a namespace that IPv6 address, by its `if_inet6`?
fn has_v6(addresses: &str, ip: Ipv6Addr) -> bool {
    let hex: String = ip
        .octets()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    addresses.lines().any(|line| line.starts_with(&hex))
}

/// The inodes of the sockets of that address and state, by /proc/net/tcp or tcp6; those that listen at every address, too.
fn sockets(table: &str, address: SocketAddr, wanted: &str) -> Vec<String> {
    let found = |line: &str| {
        let mut fields = line.split_whitespace();
        let (ip, port) = fields.nth(1)?.split_once(':')?;
        let (state, inode) = (fields.nth(1)?, fields.nth(5)?);
        let is_port = u16::from_str_radix(port, 16) == Ok(address.port());
        let ip = self::ip(ip)?;
        let is_every = ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4());
        // Without an inode nobody has taken the connection yet.
        let is_one = state == wanted && is_port && inode != "0";
        (is_one && (is_every || ip == address.ip())).then(|| inode.to_owned())
    };
    table.lines().filter_map(found).collect()
}

/// As the kernel prints it: words of 32 bits in this machine's order.
fn ip(hex: &str) -> Option<IpAddr> {
    let words = hex.len() / 8;
    let mut bytes = Vec::new();
    for nth in 0..words {
        let word = u32::from_str_radix(hex.get(8 * nth..8 * nth + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    match words {
        1 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        4 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

/// Has a process one of these sockets open?
fn has_one(root: &Root, process: u32, sockets: &BTreeSet<String>) -> bool {
    let open = fs::read_dir(root.path(&format!("proc/{process}/fd")));
    let links = open.into_iter().flatten().flatten();
    links
        .filter_map(|one| fs::read_link(one.path()).ok())
        .any(|link| {
            let inode = socket(&link);
            inode.is_some_and(|inode| sockets.contains(inode))
        })
}

fn socket(link: &Path) -> Option<&str> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A process that inherits the socket.
    fn holder(listener: &TcpListener) -> std::process::Child {
        let copy = std::os::fd::AsFd::as_fd(listener)
            .try_clone_to_owned()
            .unwrap();
        std::process::Command::new("sleep")
            .arg("1000")
            .stdin(copy)
            .spawn()
            .unwrap()
    }

    #[test]
    fn who_listens_is_found() {
        let root = Root::default();
        let this = std::process::id();
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else {
                println!("skipped: who_listens_is_found: no {at}");
                continue;
            };
            let mut address = listener.local_addr().unwrap();
            assert_eq!(of(&root, address), [this], "{at}");
            let port = address.port();
            if address.ip().is_unspecified() {
                // Every address, in both families where the socket has both.
                assert_eq!(of(&root, ([127, 0, 0, 1], port).into()), [this], "{at}");
            }
            // A child that has only the listening socket serves nobody once somebody is connected.
            let mut child = holder(&listener);
            assert_eq!(of(&root, address).len(), 2, "{at}");
            let mut to = address;
            if to.ip().is_unspecified() {
                to.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            let client = std::net::TcpStream::connect(to).unwrap();
            let (server, _) = listener.accept().unwrap();
            if to == address {
                assert_eq!(of(&root, to), [this], "{at}");
            }
            drop((client, server));
            child.kill().unwrap();
            child.wait().unwrap();
            drop(listener);
            assert!(of(&root, address).is_empty(), "{at}");
            address.set_port(port);
        }
        // Another computer's.
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(of(&root, ([192, 0, 2, 1], port).into()).is_empty());
    }

    #[test]
    fn who_serves_a_unix_socket_is_found() {
        let root = Root::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket");
        assert!(of_path(&root, &path).is_empty());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let copy = std::os::fd::AsFd::as_fd(&listener)
            .try_clone_to_owned()
            .unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .stdin(copy)
            .spawn()
            .unwrap();
        let [this, other] = [std::process::id(), child.id()];
        let listening = of_path(&root, &path);
        let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        let serving = of_path(&root, &path);
        drop((client, server));
        child.kill().unwrap();
        child.wait().unwrap();
        // Children that other tests start have all of this process for a moment.
        let has = |all: &[u32]| [this, other].map(|one| all.contains(&one));
        assert_eq!(
            (has(&listening), has(&serving)),
            ([true, true], [true, false])
        );
    }

    #[test]
    fn a_namespace_has_its_own_addresses() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.2\n        \
                    /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        let has = |ip: [u8; 4]| has_v4(trie, ip.into());
        assert!(
            has([10, 0, 0, 2])
                && !has([10, 0, 0, 0])
                && !has([10, 0, 0, 255])
                && !has([10, 0, 0, 1])
        );
        let v6 = "fe800000000000000000000000000001 02 40 20 80     eth0\n";
        assert!(has_v6(v6, "fe80::1".parse().unwrap()) && !has_v6(v6, "fe80::2".parse().unwrap()));
    }

    #[test]
    fn a_table_of_sockets_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   \
                     1: 0100007F:1F90 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1\n";
        let of = |address: &str, state| sockets(table, address.parse().unwrap(), state);
        if cfg!(target_endian = "little") {
            assert_eq!(of("127.0.0.1:8080", LISTEN), ["4711"]);
            assert_eq!(of("127.0.0.1:8080", ESTABLISHED), ["4712"]);
        }
        assert!(of("127.0.0.1:8081", LISTEN).is_empty() && of("10.0.0.1:8080", LISTEN).is_empty());
        let every = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0";
        let of = |address: &str| sockets(every, address.parse().unwrap(), LISTEN);
        assert_eq!(of("127.0.0.1:8080"), ["4713"]);
        assert!(of("[::1]:8080").is_empty());
    }
}
