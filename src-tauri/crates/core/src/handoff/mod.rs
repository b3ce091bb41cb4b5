//! The handoff text (B1–B9): budget, items, selection, rendering. Sizes first, bodies only of what was chosen (H3).

pub mod budget;
pub mod fence;
pub mod harmless;
pub mod items;
#[cfg(any(test, feature = "naive"))]
pub mod plain;
pub mod render;
pub mod select;

#[cfg(test)]
mod tests;
