//! What waking costs a workload.
