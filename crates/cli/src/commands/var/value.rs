//! A value from the terminal, where it is not shown, or from a pipe.

use std::io::{self, IsTerminal, Read};

use nexus_api::variables::LONGEST_VALUE;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::error::{CliError, Refused};
use crate::ui::Ui;

/// Keys that mean something else than themselves.
const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const CLEAR_LINE: u8 = 0x15;

pub fn read(name: &str, ui: &Ui) -> Result<String, CliError> {
    let bytes = match io::stdin().is_terminal() {
        true => {
            ui.draw_line(&format!("Value of {name} (not shown): "));
            let typed = typed();
            ui.say("");
            typed
        }
        false => piped(),
    };
    let bytes = bytes.map_err(CliError::io(format!("the value of {name} could not be read")))?;
    let bytes = bytes.ok_or_else(|| not_set(name, "nothing was typed"))?;
    String::from_utf8(bytes).map_err(|_| not_set(name, "the value is not valid UTF-8"))
}

fn not_set(name: &str, why: &str) -> CliError {
    Refused { error: format!("{name} is not set"), why: Some(why.into()), hint: None }.into()
}

/// All there is, up to a size that no value has, without one last newline.
fn piped() -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(LONGEST_VALUE as u64 + 2).read_to_end(&mut bytes)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(Some(bytes))
}

/// Key by key, so that no signal leaves the terminal without its echo. None for one who thought better of it.
fn typed() -> io::Result<Option<Vec<u8>>> {
    let _hidden = Hidden::begin()?;
    let mut value: Vec<u8> = Vec::new();
    let mut key = [0];
    while io::stdin().lock().read(&mut key)? == 1 {
        match key[0] {
            b'\n' | b'\r' | END => return Ok(Some(value)),
            INTERRUPT => return Ok(None),
            CLEAR_LINE => value.clear(),
            0x7f | 0x08 => while value.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte if value.len() <= LONGEST_VALUE => value.push(byte),
            _ => {}
        }
    }
    Ok(None)
}

/// The terminal without echo, as it was before when this is dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn begin() -> io::Result<Hidden> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Hidden { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
