//! The dialects as a whole: parsing, inference, folding, types.

mod ir;
