//! The terminal while top has it: the other screen, clicks, cells drawn over those that were there. Whatever happens it is
//! put back.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_api::shown::is_hidden;
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::{Frame, Terminal};
use rustix::process::{Signal, getpid, kill_process};

use crate::attach::{CALM, LEAVE_ALTERNATE, RawTerminal};
use crate::error::CliError;
use crate::ui;

/// The other screen, no cursor; clicks and the wheel are told, in the form that knows wide windows.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h";

/// Of a terminal that does not say how large it is.
const USUAL: Size = Size { width: 80, height: 24 };

/// Kept where a panic finds it, too.
static ENTERED: AtomicBool = AtomicBool::new(false);

pub struct Screen {
    terminal: Terminal<Ansi>,
    /// None while somebody else has the terminal.
    raw: Option<RawTerminal>,
}

impl Screen {
    pub fn enter() -> Result<Screen, CliError> {
        let raw = Some(RawTerminal::enter()?);
        ENTERED.store(true, Ordering::Relaxed);
        let terminal = Terminal::new(Ansi { out: vec![] }).map_err(shown)?;
        let mut screen = Screen { terminal, raw };
        screen.begin()?;
        Ok(screen)
    }

    fn begin(&mut self) -> Result<(), CliError> {
        ui::to_terminal(ENTER).map_err(shown)?;
        self.forget()
    }

    /// What stands on it is nobody's any more: all is drawn with the next picture.
    pub fn forget(&mut self) -> Result<(), CliError> {
        self.terminal.clear().map_err(shown)
    }

    /// Stops this process, as Ctrl+Z does elsewhere, and goes on when it is continued.
    pub fn suspend(&mut self) -> Result<(), CliError> {
        restore();
        drop(self.raw.take());
        // A shell that cannot be stopped for goes on at once.
        let _ = kill_process(getpid(), Signal::TSTP);
        self.raw = Some(RawTerminal::enter()?);
        ENTERED.store(true, Ordering::Relaxed);
        self.begin()
    }

    /// The next keys; none when the terminal is gone.
    pub async fn keys(&self) -> Option<Vec<u8>> {
        self.raw.as_ref()?.keys().await
    }

    pub fn size(&self) -> Size {
        size()
    }

    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> Result<(), CliError> {
        self.terminal.draw(picture).map(drop).map_err(shown)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Back to the screen of before, if it was left. Also for those who leave in a hurry; the modes of the line are
/// [put back](crate::attach::restore) by their own keeper.
pub fn restore() {
    if ENTERED.swap(false, Ordering::Relaxed) {
        // A terminal that is gone needs no care.
        let _ = ui::to_terminal(&[CALM, LEAVE_ALTERNATE].concat());
    }
}

fn size() -> Size {
    ui::window().map_or(USUAL, |(width, height)| Size { width, height })
}

fn shown(error: io::Error) -> CliError {
    CliError::io("the screen could not be drawn")(error)
}

/// Draws with the sequences that every terminal of the last decades knows: places, and the colours of nexus.
struct Ansi {
    out: Vec<u8>,
}

impl Backend for Ansi {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, cells: I) -> io::Result<()> {
        let mut style = (Color::Reset, Color::Reset, Modifier::empty());
        let mut next = None;
        self.out.extend_from_slice(b"\x1b[0m");
        for (column, row, cell) in cells {
            if next != Some((column, row)) {
                write!(self.out, "\x1b[{};{}H", row + 1, column + 1)?;
            }
            // A wide letter moves further than one; where it ends is said anew.
            next = cell.symbol().is_ascii().then_some((column + 1, row));
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if wanted != style {
                self.out.extend_from_slice(sequence(wanted).as_bytes());
                style = wanted;
            }
            // Renderers made it visible already. What they forgot is not obeyed either.
            let symbol = if cell.symbol().contains(is_hidden) { "?" } else { cell.symbol() };
            self.out.extend_from_slice(symbol.as_bytes());
        }
        self.out.extend_from_slice(b"\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[?25h")
    }

    /// Nobody asks: all of the screen is ours.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.out, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[0m\x1b[2J")
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        Ok(size())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: size(), pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        ui::to_terminal(&std::mem::take(&mut self.out))
    }
}

/// From nothing, so that it does not hang on what was set before.
fn sequence((ink, paper, modifier): (Color, Color, Modifier)) -> String {
    let mut codes = vec![0];
    for (flag, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)] {
        codes.extend(modifier.contains(flag).then_some(code));
    }
    codes.extend(number(ink).map(|number| 30 + number));
    codes.extend(number(paper).map(|number| 40 + number));
    let codes: Vec<String> = codes.iter().map(u16::to_string).collect();
    format!("\x1b[{}m", codes.join(";"))
}

/// Of the sixteen; no others are used.
fn number(colour: Color) -> Option<u16> {
    Some(match colour {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn cells_become_places_colours_and_letters() {
        let mut backend = Ansi { out: vec![] };
        let mut red = Cell::new("a");
        red.set_style(Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        let (wide, plain) = (Cell::new("日"), Cell::new("b"));
        backend.draw([(0, 0, &red), (1, 0, &wide), (3, 0, &plain)].into_iter()).unwrap();
        assert_eq!(String::from_utf8(backend.out).unwrap(), "\x1b[0m\x1b[1;1H\x1b[0;1;31ma\x1b[0m日\x1b[1;4Hb\x1b[0m");
    }

    #[test]
    fn no_cell_moves_the_cursor() {
        let mut backend = Ansi { out: vec![] };
        let cells = ["\x1b[2J", "a\u{202e}", "\u{9b}A", "b"].map(Cell::new);
        let places = cells.iter().enumerate().map(|(column, cell)| (column as u16, 0, cell));
        backend.draw(places).unwrap();
        let drawn = String::from_utf8(backend.out).unwrap();
        assert!(!drawn.contains(['\u{202e}', '\u{9b}']) && !drawn.contains("\x1b[2J"), "{drawn:?}");
        assert_eq!(drawn.matches('?').count(), 3, "{drawn:?}");
    }
}
