//! When jobs are expected to start and to end.

use std::collections::BTreeMap;

use nexus_api::jobs::{Expected, Job, State};
use nexus_api::problem::Problem;
use nexus_core::event::Needs;
use nexus_core::forecast::{self, Forecast};
use nexus_core::ids::JobId;
use nexus_core::policy::Policy;
use nexus_core::world::World;

use super::App;
use crate::pool::Pool;
use crate::{blocking, clock};

/// So many waiting jobs are looked at; of those behind them nothing is said.
const LOOKED_AT: usize = 200;

impl App {
    /// Says of each that waits or runs what may be expected of it.
    pub(super) async fn expect(&self, jobs: &mut [Job]) -> Result<(), Problem> {
        if !jobs.iter().any(|job| matches!(job.state, State::Queued | State::Starting | State::Running)) {
            return Ok(());
        }
        let forecast =
            self.decided(|world, _, policy| Forecast::of(world, policy, clock::now(), LOOKED_AT, &[])).await?;
        let expected = played(forecast).await?;
        for job in jobs.iter_mut() {
            job.expected = job.id.parse::<JobId>().ok().and_then(|id| Some(told(expected.get(&id)?)));
        }
        Ok(())
    }

    /// The same of one that is not there.
    pub(super) async fn expect_new(&self, needs: Needs, priority: i32) -> Result<Option<Expected>, Problem> {
        let with_it = move |world: &World, _: &Pool, policy: &Policy| {
            let mut forecast = Forecast::of(world, policy, clock::now(), LOOKED_AT, &[needs.same]);
            let id = forecast.submit(needs, priority);
            (forecast, id)
        };
        let (forecast, id) = self.decided(with_it).await?;
        Ok(played(forecast).await?.get(&id).map(told))
    }
}

/// That is not the engine's to do.
async fn played(forecast: Forecast) -> Result<BTreeMap<JobId, forecast::Expected>, Problem> {
    blocking::answer(move || forecast.play()).await
}

fn told(expected: &forecast::Expected) -> Expected {
    Expected {
        start: clock::rfc3339(expected.start),
        end: expected.end.map(clock::rfc3339),
        at_latest: expected.at_latest,
    }
}
