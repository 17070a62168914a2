//! Pages on what commands keep: each becomes one HTML page that needs nothing else.

mod compared;
pub mod trial;

pub use reveille_show::page::is_page;
