//! Unit tests of the rules of the reader.
