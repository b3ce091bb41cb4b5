//! FC5: kill -9 of the app, on the practice agent and on the real CLIs. `CHANGEOVER_SOAK` asks for the full figures (`./dev soak`),
//! `CHANGEOVER_SEED` for other moments than those of every `./dev test`.

mod agents;
mod partition;
mod points;
mod random;
mod scene;
mod screen;
