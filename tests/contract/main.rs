//! Every adapter against the same scenarios.
