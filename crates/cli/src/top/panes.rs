//! The parts of the screen, and how high each is: what is chosen has the most room, and what has nothing to say none.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pane {
    Gpus,
    Running,
    Queue,
    Sweeps,
    Machines,
    Ended,
}

impl Pane {
    /// As they stand below each other; the number of each is its key.
    pub const ALL: [Pane; 6] = [Pane::Gpus, Pane::Running, Pane::Queue, Pane::Sweeps, Pane::Machines, Pane::Ended];

    pub fn number(self) -> usize {
        Pane::ALL.iter().position(|pane| *pane == self).map_or(0, |at| at + 1)
    }

    pub fn by_key(key: char) -> Option<Pane> {
        let number = key.to_digit(10)? as usize;
        Pane::ALL.get(number.checked_sub(1)?).copied()
    }

    pub fn title(self) -> &'static str {
        match self {
            Pane::Gpus => "GPUs",
            Pane::Running => "Running",
            Pane::Queue => "Queue",
            Pane::Sweeps => "Sweeps",
            Pane::Machines => "Machines",
            Pane::Ended => "Ended",
        }
    }
}

/// Lines of a pane that are no rows: its title and the heads of its columns, or what is said where there is no row.
pub const FRAME: usize = 2;

/// Where a pane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub pane: Pane,
    /// Its first line.
    pub y: u16,
    /// 1 where there is room for no more than its title.
    pub height: u16,
}

impl Place {
    /// How many rows it shows.
    pub fn rows(&self) -> usize {
        usize::from(self.height).saturating_sub(FRAME)
    }
}

/// Which give way first where not all can be shown.
const GIVE_WAY: [Pane; 6] = [Pane::Machines, Pane::Sweeps, Pane::Ended, Pane::Gpus, Pane::Running, Pane::Queue];

/// Rows that one sees of a pane at least, as long as it has a place.
fn least_rows(pane: Pane) -> usize {
    if pane == Pane::Gpus { 4 } else { 2 }
}

/// Of these panes with so many rows each, from line `y` on.
pub fn layout(y: u16, height: u16, panes: &[(Pane, usize)], focus: Pane) -> Vec<Place> {
    let room = usize::from(height);
    let mut heights: Vec<usize> = panes.iter().map(|(pane, rows)| FRAME + least_rows(*pane).min(*rows)).collect();
    for pane in GIVE_WAY {
        if heights.iter().sum::<usize>() <= room {
            break;
        }
        for ((own, _), high) in panes.iter().zip(&mut heights) {
            if *own == pane && pane != focus {
                *high = 1;
            }
        }
    }
    let mut spare = room.saturating_sub(heights.iter().sum());
    let all = usize::MAX - FRAME;
    // First what one wants to see at any time, then where one is, then the rest.
    let turns = [
        (Pane::Gpus, 8),
        (Pane::Running, 4),
        (focus, all),
        (Pane::Running, 8),
        (Pane::Queue, 8),
        (Pane::Ended, 5),
        (Pane::Sweeps, 5),
        (Pane::Running, all),
        (Pane::Queue, all),
        (Pane::Gpus, all),
        (Pane::Ended, all),
        (Pane::Sweeps, all),
        (Pane::Machines, all),
    ];
    for (pane, most) in turns {
        for ((own, rows), high) in panes.iter().zip(&mut heights) {
            if *own == pane && *high > 1 {
                let more = (FRAME + most.min(*rows)).saturating_sub(*high).min(spare);
                *high += more;
                spare -= more;
            }
        }
    }
    let mut places = Vec::new();
    let mut next = y;
    for ((pane, _), high) in panes.iter().zip(heights) {
        let high = u16::try_from(high).unwrap_or(height).min((y + height).saturating_sub(next));
        places.push(Place { pane: *pane, y: next, height: high });
        next += high;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(height: u16, panes: &[(Pane, usize)], focus: Pane) -> Vec<usize> {
        let places = layout(1, height, panes, focus);
        let end = places.last().map_or(0, |place| place.y + place.height);
        assert!(end <= 1 + height, "{places:?}");
        places.iter().map(Place::rows).collect()
    }

    #[test]
    fn gpus_are_seen_and_the_chosen_pane_has_the_rest() {
        let some = [(Pane::Gpus, 4), (Pane::Running, 4), (Pane::Queue, 10_000), (Pane::Ended, 500)];
        assert_eq!(rows(22, &some, Pane::Queue), [4, 4, 4, 2]);
        assert_eq!(rows(22, &some, Pane::Ended), [4, 4, 2, 4]);
        assert_eq!(rows(38, &some, Pane::Queue), [4, 4, 20, 2]);
        assert_eq!(rows(22, &[(Pane::Gpus, 2), (Pane::Running, 0), (Pane::Queue, 0)], Pane::Gpus), [2, 0, 0]);
    }

    #[test]
    fn what_has_no_room_is_a_title() {
        let all = [
            (Pane::Gpus, 8),
            (Pane::Running, 8),
            (Pane::Queue, 9),
            (Pane::Sweeps, 3),
            (Pane::Machines, 4),
            (Pane::Ended, 9),
        ];
        let heights =
            |height, focus| -> Vec<u16> { layout(1, height, &all, focus).iter().map(|place| place.height).collect() };
        assert_eq!(heights(22, Pane::Queue), [8, 4, 4, 1, 1, 4]);
        assert_eq!(heights(22, Pane::Machines), [8, 4, 4, 1, 4, 1]);
        assert_eq!(heights(13, Pane::Gpus).iter().sum::<u16>(), 13);
    }

    #[test]
    fn panes_have_their_keys() {
        assert_eq!(Pane::by_key('1'), Some(Pane::Gpus));
        assert_eq!(Pane::by_key('6'), Some(Pane::Ended));
        assert_eq!((Pane::by_key('0'), Pane::by_key('7'), Pane::by_key('x')), (None, None, None));
        assert_eq!(Pane::Queue.number(), 3);
    }
}
