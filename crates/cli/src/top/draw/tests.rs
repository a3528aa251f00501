//! Whole pictures, of the types that the service sends.

use nexus_api::jobs::{Expected, Job, State as Word};
use nexus_api::machines::{InPool, MachineState};
use nexus_api::service::{GpuPast, Machine, PastPoint};
use ratatui_core::backend::TestBackend;
use ratatui_core::layout::Size;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

use super::super::deeds::Deed;
use super::super::input::Input;
use super::super::keys::{self, Next};
use super::super::known::News;
use super::super::log::{Log, Standing};
use super::super::pages::{Pages, Wanted};
use super::super::panes::Pane;
use super::super::state::{Bottom, State, View};
use super::{Look, draw, lines};
use crate::render::samples;

fn first() -> Wanted {
    Pages::default().wanted(0, 0).expect("nothing is known")
}

fn jobs(count: usize) -> Vec<Job> {
    let queued = |place: usize| {
        let mut job = samples::queued(&format!("q{}", char::from(b'a' + (place % 26) as u8)));
        job.id = format!("{}{place}", job.id);
        job.position = Some(place as u64 + 1);
        job.waiting = Some(samples::gpus_needed(1, [0, 2, 0, 0, 0]));
        job.command = format!("python train.py --seed {place}");
        job
    };
    (0..count).map(queued).collect()
}

/// Two GPUs, one job, three that wait, one that failed, a sweep.
fn busy(columns: u16, rows: u16) -> State {
    let mut state = State::new(Size { width: columns, height: rows });
    let mut gpus = [samples::read_gpu(0), samples::foreign_gpu(1)];
    gpus[0].jobs = vec!["abc".into()];
    let mut job = samples::running("abc", &[0]);
    job.name = Some("日本語モデル".into());
    job.expected = Some(Expected { start: String::new(), end: Some("2024-10-24T17:00:00Z".into()), at_latest: false });
    let mut held = samples::queued("hld");
    held.state = Word::Held;
    let mut waiting = jobs(2);
    waiting.push(held);
    let mut failed = samples::ended("bad", Word::Failed, "exit");
    failed.exit_code = Some(1);
    let mut status = samples::status(gpus.to_vec(), vec![job.clone()]);
    (status.held, status.failed) = (1, 2);
    let now = samples::now().timestamp().as_millisecond();
    let points = (0..20).map(|back| PastPoint(now - back * 12_000, Some((100 - back * 5) as u8), None)).collect();
    for news in [
        News::Host("box01".into()),
        News::Status(Box::new(status)),
        News::Active(vec![job]),
        News::Sweeps(vec![samples::sweep("lr-grid")]),
        News::Past(vec![GpuPast { machine: "local".into(), index: 0, points }]),
        News::Page { of: Pane::Queue, wanted: first(), rows: waiting, next: None },
        News::Page { of: Pane::Ended, wanted: first(), rows: vec![failed], next: None },
    ] {
        state.known.take(news);
    }
    state.settle();
    state
}

fn terminal(state: &mut State, look: Look) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(state.size.width, state.size.height)).unwrap();
    state.settle();
    terminal.draw(|frame| draw(state, look, &samples::now(), frame)).unwrap();
    terminal
}

fn drawn(state: &mut State) -> String {
    lines(terminal(state, Look { on: false }).backend().buffer()).join("\n")
}

/// What stands above the blank lines, and the last line.
fn parts(shown: &str) -> (&str, &str) {
    let (above, below) = shown.split_once("\n\n").expect("there is room to spare");
    (above, below.trim_start_matches('\n'))
}

const KEYS: &str = "Enter log  a attach  K kill  w why  / filter  Tab pane  ? all keys  q quit";

