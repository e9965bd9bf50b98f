//! Loop level to PTX.
