//! Settings: JSON values by name. One that cannot be read is reported on its own and hides no other (R003).

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use crate::{
    Store, codec,
    error::{Result, StoreError},
};

/// All settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Those that can be read.
    pub values: BTreeMap<String, Value>,
    /// The names of those that cannot, and why.
    pub bad: BTreeMap<String, String>,
}

impl Store {
    /// A setting's value; `None`: never set.
    ///
    /// # Errors
    /// `BadRecord` where it is no JSON; the database cannot be read.
    pub fn setting(&self, name: &str) -> Result<Option<Value>, StoreError> {
        self.read(|conn| {
            let text: Option<String> = conn
                .prepare_cached("SELECT value FROM setting WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()?;
            text.map(|text| codec::parse(|| format!("setting {name}"), &text)).transpose()
        })
    }

    /// All settings, the bad ones apart.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn settings(&self) -> Result<Settings, StoreError> {
        self.read(|conn| {
            let mut all = Settings::default();
            let mut sql = conn.prepare_cached("SELECT name, value FROM setting")?;
            let mut rows = sql.query([])?;
            while let Some(row) = rows.next()? {
                let name: String = row.get(0)?;
                let value = row.get_ref(1)?.as_str().map_err(|error| error.to_string());
                match value.and_then(|text| serde_json::from_str(text).map_err(|error| error.to_string())) {
                    Ok(value) => drop(all.values.insert(name, value)),
                    Err(why) => drop(all.bad.insert(name, why)),
                }
            }
            Ok(all)
        })
    }

    /// Sets a setting; `null` removes it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn put_setting(&self, name: String, value: Value) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.transaction(false, |tx| {
                if value.is_null() {
                    tx.execute("DELETE FROM setting WHERE name = ?1", [&name])?;
                } else {
                    tx.execute(
                        "INSERT INTO setting (name, value) VALUES (?1, ?2)
                         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                        params![name, value.to_string()],
                    )?;
                }
                Ok(())
            })
        })
        .await
    }
}