#[test]
fn all_of_it_in_80_columns() {
    let shown = drawn(&mut busy(80, 24));
    assert_eq!(shown.lines().count(), 24);
    assert_eq!(parts(&shown).1, KEYS);
    assert_eq!(
        parts(&shown).0,
        "\
nexus box01  25 jobs completed, 2 failed                                17:45:00
── 1 GPUs ──────────────────────────────────────────────────────────────────────
GPU  MODEL     TEMP  LOAD         MEMORY           LAST 2m     JOBS
0    RTX 3090  71°C  ██████  97%  █████░ 19.5/24G  ▅▅▆▆▇▇▇███  abc
1    RTX 3090  34°C  ░░░░░░   0%  ░░░░░░  0.7/24G              in use outside n…
── 2 Running  1 job ────────────────────────────────────────────────────────────
ID   ON       TIME  ENDS    NAME          COMMAND
abc  GPU 0  2h 15m  ~19:00  日本語モデル  python train.py
── 3 Queue  3 jobs pending, 1 held ─────────────────────────────────────────────
POS  ID   WAITS BECAUSE                COMMAND
  1  qa0  needs 1 GPU: 2 held by jobs  python train.py --seed 0
  2  qb1  needs 1 GPU: 2 held by jobs  python train.py --seed 1
     hld  held                         python train.py
── 4 Sweeps ────────────────────────────────────────────────────────────────────
NAME     DONE             JOBS      ENDS   COMMAND
lr-grid  █░░░░░░░░░  10%  2R 7Q 1F  18:30  train --lr {lr} --seed {seed}
── 6 Ended  the newest first ───────────────────────────────────────────────────
ID   STATE              TIME  ENDED  ON     COMMAND
bad  failed (exit 1)  2m 10s  15:32  GPU 0  python train.py"
    );
}

