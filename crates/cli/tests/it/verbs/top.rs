//! `top` in a real terminal: tmux draws it, and keys are typed there.

use nexus_testkit::{Nexus, Tmux, until};

use super::LONG;
use crate::NEXUS;

/// Where there is no tmux nothing can be seen.
fn can_look() -> bool {
    if !Tmux::exists() {
        eprintln!("skipped: there is no tmux");
    }
    Tmux::exists()
}

const SMALL: (u16, u16) = (80, 24);

/// The line with this in it.
fn line<'a>(screen: &'a str, text: &str) -> &'a str {
    screen.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}:\n{screen}"))
}

#[test]
fn jobs_are_held_moved_removed_and_killed_by_keys() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let runs = nexus.add_with(&["--name", "first"], LONG);
    nexus.in_state(&runs, "running");
    let [one, two, three] = ["one", "two", "three"].map(|word| nexus.add(&format!("echo {word}")));
    let ann = nexus.in_tmux(SMALL, &[], &["top"]);
    let screen = ann.sees("echo three");
    assert!(line(&screen, "3 Queue").contains("3 jobs pending"), "{screen}");
    assert!(line(&screen, &one).contains("needs 1 GPU: 1 held by jobs"), "{screen}");
    assert!(line(&screen, "simulated, 24GB").ends_with(&runs), "{screen}");
    assert!(line(&screen, LONG).contains("GPU 0"), "{screen}");

    ann.types("3").sees("f first");
    ann.types("jh").sees(&format!("held {two}: echo two"));
    assert_eq!(nexus.job(&two)["state"], "held");
    ann.shows("it is held", |screen| line(screen, &two).contains("held   "));
    ann.types("h").sees(&format!("released {two}"));
    ann.shows("it waits again", |screen| line(screen, &two).contains("needs 1 GPU"));
    ann.types("f").sees(&format!("put first {two}"));
    ann.shows("it is first", |screen| line(screen, &two).trim_start().starts_with("1 "));
    ann.types("-").sees(&format!("moved before {three} {two}"));
    ann.shows("it is second", |screen| line(screen, &two).trim_start().starts_with("2 "));
    ann.types("K").sees(&format!("remove {two}? y/n"));
    ann.types("n").sees("nothing was done");
    ann.types("K").sees("y/n");
    ann.types("y").sees(&format!("removed {two}"));
    assert_eq!(nexus.job(&two)["reason"], "removed");

    ann.types("2").sees("a attach");
    ann.types("h").sees(&format!("error: job {runs} cannot be held: it is running on GPU 0"));
    ann.types("K").sees(&format!("kill {runs} on GPU 0? y/n"));
    ann.types("y").sees(&format!("asked to end on GPU 0 {runs}"));
    nexus.ended(&runs);
    ann.shows("its end is shown", |screen| screen.contains("killed (user)"));
    for id in [&one, &three] {
        nexus.ended(id);
    }
    // What is seen was read a little earlier, piece by piece: it is their ends that are waited for.
    ann.shows("all ends are counted", |screen| {
        screen.contains("2 jobs completed, 2 killed") && screen.contains("nothing runs")
    });
    ann.types("6r").sees("again as");
    ann.types("q").sees("left with 0");
    let screen = ann.screen();
    assert!(screen.starts_with("before\n") && !screen.contains("Queue"), "the screen of before is back\n{screen}");
    ann.types("typed").sees("typed");
}

#[test]
fn what_one_looks_for_is_found_and_explained() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.in_state(&nexus.add(LONG), "running");
    let tagged = nexus.add_with(&["--tag", "night", "--project", "nlp"], "echo with-a-tag");
    nexus.add("echo other");
    nexus.ok(&["sweep", "echo {lr}", "lr=1,2,3", "--name", "grid"]);
    let ann = nexus.in_tmux((100, 30), &[], &["top"]);
    let screen = ann.sees("echo other");
    assert!(line(&screen, "4 Sweeps").contains("4 Sweeps") && line(&screen, "grid").contains("3Q"), "{screen}");
    ann.types("/NIGHT").shows("only one is left", |screen| {
        screen.contains("with-a-tag") && !screen.contains("echo other") && screen.contains("filter: NIGHT")
    });
    ann.key("Enter").sees("only with \"NIGHT\" (Esc: all)");
    ann.types("3w").sees(&format!("why {tagged}"));
    ann.sees("Position:");
    ann.key("Escape").sees("3 Queue");
    ann.types("s").sees(&format!("all about {tagged}"));
    ann.types("q").sees("3 Queue");
    ann.key("Escape").sees("echo other");
    ann.types("4").key("Enter").sees("Parameters:");
    ann.key("Escape").sees("3 Queue");
    ann.types("?").sees("leave; all goes on");
    ann.key("Escape").sees("3 Queue");
    ann.types("5").sees("there is no other machine than this one");
    ann.key("C-c").sees("left with 0");
}

