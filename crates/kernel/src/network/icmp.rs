//! Echo requests and replies of ICMP (RFC 792) and ICMPv6 (RFC 4443).

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// ICMP.
    V4,
    /// ICMPv6.
    V6,
}

/// Type, code, checksum, identifier and sequence number.
pub const HEADER: usize = 8;
/// Bytes of the key that identifies the reply to a request.
pub const KEY: usize = 8;

impl Version {
    fn request_type(self) -> u8 {
        match self {
            Self::V4 => 8,
            Self::V6 => 128,
        }
    }

    fn reply_type(self) -> u8 {
        match self {
            Self::V4 => 0,
            Self::V6 => 129,
        }
    }
}

/// Makes `packet` an echo request with that sequence number; its payload begins with `key`.
///
/// The checksum of ICMPv6 covers addresses that only the kernel knows, which fills it in; so it
/// does for both on a datagram socket.
///
/// # Panics
/// Where `packet` has no room for the header and the key.
pub fn write_request(packet: &mut [u8], version: Version, sequence: u16, key: [u8; KEY]) {
    packet[0] = version.request_type();
    packet[1..4].fill(0);
    // On a datagram socket the kernel writes its own identifier here; on a raw one the key identifies
    // the reply.
    packet[4..6].copy_from_slice(&key[..2]);
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    packet[HEADER..HEADER + KEY].copy_from_slice(&key);
    if version == Version::V4 {
        let sum = checksum(packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Is `packet`, from the ICMP header on, the reply to the request with that number and key?
pub fn is_reply(packet: &[u8], version: Version, sequence: u16, key: [u8; KEY]) -> bool {
    packet.len() >= HEADER + KEY
        && packet[0] == version.reply_type()
        && packet[1] == 0
        && packet[6..8] == sequence.to_be_bytes()
        && packet[HEADER..HEADER + KEY] == key
}

/// The packet without the IPv4 header that a raw socket leaves before it; `None` where there is no
/// such header.
pub fn after_ipv4_header(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let length = usize::from(first & 0x0f) * 4;
    (first >> 4 == 4 && length >= 20).then(|| packet.get(length..))?
}

/// The Internet checksum (RFC 1071): the one's complement of the one's complement sum of 16-bit
/// words.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; KEY] = *b"our key!";

    fn reply_to(version: Version, sequence: u16, key: [u8; KEY]) -> Vec<u8> {
        let mut packet = vec![0; 64];
        write_request(&mut packet, version, sequence, key);
        packet[0] = version.reply_type();
        packet
    }

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // RFC 1071, section 3: these words sum to ddf2.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&words), !0xddf2);
        assert_eq!(checksum(&[0xff]), !0xff00);
    }

    #[test]
    fn a_packet_with_its_checksum_sums_to_zero() {
        let mut packet = vec![0xa5; 65];
        write_request(&mut packet, Version::V4, 7, OURS);
        assert_eq!(checksum(&packet), 0);
        assert_eq!(packet[0], 8);
    }

    #[test]
    fn only_the_reply_to_this_request_is_accepted() {
        for version in [Version::V4, Version::V6] {
            let reply = reply_to(version, 7, OURS);
            assert!(is_reply(&reply, version, 7, OURS));
            assert!(!is_reply(&reply, version, 8, OURS));
            assert!(!is_reply(&reply, version, 7, *b"another!"));
            assert!(!is_reply(&reply[..12], version, 7, OURS));
            let mut request = reply.clone();
            request[0] = version.request_type();
            assert!(!is_reply(&request, version, 7, OURS));
        }
        assert!(!is_reply(
            &reply_to(Version::V4, 7, OURS),
            Version::V6,
            7,
            OURS
        ));
    }

    #[test]
    fn the_ipv4_header_has_its_stated_length() {
        let mut packet = vec![0; 24 + 3];
        packet[0] = 0x46; // version 4, six words
        assert_eq!(after_ipv4_header(&packet).map(<[u8]>::len), Some(3));
        assert_eq!(after_ipv4_header(&[0x45]), None);
        assert_eq!(after_ipv4_header(&[0x60; 40]), None);
        assert_eq!(after_ipv4_header(&[0x41; 40]), None);
        assert_eq!(after_ipv4_header(&[]), None);
    }
}
