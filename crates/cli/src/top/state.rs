//! What is seen: the panes and what is chosen in each, the page over them, the line at the bottom.

use nexus_api::jobs::Job;
use nexus_api::service::Machine;
use nexus_api::sweeps::Sweep;
use ratatui_core::layout::Size;

use super::deeds::Deed;
use super::known::{Ask, Known};
use super::list::List;
use super::log::Log;
use super::panes::{self, FRAME, Pane, Place};
use crate::render::place;

/// Below this nothing can be read.
pub const LEAST: Size = Size { width: 60, height: 15 };

/// Lines above and below the panes.
pub const HEAD: u16 = 1;
pub const FOOT: u16 = 1;

pub struct State {
    pub known: Known,
    pub focus: Pane,
    /// Whether somebody has chosen a pane.
    pub has_chosen: bool,
    pub filter: String,
    pub view: View,
    pub bottom: Bottom,
    pub size: Size,
    lists: [List; Pane::ALL.len()],
}

/// What stands between head and foot.
pub enum View {
    Panes,
    Log(Box<Log>),
    /// Text with a title, from this line on.
    Page {
        title: String,
        lines: Vec<String>,
        top: usize,
    },
}

/// The last line.
pub enum Bottom {
    Keys,
    /// Until the next key.
    Says {
        text: String,
        is_error: bool,
    },
    /// Done on y.
    Asks {
        question: String,
        deed: Deed,
    },
    /// The filter, as it is typed.
    Types,
}

/// What is chosen.
#[derive(Clone, Debug)]
pub enum Subject {
    Job(Box<Job>),
    /// A GPU on which nothing of ours is.
    Gpu(String),
    Sweep(Box<Sweep>),
    Machine(Box<Machine>),
}

impl State {
    pub fn new(size: Size) -> State {
        State {
            known: Known::default(),
            focus: Pane::Running,
            has_chosen: false,
            filter: String::new(),
            view: View::Panes,
            bottom: Bottom::Keys,
            size,
            lists: Default::default(),
        }
    }

    /// Panes that have something to say, with their rows.
    pub fn panes(&self) -> Vec<(Pane, usize)> {
        let counted = Pane::ALL.into_iter().map(|pane| (pane, self.count(pane)));
        counted.filter(|(pane, rows)| self.is_shown(*pane, *rows)).collect()
    }

    fn is_shown(&self, pane: Pane, rows: usize) -> bool {
        match pane {
            Pane::Gpus | Pane::Running | Pane::Queue => true,
            Pane::Machines => rows > 1,
            Pane::Sweeps | Pane::Ended => rows > 0,
        }
    }

    pub fn count(&self, pane: Pane) -> usize {
        match pane {
            Pane::Gpus => self.known.gpus().count(),
            Pane::Running => self.known.active.len(),
            Pane::Queue => self.known.queue.len(),
            Pane::Sweeps => self.known.sweeps(&self.filter).count(),
            Pane::Machines => self.known.machines().len(),
            Pane::Ended => self.known.ended.len(),
        }
    }

    pub fn places(&self) -> Vec<Place> {
        let height = self.size.height.saturating_sub(HEAD + FOOT);
        panes::layout(HEAD, height, &self.panes(), self.focus)
    }

    /// Rows of the page or the log.
    pub fn page_rows(&self) -> usize {
        usize::from(self.size.height.saturating_sub(HEAD + FOOT + 1))
    }

    pub fn list(&self, pane: Pane) -> &List {
        &self.lists[pane.number() - 1]
    }

    /// Names of the rows.
    fn keys(&self, pane: Pane) -> Vec<String> {
        let known = &self.known;
        match pane {
            Pane::Gpus => known.gpus().map(|(machine, gpu)| format!("{}:{}", machine.name, gpu.index)).collect(),
            Pane::Running => known.active.iter().map(|job| job.id.clone()).collect(),
            Pane::Queue => known.queue.rows().map(|job| job.id.clone()).collect(),
            Pane::Sweeps => known.sweeps(&self.filter).map(|sweep| sweep.name.clone()).collect(),
            Pane::Machines => known.machines().iter().map(|machine| machine.name.clone()).collect(),
            Pane::Ended => known.ended.rows().map(|job| job.id.clone()).collect(),
        }
    }

    /// Rows of a pane on the screen.
    fn height(&self, pane: Pane) -> usize {
        self.places().iter().find(|place| place.pane == pane).map_or(0, Place::rows)
    }