#[test]
fn a_log_is_followed_and_a_terminal_attached_to() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo 日本 begun; read -r word; echo \"<$word>\"; seq 100; printf 'at 50%%\\r'; read -r word");
    nexus.in_state(&id, "running");
    let ann = nexus.in_tmux(SMALL, &[], &["top"]);
    ann.sees("GPU 0");
    ann.key("Enter").sees("日本 begun");
    ann.types("a").sees(&format!("[attached to {id}; Ctrl+A D detaches]"));
    ann.types("hello").key("Enter").sees("at 50%");
    ann.key("C-a").types("d");
    // Back where it was left: in the log.
    ann.sees(&format!("log of {id}, as it comes"));
    ann.sees("at 50%");
    ann.types("g").sees("<hello>");
    ann.sees("G goes to its end");
    ann.types("G").misses("<hello>");
    nexus.ok(&["kill", &id]);
    ann.sees(&format!("log of {id}, killed {id} on GPU 0"));
    ann.key("Escape").sees("killed (user)");
    ann.types("6").sees("r rerun");
    ann.types("a").sees(&format!("error: job {id} cannot be attached to: it has ended"));
    ann.types("q").sees("left with 0");
}

#[test]
fn windows_of_every_size_are_drawn() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 8);
    for _ in 0..8 {
        nexus.add(LONG);
    }
    let last = nexus.add("echo waits");
    let ann = nexus.in_tmux(SMALL, &[], &["top"]);
    ann.sees("echo waits");
    ann.resizes((40, 10)).sees("nexus top needs 60 and 15");
    ann.resizes((120, 40));
    let screen = ann.sees("echo waits");
    assert_eq!(screen.matches(LONG).count(), 8, "{screen}");
    ann.resizes((60, 15)).shows("it is narrow", |screen| {
        screen.contains("3 Queue") && screen.lines().all(|line| line.chars().count() <= 60)
    });
    ann.types("3").sees(&last);
    ann.types("q").sees("left with 0");
}

#[test]
fn ten_thousand_wait_and_all_is_quick() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.ok(&["pause"]);
    let lines: String = (0..10_000).map(|seed| format!("python train.py --seed {seed}\n")).collect();
    let file = nexus.file("many.txt", &lines);
    nexus.ok(&["import", &file.to_string_lossy()]);
    let ann = nexus.in_tmux(SMALL, &[], &["top"]);
    let screen = ann.sees("--seed 0");
    assert!(line(&screen, "3 Queue").contains("10000 jobs pending  [PAUSED]"), "{screen}");
    assert!(line(&screen, "--seed 0").contains("queue paused"), "{screen}");
    ann.types("3");
    // What is read grows as one goes on.
    let first_row = |screen: &str| -> Option<u32> {
        line(screen, "3 Queue").split("rows ").nth(1)?.split(' ').next()?.parse().ok()
    };
    until("rows far down are seen", || first_row(&ann.key("PageDown").screen()).filter(|row| *row > 250));
    ann.types("g").sees("--seed 0");
    ann.types("/seed 7777")
        .shows("one is left", |screen| screen.contains("--seed 7777") && !screen.contains("--seed 0"));
    ann.key("Escape").sees("--seed 0");
    ann.types("Gf").sees("put first");
    ann.types("q").sees("left with 0");
}

#[test]
fn a_service_that_is_away_is_waited_for() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo begun; sleep 1000");
    nexus.in_state(&id, "running");
    let ann = nexus.in_tmux(SMALL, &[], &["top"]);
    ann.sees("sleep 1000");
    nexus.kill_service();
    ann.sees("service is away, waiting for it");
    ann.types("2h").sees("error: ");
    nexus.ok(&["start"]);
    ann.misses("service is away");
    nexus.add("echo after the crash");
    ann.sees("echo after the crash");
    ann.key("Enter").sees("begun");
    nexus.ok(&["restart"]);
    ann.shows("it is there again", |screen| screen.contains("as it comes") && screen.contains("begun"));
    ann.key("Escape").sees("3 Queue");
    nexus.add("echo after the restart");
    ann.sees("echo after the restart");
    nexus.in_state(&id, "running");
    ann.types("q").sees("left with 0");
}

#[test]
fn without_colours_what_is_chosen_is_seen() {
    if !can_look() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.add(LONG);
    let ann = nexus.in_tmux(SMALL, &[("NO_COLOR", "1")], &["top"]);
    ann.sees(LONG);
    let painted = until("the row is marked", || Some(ann.painted()).filter(|screen| screen.contains("\x1b[7m")));
    for code in 30..38 {
        assert!(!painted.contains(&format!("\x1b[{code}m")), "{painted:?}");
    }
    let ben = nexus.in_tmux(SMALL, &[], &["top"]);
    ben.sees(LONG);
    assert!(ben.painted().contains("\x1b[35m"), "{:?}", ben.painted());
}

#[test]
fn without_a_terminal_it_says_what_to_type() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.fails(1, &["top"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: top needs a terminal") && said.contains("nexus prints the same once"), "{said}");
    let dumb = Nexus::with_gpus(NEXUS, 1).env("TERM", "dumb");
    let mut command = dumb.command(&["top"]);
    command.env("TERM", "dumb");
    let mut ann = nexus_testkit::Typist::sit_down(command, SMALL);
    ann.sees("error: top needs a terminal");
    assert_eq!(ann.ends().code, 1);
}
