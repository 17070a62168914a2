//! For C: `include/reveille_expect.h`, which has the documentation.
