//! Pages on what commands keep: each becomes one HTML page that needs nothing else.

mod compared;

pub use reveille_show::page::is_page;
