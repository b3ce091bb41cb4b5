//! Sessions, turns, the queue and approvals as records.

use changeover_core::{
    Millis,
    provider::ProviderId,
    session::SessionRecord,
    turn::record::{Approval, ApprovalState, Queued, TurnRecord},
};
use rusqlite::{OptionalExtension, params};

use super::{Batch, taken};
use crate::{
    codec::{json, word},
    error::{Fault, Result},
};

impl Batch<'_> {
    /// Puts the provider's live session. Another id than before retires the one before (T11: an id is live once).
    pub(super) fn put_session(&self, record: &SessionRecord) -> Result<()> {
        let provider = record.provider.as_str();
        let live: Option<(i64, String)> = self
            .tx
            .prepare_cached(
                "SELECT key, session_id FROM provider_session WHERE thread = ?1 AND provider = ?2 AND live = 1",
            )?
            .query_row(params![self.thread, provider], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let text = json("a session", record)?;
        if let Some((key, _)) = live.as_ref().filter(|(_, id)| *id == record.session_id) {
            self.tx
                .prepare_cached("UPDATE provider_session SET record = ?2 WHERE key = ?1")?
                .execute(params![key, text])?;
            return Ok(());
        }
        if live.is_some() {
            self.retire_session(&record.provider, self.touched)?;
        }
        self.tx
            .prepare_cached(
                "INSERT INTO provider_session (thread, provider, session_id, live, record) VALUES (?1, ?2, ?3, 1, ?4)",
            )?
            .execute(params![self.thread, provider, record.session_id, text])
            .map_err(|error| {
                taken(error, || format!("session {} of {provider} is live in another thread (T11)", record.session_id))
            })?;
        Ok(())
    }

    pub(super) fn retire_session(&self, provider: &ProviderId, at: Option<Millis>) -> Result<()> {
        self.tx
            .prepare_cached(
                "UPDATE provider_session SET live = 0, retired_at = ?3 WHERE thread = ?1 AND provider = ?2 AND live = 1",
            )?
            .execute(params![self.thread, provider.as_str(), at])?;
        Ok(())
    }

    /// Puts a turn. Its handover lies apart, is written again only when it changes, and goes when the turn ends: then it is a
    /// notice, or nothing was told.
    pub(super) fn put_turn(&mut self, turn: &TurnRecord, text: Option<&str>) -> Result<()> {
        let mut bare = turn.clone();
        let handover = bare.handover.take();
        let record = json("a turn", &bare)?;
        let open = !turn.phase.is_terminal();
        let found: Option<(i64, i64, String)> = self
            .tx
            .prepare_cached("SELECT key, thread, record FROM turn WHERE id = ?1")?
            .query_row([turn.id.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let second = |error| taken(error, || format!("turn {} cannot be open: the thread has an open turn", turn.id));
        let (key, before) = match found {
            Some((_, thread, _)) if thread != self.thread => {
                return Err(Fault::invariant(format!("turn {} belongs to another thread", turn.id)));
            }
            Some((key, _, before)) => {
                self.tx
                    .prepare_cached("UPDATE turn SET open = ?2, record = ?3 WHERE key = ?1")?
                    .execute(params![key, open, record])
                    .map_err(second)?;
                let before: TurnRecord = crate::codec::parse(|| format!("turn {}", turn.id), &before)?;
                (key, before.prompt)
            }
            None => {
                let same: bool = self
                    .tx
                    .prepare_cached("SELECT EXISTS (SELECT 1 FROM turn WHERE thread = ?1 AND client_id = ?2)")?
                    .query_row(params![self.thread, turn.client_id], |row| row.get(0))?;
                if same {
                    return Err(Fault::invariant(format!("request {} has its turn already", turn.client_id)));
                }
                self.tx
                    .prepare_cached(
                        "INSERT INTO turn (id, thread, client_id, open, record) VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![turn.id.0.as_bytes(), self.thread, turn.client_id, open, record])
                    .map_err(second)?;
                (self.tx.last_insert_rowid(), None)
            }
        };
        if let Some(prompt) = turn.prompt.filter(|prompt| Some(*prompt) != before) {
            self.tx
                .prepare_cached("INSERT INTO prompt (id, turn) VALUES (?1, ?2)")?
                .execute(params![prompt.0.as_bytes(), key])
                .map_err(|error| taken(error, || format!("prompt {prompt} was written before")))?;
        }
        match handover.filter(|_| open) {
            Some(handover) => {
                let handover = json("a handover", &handover)?;
                self.tx
                    .prepare_cached(
                        "INSERT INTO turn_handover (turn, handover, text) VALUES (?1, ?2, ?3)
                         ON CONFLICT (turn) DO UPDATE SET handover = excluded.handover, text = coalesce(excluded.text, text)
                         WHERE handover <> excluded.handover OR text IS NOT coalesce(excluded.text, text)",
                    )?
                    .execute(params![key, handover, text])?;
            }
            None => {
                self.tx.prepare_cached("DELETE FROM turn_handover WHERE turn = ?1")?.execute([key])?;
            }
        }
        self.tx
            .prepare_cached("UPDATE thread SET phase = ?2 WHERE key = ?1 AND phase IS NOT ?2")?
            .execute(params![self.thread, word(&turn.phase)?])?;
        self.touch(Some(turn.ended_at.unwrap_or(turn.started_at)));
        Ok(())
    }

    pub(super) fn put_queue(&self, queue: &[Queued]) -> Result<()> {
        self.tx.prepare_cached("DELETE FROM queue WHERE thread = ?1")?.execute([self.thread])?;
        let mut sql = self.tx.prepare_cached("INSERT INTO queue (thread, position, record) VALUES (?1, ?2, ?3)")?;
        for (position, queued) in queue.iter().enumerate() {
            let position = i64::try_from(position).unwrap_or(i64::MAX);
            sql.execute(params![self.thread, position, json("a queued message", queued)?])?;
        }
        Ok(())
    }

    pub(super) fn put_approval(&self, approval: &Approval) -> Result<()> {
        self.tx
            .prepare_cached(
                "INSERT INTO approval (id, thread, turn, open, record) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (id) DO UPDATE SET open = excluded.open, record = excluded.record",
            )?
            .execute(params![
                approval.id.0.as_bytes(),
                self.thread,
                approval.turn.0.as_bytes(),
                approval.state == ApprovalState::Open,
                json("an approval", approval)?
            ])?;
        Ok(())
    }
}
