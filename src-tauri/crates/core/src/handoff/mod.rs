//! The handoff text (B1–B9): budget, items, selection, rendering. Sizes first, bodies only of what was chosen (H3).

pub mod items;
