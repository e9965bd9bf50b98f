//! From graph ops to linalg on tensors.
