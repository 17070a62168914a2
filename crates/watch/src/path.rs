//! Where the time of a packet goes that reaches this machine.
