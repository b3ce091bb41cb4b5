//! The figures of a nearly full context (G1): which window counts, where the line is, and whether it is crossed.

use serde::{Deserialize, Serialize};

/// When a session is relieved (G1). Figures in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Off: no warning, no changeover; the CLI compacts itself as it likes.
    pub enabled: bool,
    /// The user's own figure for the window; goes before every other.
    #[ts(type = "number | null")]
    pub window: Option<u64>,
    /// What is left free above the line.
    #[ts(type = "number")]
    pub headroom: u64,
    /// Sessions of one provider in one thread that may follow each other without one turn that ends below the line (G10).
    pub max_generations: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { enabled: true, window: None, headroom: 50_000, max_generations: 8 }
    }
}

/// Where the lines are for one window, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub struct Lines {
    /// From here on the session is relieved.
    #[ts(type = "number")]
    pub at: u64,
    /// From here on the user is warned, once per generation (G4).
    #[ts(type = "number")]
    pub warning: u64,
}

/// How a context stands to the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// Below both.
    Below,
    /// At the warning line or above.
    Near,
    /// At the line or above.
    Crossed,
}

impl Lines {
    /// The lines of a window: the line at `max(10,000, window − headroom)`, the warning at `max(1,000, line − 20,000)`.
    pub fn of(window: u64, headroom: u64) -> Self {
        let at = window.saturating_sub(headroom).max(10_000);
        Self { at, warning: at.saturating_sub(20_000).max(1_000) }
    }

    /// How a context of `used` tokens stands.
    pub fn standing(self, used: u64) -> Standing {
        if used >= self.at {
            Standing::Crossed
        } else if used >= self.warning {
            Standing::Near
        } else {
            Standing::Below
        }
    }
}

/// Where a window's figure comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ts_rs::TS)]
#[serde(rename_all = "camelCase")]
pub enum WindowSource {
    /// `--window`, or the user's figure for the model.
    User,
    /// Known for that model: a catalogue, or an earlier run's report.
    Known,
    /// What the runtime reports.
    Reported,
    /// Guessed from names.
    Guess,
}

/// What is known of a window. Figures in tokens; 0 counts as unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowClues<'a> {
    /// `--window`, or the user's figure for the model.
    pub user: Option<u64>,
    /// Catalogue, or kept from earlier reports.
    pub known: Option<u64>,
    /// The runtime's report; `None` where our own override is what it would report (Codex with a raised catalogue).
    pub reported: Option<u64>,
    /// The model's name.
    pub model: Option<&'a str>,
    /// The environment's model names, in this order: `ANTHROPIC_MODEL`, `ANTHROPIC_DEFAULT_OPUS_MODEL`.
    pub environment: [Option<&'a str>; 2],
}

/// The window that counts, and why (G1's order). Never without an answer: the last resort is a guess.
pub fn window(clues: &WindowClues) -> (u64, WindowSource) {
    let figures = [
        (clues.user, WindowSource::User),
        (clues.known, WindowSource::Known),
        (clues.reported, WindowSource::Reported),
    ];
    let figure = figures.into_iter().find_map(|(figure, source)| Some((figure.filter(|tokens| *tokens > 0)?, source)));
    figure.unwrap_or_else(|| {
        let [model, opus] = clues.environment;
        let name = [clues.model, model, opus].into_iter().flatten().find(|name| !name.trim().is_empty());
        (guess(name.unwrap_or_default()), WindowSource::Guess)
    })
}

/// A window guessed from a model's name: a standalone `1m` says a million, whatever else is said; `haiku` 200,000;
/// anything else a million.
fn guess(name: &str) -> u64 {
    let name = name.to_ascii_lowercase();
    let says_million = name.split(|c: char| !c.is_ascii_alphanumeric()).any(|token| token == "1m");
    if !says_million && name.contains("haiku") { 200_000 } else { 1_000_000 }
}

/// Whether a context has crossed the line on a figure that may be acted on: `window_before` is what counted when the turn
/// began; no changeover on a window that changed in this very turn (G1).
pub fn crossed(used: u64, window_now: u64, window_before: u64, policy: &Policy) -> bool {
    policy.enabled
        && window_now == window_before
        && Lines::of(window_now, policy.headroom).standing(used) == Standing::Crossed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g1_lines() {
        let rows = [
            (1_000_000, 950_000, 930_000),
            (200_000, 150_000, 130_000),
            (100_000, 50_000, 30_000),
            (65_000, 15_000, 1_000),
            (60_000, 10_000, 1_000),
            (32_000, 10_000, 1_000),
            (0, 10_000, 1_000),
        ];
        for (window, at, warning) in rows {
            assert_eq!(Lines::of(window, Policy::default().headroom), Lines { at, warning }, "{window}");
        }
        assert_eq!(Lines::of(200_000, 0), Lines { at: 200_000, warning: 180_000 });
    }

    #[test]
    fn g4_standing_at_the_byte() {
        let lines = Lines::of(200_000, 50_000);
        let standings = [(0, Standing::Below), (129_999, Standing::Below), (130_000, Standing::Near)];
        for (used, expected) in standings.into_iter().chain([(149_999, Standing::Near), (150_000, Standing::Crossed)]) {
            assert_eq!(lines.standing(used), expected, "{used}");
        }
    }

    #[test]
    fn g1_order_of_windows() {
        let mut clues = WindowClues {
            user: Some(1),
            known: Some(2),
            reported: Some(3),
            model: Some("claude-haiku-4-5"),
            environment: [None, None],
        };
        assert_eq!(window(&clues), (1, WindowSource::User));
        clues.user = Some(0);
        assert_eq!(window(&clues), (2, WindowSource::Known));
        clues.known = None;
        assert_eq!(window(&clues), (3, WindowSource::Reported));
        clues.reported = None;
        assert_eq!(window(&clues), (200_000, WindowSource::Guess));
        clues.model = Some(" ");
        assert_eq!(window(&clues), (1_000_000, WindowSource::Guess));
        clues.environment = [None, Some("claude-haiku-4-5")];
        assert_eq!(window(&clues), (200_000, WindowSource::Guess));
        clues.environment = [Some("opus"), Some("claude-haiku-4-5")];
        assert_eq!(window(&clues), (1_000_000, WindowSource::Guess), "the first name that is set decides");
    }

    #[test]
    fn g1_guesses() {
        let rows = [
            ("claude-haiku-4-5-20251001", 200_000),
            ("us.anthropic.claude-3-Haiku", 200_000),
            ("claude-haiku-4-5[1m]", 1_000_000),
            ("haiku-1M", 1_000_000),
            ("haiku-21m", 200_000),
            ("haiku-1mini", 200_000),
            ("claude-opus-5-5", 1_000_000),
            ("", 1_000_000),
        ];
        for (name, expected) in rows {
            assert_eq!(guess(name), expected, "{name}");
        }
    }

    #[test]
    fn g1_no_changeover_on_a_figure_that_changed_in_this_turn() {
        let policy = Policy::default();
        assert!(crossed(150_000, 200_000, 200_000, &policy));
        assert!(!crossed(150_000, 200_000, 1_000_000, &policy));
        assert!(!crossed(149_999, 200_000, 200_000, &policy));
        assert!(!crossed(150_000, 200_000, 200_000, &Policy { enabled: false, ..policy }));
    }
}
