//! A reverse proxy that holds requests and releases them in bursts, so that the server behind it sleeps in between.

mod guard;
mod queue;
