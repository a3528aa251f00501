//! The database is overwritten with rubbish under a running service, and a copy takes its place.

use std::path::Path;

use nexus_api::problem::Problem;
use nexus_core::apply::Command;
use tokio::sync::oneshot;

use super::{Service, Story};
use crate::engine::Message;
use crate::engine::sim::disk::Files;

/// Orders that are refused before the service is stopped.
const ORDERS: usize = 8;

impl Story {
    /// From the damage on nothing is taken, nothing is started and `stop` ends the service. Then the database is what it was
    /// before, and the story goes on.
    pub fn survives_damage(&mut self) {
        self.set_fault(None);
        self.has_room = true;
        if self.service.as_ref().is_some_and(|service| service.engine.world.stopping()) {
            self.kill_service();
        }
        while self.service.is_none() {
            self.passes(false);
            self.boot();
        }
        let database = self.home.database();
        let sound = Files::read(&database);
        let Some(Service { mut engine, mut watch }) = self.service.take() else { return };
        self.note(format_args!("the database is damaged"));
        self.overwrite(&database);
        engine.store.db().execute_batch("PRAGMA shrink_memory").expect("it needs no file");
        let effects = self.park().effects;
        for _ in 0..ORDERS {
            self.passes(false);
            let job = self.users.plain_job();
            let (message, mut pending) = self.users.ask(job, &mut self.park().ledger);
            engine.outbox.send(message).expect("the engine has the other end");
            let first = engine.inbox.try_recv().ok();
            engine.round(first, &mut watch);
            let told = pending.refusal();
            self.users.heard_nothing(vec![pending]);
            assert!(
                matches!(told, Some(Problem::DatabaseDamaged { .. })),
                "a damaged database takes an order: {told:?}"
            );
            assert!(engine.trouble.get().is_some(), "nobody is told of the damage");
        }
        assert_eq!(self.park().effects, effects, "something is started or ended with a damaged database");
        let (reply, mut stopped) = oneshot::channel();
        let command = Command::Stop { kill: true };
        engine
            .outbox
            .send(Message::Command { command, verb: "stop", skip_unfit: false, reply })
            .expect("the other end");
        let first = engine.inbox.try_recv().ok();
        engine.round(first, &mut watch);
        let answer = stopped.try_recv();
        assert!(matches!(answer, Ok(Ok(_))) && engine.is_over(), "stop does not end it: {answer:?}");
        drop(engine);
        self.park().service_died();
        sound.write(&database);
        self.note(format_args!("the database is what it was"));
    }

    /// The database could not be used for a moment, and is found damaged before it is tried again: for good.
    pub fn hears_of_damage_while_it_waits(&mut self) {
        while self.service.is_none() {
            self.passes(false);
            self.boot();
        }
        let path = self.home.database().display().to_string();
        let Some(Service { mut engine, mut watch }) = self.service.take() else { return };
        engine.gives_up(Problem::Database { path: path.clone(), error: "away".into() }, false, &mut watch);
        let damage = Problem::DatabaseDamaged { path, error: "planted".into(), backup: None };
        engine.outbox.send(Message::Damaged(damage.clone())).expect("the engine has the other end");
        for _ in 0..ORDERS {
            let first = engine.inbox.try_recv().ok();
            engine.round(first, &mut watch);
            self.passes(false);
            assert_eq!(engine.trouble.get(), Some(damage.clone()));
        }
    }

    /// Both files keep their lengths, and nothing in them means anything.
    fn overwrite(&mut self, database: &Path) {
        for suffix in ["", "-wal"] {
            let path = crate::backups::beside(database, suffix);
            let length = std::fs::metadata(&path).map_or(0, |found| found.len());
            let rubbish: Vec<u8> = (0..length).map(|_| self.chance.below(256) as u8).collect();
            std::fs::write(&path, rubbish).expect("the simulation's own folder");
        }
    }
}