#[test]
fn all_of_it_in_120_columns() {
    let shown = drawn(&mut busy(120, 40));
    assert_eq!(shown.lines().count(), 40);
    assert_eq!(parts(&shown).1, KEYS);
    assert_eq!(
        parts(&shown).0,
        "\
nexus box01  25 jobs completed, 2 failed                                                                        17:45:00
── 1 GPUs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
GPU  MODEL     TEMP  POWER  LOAD             MEMORY               LAST 4m               JOBS
0    RTX 3090  71°C   342W  █████████▌  97%  ████████░░ 19.5/24G  ▁▁▂▂▃▃▃▄▄▅▅▅▆▆▇▇▇███  abc
1    RTX 3090  34°C         ░░░░░░░░░░   0%  ░░░░░░░░░░  0.7/24G                        in use outside nexus (pid 4312 …
── 2 Running  1 job ────────────────────────────────────────────────────────────────────────────────────────────────────
ID   ON       TIME  ENDS     PID  NAME          COMMAND
abc  GPU 0  2h 15m  ~19:00  4312  日本語モデル  python train.py
── 3 Queue  3 jobs pending, 1 held ─────────────────────────────────────────────────────────────────────────────────────
POS  ID   WAITS BECAUSE                COMMAND
  1  qa0  needs 1 GPU: 2 held by jobs  python train.py --seed 0
  2  qb1  needs 1 GPU: 2 held by jobs  python train.py --seed 1
     hld  held                         python train.py
── 4 Sweeps ────────────────────────────────────────────────────────────────────────────────────────────────────────────
NAME     DONE             JOBS      ENDS   COMMAND
lr-grid  █░░░░░░░░░  10%  2R 7Q 1F  18:30  train --lr {lr} --seed {seed}
── 6 Ended  the newest first ───────────────────────────────────────────────────────────────────────────────────────────
ID   STATE              TIME  ENDED  ON     COMMAND
bad  failed (exit 1)  2m 10s  15:32  GPU 0  python train.py"
    );
}

#[test]
fn a_window_that_is_too_small_says_so() {
    let mut state = busy(40, 10);
    let shown = drawn(&mut state);
    assert!(shown.starts_with("This window has 40 columns and 10 lines;\nnexus top needs 60 and 15."), "{shown}");
    let mut least = busy(60, 15);
    let shown = drawn(&mut least);
    for title in ["1 GPUs", "2 Running", "3 Queue", "4 Sweeps", "6 Ended", "? all keys"] {
        assert!(shown.contains(title), "{title}\n{shown}");
    }
}

#[test]
fn colours_are_those_of_the_thresholds() {
    let mut state = busy(80, 24);
    let terminal = terminal(&mut state, Look { on: true });
    let buffer = terminal.backend().buffer();
    let text = lines(buffer);
    let colour_at = |row: usize, word: &str| {
        let at = text[row].split(word).next().unwrap().chars().count();
        buffer[(at as u16, row as u16)].fg
    };
    assert_eq!(
        (colour_at(3, "97%"), colour_at(3, "19.5/24G"), colour_at(3, "abc")),
        (Color::Red, Color::Red, Color::Magenta)
    );
    assert_eq!((colour_at(4, " 0%"), colour_at(4, "0.7/24G")), (Color::Green, Color::Green));
    // What is chosen is seen without colours, too.
    let row = text.iter().position(|line| line.starts_with("abc")).unwrap();
    assert!(buffer[(0, row as u16)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn nothing_yet() {
    let mut state = State::new(Size { width: 80, height: 24 });
    let shown = drawn(&mut state);
    assert!(shown.contains("reading …"), "{shown}");
    state.known.take(News::Status(Box::new(samples::status(vec![], vec![]))));
    state.known.take(News::Page { of: Pane::Queue, wanted: first(), rows: vec![], next: None });
    let shown = drawn(&mut state);
    for said in ["no GPUs found", "nothing runs", "nothing waits; nexus add"] {
        assert!(shown.contains(said), "{said}\n{shown}");
    }
    state.known.away = true;
    assert!(drawn(&mut state).contains("service is away, waiting for it"));
}

#[test]
fn ten_thousand_wait_and_one_sees_which() {
    let mut state = busy(80, 24);
    state.known.forget_lists();
    let page = News::Page { of: Pane::Queue, wanted: first(), rows: jobs(100), next: Some("c1".into()) };
    state.known.take(page);
    if let Some(status) = &mut state.known.status {
        (status.pending, status.queue_paused) = (10_000, true);
    }
    state.look_at(Pane::Queue);
    state.step(50);
    let shown = drawn(&mut state);
    assert!(shown.contains("3 Queue  10000 jobs pending, 1 held  [PAUSED]  rows "), "{shown}");
    assert!(shown.contains(" 51  q"), "{shown}");
    // The end of what is known is near: the next page is wanted, and no other.
    state.step(40);
    state.settle();
    let asks = state.page_asks();
    assert_eq!(asks.len(), 2, "{asks:?}");
    assert!(format!("{asks:?}").contains("cursor: \"c1\""), "{asks:?}");
}

#[test]
fn machines_are_shown_where_there_are_several() {
    let mut state = busy(120, 40);
    let away = InPool {
        state: MachineState::Unreachable,
        detail: Some("no route to host".into()),
        class: Some("default".into()),
        ..InPool::default()
    };
    if let Some(status) = &mut state.known.status {
        status.machines[0].pool = Some(InPool { jobs: vec!["abc".into()], ..InPool::default() });
        status.machines.push(Machine { name: "box".into(), pool: Some(away), ..Machine::default() });
    }
    let shown = drawn(&mut state);
    assert!(shown.contains("5 Machines"), "{shown}");
    assert!(shown.contains("local:0  RTX 3090"), "{shown}");
    assert!(shown.contains("unreachable  default") && shown.contains("no route to host"), "{shown}");
}

#[test]
fn keys_do_what_the_line_says() {
    let mut state = busy(80, 24);
    let mut press = |keys: &str| {
        let mut last = Next::Draw;
        for key in keys.chars() {
            last = keys::press(&mut state, if key == '\n' { Input::Enter } else { Input::Char(key) });
        }
        last
    };
    assert_eq!(press("\n"), Next::Follow { id: "abc".into(), command: "python train.py".into() });
    assert_eq!(press("a"), Next::Attach("abc".into()));
    assert_eq!(press("Kn"), Next::Draw);
    assert_eq!(press("Ky"), Next::Do(Deed::Kill("abc".into())));
    assert_eq!(press("3w"), Next::Do(Deed::Why("qa0".into())));
    assert_eq!(press("h"), Next::Do(Deed::Hold("qa0".into())));
    assert_eq!(press("Ky"), Next::Do(Deed::Remove("qa0".into())));
    assert_eq!(press("-"), Next::Do(Deed::Move { id: "qa0".into(), before: Some("hld".into()) }));
    assert_eq!(press("j+"), Next::Do(Deed::Move { id: "qb1".into(), before: Some("qa0".into()) }));
    assert_eq!(press("-"), Next::Do(Deed::Move { id: "qb1".into(), before: None }));
    assert_eq!(press("jh"), Next::Do(Deed::Release("hld".into())));
    assert_eq!(press("f"), Next::Do(Deed::First("hld".into())));
    assert_eq!(press("-"), Next::Draw, "it is the last");
    assert_eq!(press("6r"), Next::Do(Deed::Rerun("bad".into())));
    assert_eq!(press("1\n"), Next::Follow { id: "abc".into(), command: "python train.py".into() });
    assert_eq!(press("q"), Next::Quit);
}

#[test]
fn the_last_line_asks_and_tells() {
    let mut state = busy(80, 24);
    let last = |state: &mut State| drawn(state).lines().last().unwrap_or_default().to_string();
    assert!(last(&mut state).starts_with("Enter log  a attach  K kill"), "{}", last(&mut state));
    keys::press(&mut state, Input::Char('K'));
    assert_eq!(last(&mut state), "kill abc on GPU 0? y/n   python train.py");
    keys::press(&mut state, Input::Escape);
    assert_eq!(last(&mut state), "nothing was done");
    state.fails("job abc cannot be held: it is running on GPU 0".into());
    assert_eq!(last(&mut state), "error: job abc cannot be held: it is running on GPU 0");
    for key in ['/', 'l', 'r'] {
        keys::press(&mut state, Input::Char(key));
    }
    assert!(last(&mut state).starts_with("filter: lr"), "{}", last(&mut state));
    keys::press(&mut state, Input::Enter);
    assert!(matches!(state.bottom, Bottom::Keys));
    assert!(drawn(&mut state).starts_with("nexus box01  only with \"lr\" (Esc: all)"), "{}", drawn(&mut state));
    keys::press(&mut state, Input::Escape);
    assert_eq!(state.filter, "");
}

#[test]
fn a_log_and_a_page_lie_over_all() {
    let mut state = busy(80, 24);
    let mut log = Log::new("abc".into(), "python train.py".into(), 1);
    log.push("epoch 1\nloss \x1b[31m0.5\x1b[0m 日本\n".as_bytes());
    state.view = View::Log(Box::new(log));
    let shown = drawn(&mut state);
    assert!(shown.contains("── log of abc, as it comes: python train.py ──"), "{shown}");
    assert!(shown.contains("\nepoch 1\nloss 0.5 日本\n"), "{shown}");
    assert!(!shown.contains("Queue"), "{shown}");
    if let View::Log(log) = &mut state.view {
        log.standing = Standing::Over("completed abc on GPU 0 after 3s: python train.py".into());
    }
    assert!(drawn(&mut state).contains("log of abc, completed abc"), "{}", drawn(&mut state));
    keys::press(&mut state, Input::Escape);
    keys::press(&mut state, Input::Char('?'));
    let shown = drawn(&mut state);
    assert!(
        shown.contains("Enter, l   its log")
            && shown.contains("leave; all goes on")
            && shown.contains("memory 10 %, 80 %"),
        "{shown}"
    );
    assert!(shown.lines().all(|line| super::text::width(line) <= 80), "{shown}");
}

#[test]
fn a_click_chooses_and_the_wheel_moves() {
    let mut state = busy(80, 24);
    let rows: Vec<String> = drawn(&mut state).lines().map(String::from).collect();
    let row = rows.iter().position(|line| line.contains("qb1")).unwrap() as u16;
    keys::press(&mut state, Input::Click { column: 10, row });
    assert_eq!((state.focus, state.list(Pane::Queue).at()), (Pane::Queue, 1));
    keys::press(&mut state, Input::Wheel { column: 10, row, down: true });
    assert_eq!(state.list(Pane::Queue).at(), 2);
    keys::press(&mut state, Input::Click { column: 0, row: 23 });
    assert_eq!(state.focus, Pane::Queue, "the last line is no row");
}
