//! `reveille-expect` for C: `libreveille_expect.so` and `.a`, with `include/reveille_expect.h`.

mod calls;
