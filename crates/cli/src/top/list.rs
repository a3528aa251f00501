//! A list that one moves in: which row is chosen, and which stands first on the screen.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// What is chosen, by its name: it stays so when it moves.
    key: Option<String>,
    /// Where it is.
    at: usize,
    /// The first row on the screen.
    top: usize,
}

impl List {
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn top(&self) -> usize {
        self.top
    }

    /// The rows are these now, so many of them on the screen.
    pub fn settle(&mut self, keys: &[String], height: usize) {
        let found = self.key.as_ref().and_then(|key| keys.iter().position(|other| other == key));
        // One that is gone leaves its place to the next.
        self.at = found.unwrap_or(self.at).min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
        self.show(keys.len(), height);
    }

    pub fn step(&mut self, by: isize, keys: &[String], height: usize) {
        self.choose(self.at.saturating_add_signed(by), keys, height);
    }

    pub fn choose(&mut self, at: usize, keys: &[String], height: usize) {
        self.at = at.min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
        self.show(keys.len(), height);
    }

    fn show(&mut self, count: usize, height: usize) {
        let height = height.max(1);
        self.top = self.top.min(self.at).max((self.at + 1).saturating_sub(height));
        // No blank rows below the last one while there are others above.
        self.top = self.top.min(count.saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn the_chosen_row_stays_chosen_when_it_moves() {
        let mut list = List::default();
        list.settle(&keys("a b c d e"), 3);
        list.step(3, &keys("a b c d e"), 3);
        assert_eq!((list.at(), list.top()), (3, 1));
        list.settle(&keys("d a b c e"), 3);
        assert_eq!((list.at(), list.top()), (0, 0));
        list.settle(&keys("a b c e"), 3);
        assert_eq!((list.at(), list.key.as_deref()), (0, Some("a")), "the next takes its place");
    }

    #[test]
    fn it_ends_where_the_rows_end() {
        let mut list = List::default();
        list.step(-1, &[], 3);
        assert_eq!((list.at(), list.key.clone()), (0, None));
        list.step(100, &keys("a b c d e"), 3);
        assert_eq!((list.at(), list.top()), (4, 2));
        list.settle(&keys("a b"), 3);
        assert_eq!((list.at(), list.top()), (1, 0));
        list.step(-5, &keys("a b"), 3);
        assert_eq!(list.at(), 0);
    }
}
