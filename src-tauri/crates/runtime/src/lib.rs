//! Agents as processes: one trait, one folder per adapter.
