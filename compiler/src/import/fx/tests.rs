//! The importer on graphs written by hand.
