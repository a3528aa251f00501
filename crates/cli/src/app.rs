//! What every command is given: a way to print, and the home it works in.

use nexus_api::paths::Home;

use crate::client::Client;
use crate::error::CliError;
use crate::start::{self, StartOptions};
use crate::ui::Ui;

pub struct App {
    pub ui: Ui,
    pub home: Home,
}

impl App {
    /// For pure reads: where no service runs, the first call says so.
    pub fn reader(&self) -> Client {
        Client::new(&self.home)
    }

    /// For all others: a service is started when none runs.
    pub async fn started(&self) -> Result<Client, CliError> {
        start::ensure(&self.home, StartOptions::default()).await?;
        Ok(self.reader())
    }
}