    /// After anything changed: what was chosen is looked for where it is now.
    pub fn settle(&mut self) {
        let panes = self.panes();
        if !self.has_chosen && self.known.status.is_some() {
            self.focus = if self.count(Pane::Running) > 0 { Pane::Running } else { Pane::Queue };
        }
        if !panes.iter().any(|(pane, _)| *pane == self.focus) {
            self.focus = Pane::Queue;
        }
        for (pane, _) in panes {
            let (keys, height) = (self.keys(pane), self.height(pane));
            self.lists[pane.number() - 1].settle(&keys, height);
        }
    }

    pub fn look_at(&mut self, pane: Pane) {
        (self.focus, self.has_chosen) = (pane, true);
        self.settle();
    }

    pub fn step(&mut self, by: isize) {
        self.has_chosen = true;
        let (keys, height) = (self.keys(self.focus), self.height(self.focus));
        self.lists[self.focus.number() - 1].step(by, &keys, height);
    }

    /// A page further, or back.
    pub fn leap(&mut self, down: bool) {
        let rows = isize::try_from(self.height(self.focus)).unwrap_or(1).max(1);
        self.step(if down { rows } else { -rows });
    }

    /// Another pane, in their order.
    pub fn turn(&mut self, forward: bool) {
        let panes = self.panes();
        let at = panes.iter().position(|(pane, _)| *pane == self.focus).unwrap_or(0);
        let next = if forward { at + 1 } else { at + panes.len() - 1 } % panes.len().max(1);
        if let Some((pane, _)) = panes.get(next) {
            self.look_at(*pane);
        }
    }

    /// The pane at a line of the screen, and which of its rows.
    pub fn at(&self, row: u16) -> Option<(Pane, Option<usize>)> {
        let place = self.places().into_iter().find(|place| (place.y..place.y + place.height).contains(&row))?;
        let below = usize::from(row - place.y).checked_sub(FRAME);
        let index = below.map(|below| self.list(place.pane).top() + below);
        Some((place.pane, index.filter(|index| *index < self.count(place.pane))))
    }

    pub fn choose(&mut self, pane: Pane, index: usize) {
        let (keys, height) = (self.keys(pane), self.height(pane));
        self.lists[pane.number() - 1].choose(index, &keys, height);
    }

    pub fn subject(&self) -> Option<Subject> {
        let (known, at) = (&self.known, self.list(self.focus).at());
        Some(match self.focus {
            Pane::Gpus => {
                let (machine, gpu) = known.gpus().nth(at)?;
                match gpu.jobs.iter().find_map(|id| known.running(id)) {
                    Some(job) => Subject::Job(Box::new(job.clone())),
                    None => Subject::Gpu(format!("{}{}", gpu.index, place::of_machine(&machine.name))),
                }
            }
            Pane::Running => Subject::Job(Box::new(known.active.get(at)?.clone())),
            Pane::Queue => Subject::Job(Box::new(known.queue.get(at)?.clone())),
            Pane::Ended => Subject::Job(Box::new(known.ended.get(at)?.clone())),
            Pane::Sweeps => Subject::Sweep(Box::new(known.sweeps(&self.filter).nth(at)?.clone())),
            Pane::Machines => Subject::Machine(Box::new(known.machines().get(at)?.clone())),
        })
    }

    /// What to read for all that is seen to be right, after something happened.
    pub fn asks(&self) -> Vec<Ask> {
        let mut asks = vec![Ask::Status, Ask::Active, Ask::Sweeps];
        if self.known.host.is_none() {
            asks.push(Ask::Host);
        }
        asks.extend(self.page_asks());
        asks
    }

    /// The pages that are seen and not known, or not as they are now.
    pub fn page_asks(&self) -> Vec<Ask> {
        let page = |of: Pane| {
            let first = self.list(of).top();
            // One that is not shown is asked for all the same: it may have something to say by now.
            let wanted = self.known.pages(of)?.wanted(first, first + self.height(of))?;
            Some(Ask::Page { of, wanted })
        };
        [Pane::Queue, Pane::Ended].into_iter().filter_map(page).collect()
    }

    pub fn says(&mut self, text: String) {
        self.bottom = Bottom::Says { text, is_error: false };
    }

    pub fn fails(&mut self, text: String) {
        self.bottom = Bottom::Says { text, is_error: true };
    }

    pub fn is_too_small(&self) -> bool {
        self.size.width < LEAST.width || self.size.height < LEAST.height
    }
}
