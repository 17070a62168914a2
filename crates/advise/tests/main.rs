//! Advice: decisions by hand and by a second method, and how they are shown.

mod decisions;
mod drawn_results;
mod forms;
mod held;
mod made_up;
mod shown;
mod tables;
