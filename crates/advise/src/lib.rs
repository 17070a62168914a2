//! Which idle states a latency budget allows, by what was measured.
