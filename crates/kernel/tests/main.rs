//! Settings under several owners, and machines as files.

mod owners;
mod parsers;
mod recorded;
