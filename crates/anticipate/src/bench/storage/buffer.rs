//! Memory that direct I/O reads into and writes from.

/// Buffers begin at a multiple of this: direct I/O asks for no more on any disk.
const ALIGNMENT: usize = 4096;

/// Random bytes, aligned for direct I/O.
pub struct Buffer {
    room: Vec<u8>,
    begin: usize,
    size: usize,
}

impl Buffer {
    pub fn new(size: usize) -> Self {
        let mut room = vec![0; size + ALIGNMENT];
        // A device may not store bytes that are all alike.
        fastrand::Rng::with_seed(size as u64).fill(&mut room);
        let begin = room.as_ptr().align_offset(ALIGNMENT);
        Self { room, begin, size }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.room[self.begin..self.begin + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_for_direct_io() {
        for size in [512, 4096, 5000] {
            let mut buffer = Buffer::new(size);
            let bytes = buffer.bytes();
            assert_eq!(bytes.len(), size);
            assert_eq!(bytes.as_ptr() as usize % ALIGNMENT, 0);
        }
    }
}
