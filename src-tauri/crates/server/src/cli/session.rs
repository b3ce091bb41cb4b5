//! A command's way to the data folder's engine (U9). Another process's engine may end at any time: then whoever has the folder
//! next is asked, which may be this very process.

use changeover_engine::api::{
    error::{ApiError, ErrorCode},
    types::Event,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;

use super::{
    output,
    signals::{Signal, Signals},
};
use crate::{
    door::{Connection, Door},
    launch,
};

/// How many engines of others a command outlives before it gives up.
pub(super) const ENGINES: usize = 64;

/// A command's connection, and its own engine if it had to start one.
pub(super) struct Session {
    options: launch::Options,
    pub(super) connection: Connection,
    pub(super) events: mpsc::Receiver<Vec<Event>>,
    pub(super) door: Door,
}

/// Whether an error says that the engine that was asked has ended.
pub(super) fn is_lost(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|error| error.code == ErrorCode::Closing)
}

impl Session {
    pub(super) async fn open(options: &launch::Options) -> anyhow::Result<Self> {
        let (connection, events, door) = reach(options).await?;
        Ok(Self { options: options.clone(), connection, events, door })
    }

    /// Asks, again where the engine ended before it answered.
    pub(super) async fn ask<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &P,
    ) -> anyhow::Result<R> {
        let mut engines = 1;
        loop {
            match self.connection.ask(method, params).await {
                Err(error) if error.code == ErrorCode::Closing && engines < ENGINES => self.reopen().await?,
                answer => return Ok(answer?),
            }
            engines += 1;
        }
    }

    /// Connects anew: to the same engine, or whoever has the data folder now.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        if let Ok((connection, events)) = self.door.connect().await {
            (self.connection, self.events) = (connection, events);
            return Ok(());
        }
        (self.connection, self.events, self.door) = reach(&self.options).await?;
        Ok(())
    }

    /// Ends the engine if it is this process's own, once the turns that others asked it for have ended: an engine that goes
    /// takes nobody's turn with it. Asked to end meanwhile, it stops them in good order.
    pub(super) async fn close(self, asked: Option<Signal>) {
        let Self { connection, events, door, .. } = self;
        drop((connection, events));
        let Door::Own(running) = door else { return };
        let mut stop = asked == Some(Signal::Terminate);
        if !stop && let Ok(mut signals) = Signals::new() {
            let mut told = 0;
            let settled = running.settle(|turns| {
                if turns > 0 && turns != told {
                    told = turns;
                    let what = if turns == 1 { "A turn" } else { "Turns" };
                    output::note(format!(
                        "{what} of other terminals or windows run here ({turns}); this waits for the end. \
                         Ctrl-C stops them."
                    ));
                }
            });
            tokio::select! {
                () = settled => {}
                _ = signals.next() => stop = true,
            }
        }
        if stop {
            running.stop_turns().await;
        }
        running.close().await;
    }
}

async fn reach(options: &launch::Options) -> anyhow::Result<(Connection, mpsc::Receiver<Vec<Event>>, Door)> {
    let mut engines = 1;
    loop {
        let door = launch::open(options).await?;
        match door.connect().await {
            Ok((connection, events)) => return Ok((connection, events, door)),
            // It ended in this very moment.
            Err(_) if engines < ENGINES => engines += 1,
            Err(error) => return Err(error),
        }
    }
}
