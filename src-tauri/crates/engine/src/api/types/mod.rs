//! What the API takes and gives, a file a resource. Rust declares, TypeScript is generated (house rule 5).

macro_rules! wire {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
        #[serde(rename_all = "camelCase")]
        $vis struct $name { $($(#[$fmeta])* pub $field: $ty),* }
    )+};
}

mod agent;
mod app;
mod approval;
mod event;
mod handoff;
mod history;
mod message;
mod project;
mod provider;
mod search;
mod setting;
mod thread;
mod turn;

pub use self::{
    agent::*, app::*, approval::*, event::*, handoff::*, history::*, message::*, project::*, provider::*, search::*,
    setting::*, thread::*, turn::*,
};
