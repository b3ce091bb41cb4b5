//! Whole-system tests, one binary.

mod mcp;
