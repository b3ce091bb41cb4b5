//! Whole-system tests, one binary.
