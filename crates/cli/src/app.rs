//! What every command is given: a way to print, and the home it works in.

use nexus_api::paths::Home;
use nexus_daemon::config::ConfigFile;

use crate::client::Client;
use crate::error::CliError;
use crate::start::{self, Began, StartOptions};
use crate::ui::Ui;

pub struct App {
    pub ui: Ui,
    pub home: Home,
    pub client: Client,
}

impl App {
    /// For pure reads: where no service runs, the first call says so.
    pub fn reader(&self) -> Client {
        self.client.clone()
    }

    /// For all others: a service is started when none runs.
    pub async fn started(&self) -> Result<Client, CliError> {
        self.start(StartOptions::default()).await?;
        Ok(self.reader())
    }

    /// The same without the question whether it answers, for a first request that may be made again where the service
    /// turns out [to be gone](CliError::NoService).
    pub async fn reached(&self) -> Result<Client, CliError> {
        match self.client.connects().await? {
            true => Ok(self.reader()),
            false => self.started().await,
        }
    }

    /// Makes sure that a service answers. A new home on a network file system is told about, this once.
    pub async fn start(&self, options: StartOptions) -> Result<Began, CliError> {
        let is_new = !self.home.database().exists();
        // Before the service makes the home strict: whoever starts it hears what the next start refuses.
        let doubts = ConfigFile::of(&self.home).doubts();
        let began = start::ensure(&self.client, &self.home, &options).await?;
        if began == Began::Now {
            doubts.iter().for_each(|doubt| self.ui.warn(doubt));
        }
        if is_new && self.home.network {
            self.ui.warn(&format!(
                "{} is on a network file system: slower, and for this host alone; NEXUS_HOME on a local disk is better",
                self.home.dir.display()
            ));
        }
        Ok(began)
    }
}
