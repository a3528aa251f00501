//! Numbers as bars and small charts, of characters that every terminal has.

/// `█████▌░░░`
pub fn bar(percent: u64, cells: usize) -> String {
    let halves = (percent.min(100) as usize * cells * 2 + 50) / 100;
    let (full, half) = (halves / 2, halves % 2);
    let rest = cells - full - half;
    format!("{}{}{}", "█".repeat(full), "▌".repeat(half), "░".repeat(rest))
}

/// `▁▂▅█`, a blank where nothing is known.
pub fn chart(percents: &[Option<u8>]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let level = |percent: &Option<u8>| match percent {
        Some(percent) => LEVELS[usize::from((*percent).min(99)) * LEVELS.len() / 100],
        None => ' ',
    };
    percents.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_part() {
        for (percent, text) in [(0, "░░░░"), (50, "██░░"), (60, "██▌░"), (100, "████"), (300, "████")]
        {
            assert_eq!(bar(percent, 4), text, "{percent}");
        }
    }

    #[test]
    fn charts_are_as_high_as_their_part() {
        assert_eq!(chart(&[None, Some(0), Some(12), Some(50), Some(99), Some(100)]), " ▁▁▅██");
    }
}
