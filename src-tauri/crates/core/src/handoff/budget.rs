//! How much a handoff may hold (B1). One UTF-8 byte is counted as one token.

/// Budget where the user set nothing, in bytes.
pub const DEFAULT: u64 = 16_000;

/// The most that the user can set, in bytes.
pub const CAP: u64 = 65_536;

/// What is always left to the model's own work where its window is known, in tokens.
const RESERVE: u64 = 16_000;

/// The budget in bytes for a model whose window has `window` tokens (unknown: `None` or 0) when the user set `setting`
/// bytes ([`DEFAULT`] where nothing is set). A setting above [`CAP`] counts as [`CAP`].
pub fn bytes(window: Option<u64>, setting: u64) -> u64 {
    let wanted = setting.min(CAP);
    match window {
        None | Some(0) => wanted,
        Some(w) => wanted.min(w.saturating_sub((w / 4).max(RESERVE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_table() {
        let rows = [
            (None, 16_000),
            (Some(0), 16_000),
            (Some(200_000), 16_000),
            (Some(1_000_000), 16_000),
            (Some(32_000), 16_000),
            (Some(31_999), 15_999),
            (Some(20_000), 4_000),
            (Some(16_001), 1),
            (Some(16_000), 0),
            (Some(8_192), 0),
            (Some(1), 0),
            (Some(u64::MAX), 16_000),
        ];
        for (window, expected) in rows {
            assert_eq!(bytes(window, DEFAULT), expected, "{window:?}");
        }
    }

    #[test]
    fn b1_setting_counts_up_to_the_cap_and_within_the_window() {
        assert_eq!(bytes(None, 40_000), 40_000);
        assert_eq!(bytes(None, 65_537), 65_536);
        assert_eq!(bytes(Some(200_000), u64::MAX), 65_536);
        assert_eq!(bytes(Some(64_000), CAP), 48_000);
        assert_eq!(bytes(Some(80_000), CAP), 60_000);
        assert_eq!(bytes(Some(20_000), CAP), 4_000);
        assert_eq!(bytes(None, 0), 0);
    }

    /// The reference's rule as it stands there, with a JavaScript number's division.
    #[test]
    fn b1_as_the_reference_has_it() {
        for w in (0..300_000_u64).step_by(7) {
            let mut budget = [16_000_i64, 64 * 1024].into_iter().min().unwrap();
            if w > 0 {
                let room = w as i64 - ((w as f64 / 4.0).floor() as i64).max(16_000);
                budget = budget.min(room.max(0));
            }
            assert_eq!(bytes(Some(w), DEFAULT), budget as u64, "{w}");
        }
    }
}
