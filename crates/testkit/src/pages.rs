//! Pages of the documentation, as tests read them.

/// Lines outside of blocks with a fence, numbered from 1 on.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((number + 1, line))
    })
}
