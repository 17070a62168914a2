//! One workload under several idle settings, interleaved and compared.
