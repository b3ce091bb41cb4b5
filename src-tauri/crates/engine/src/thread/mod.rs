//! One task per thread: `actor` takes commands and events in order and lets `core::turn::step` decide; `drive` carries the
//! effects out; `live` holds the open sessions; `prepare` makes a handover's text; `show` turns changes into events.

pub(crate) mod actor;
mod drive;
mod live;
pub(crate) mod prepare;
pub(crate) mod show;
