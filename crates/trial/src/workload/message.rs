//! The protocol of `trial --echo` and `trial --serve`.
//!
//! A request is answered by the same bytes, marked as an answer. A server answers nothing else: what
//! it sends is never longer than what it got, and two servers cannot be made to answer each other.

/// Mark, kind, a spare byte, size and sequence number.
pub const MIN_SIZE: usize = 16;
/// Fits into a packet of Ethernet by IPv4 and IPv6, headers and all.
pub const MAX_SIZE: usize = 1400;

/// The first eight bytes.
const MARK: [u8; 8] = *b"RVLECHO1";
const KIND: usize = 8;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;
const SIZE: std::ops::Range<usize> = 10..12;
const SEQUENCE: std::ops::Range<usize> = 12..16;

/// A request of `size` bytes, [`MIN_SIZE`] to [`MAX_SIZE`].
pub fn request(size: usize) -> Vec<u8> {
    let mut message = vec![0; size];
    message[..MARK.len()].copy_from_slice(&MARK);
    message[KIND] = REQUEST;
    message[SIZE].copy_from_slice(&(size as u16).to_be_bytes());
    message
}

/// Gives a request its number.
pub fn number(request: &mut [u8], sequence: u32) {
    request[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
}

/// Is `answer` the answer to `request`?
pub fn is_answer(answer: &[u8], request: &[u8]) -> bool {
    answer.len() == request.len()
        && answer[KIND] == ANSWER
        && answer[..KIND] == request[..KIND]
        && answer[KIND + 1..] == request[KIND + 1..]
}

/// The size of the request that begins with these [`MIN_SIZE`] bytes; `None` where it is none.
pub fn size_of_request(start: &[u8]) -> Option<usize> {
    let size = usize::from(u16::from_be_bytes(start.get(SIZE)?.try_into().ok()?));
    let is_request = start.len() >= MIN_SIZE
        && start[..MARK.len()] == MARK
        && start[KIND] == REQUEST
        && (MIN_SIZE..=MAX_SIZE).contains(&size);
    is_request.then_some(size)
}

/// Makes a request its own answer.
pub fn turn_into_answer(request: &mut [u8]) {
    request[KIND] = ANSWER;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_request_answers_only_itself() {
        let mut asked = request(64);
        number(&mut asked, 5);
        assert_eq!(size_of_request(&asked), Some(64));
        let mut answer = asked.clone();
        turn_into_answer(&mut answer);
        assert!(is_answer(&answer, &asked));
        assert!(!is_answer(&asked, &asked));
        number(&mut asked, 6);
        assert!(!is_answer(&answer, &asked));
        assert!(!is_answer(&answer[..60], &asked));
    }

    #[test]
    fn answers_and_invalid_requests_are_never_answered() {
        let mut answer = request(64);
        turn_into_answer(&mut answer);
        assert_eq!(size_of_request(&answer), None);
        assert_eq!(size_of_request(b"GET / HTTP/1.1\r\n\r\n"), None);
        assert_eq!(size_of_request(&[]), None);
        let mut long = request(64);
        long[SIZE].copy_from_slice(&2000_u16.to_be_bytes());
        assert_eq!(size_of_request(&long), None);
    }
}
