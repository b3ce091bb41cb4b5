//! The rules, pure: no disk, clock, processes or randomness.
