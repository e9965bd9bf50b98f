//! Emission of scheduled loops from linalg.
