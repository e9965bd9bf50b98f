//! Loop level to position-independent x86-64 objects.
