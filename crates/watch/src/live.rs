//! What sleeps and what wakes it, between two readings.
