//! The window. With a sub-command this program is the same command line as `changeover`, before any window is thought of.

#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod rpc;
mod start;
mod window;

use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match start::window_options(args.get(1..).unwrap_or_default()) {
        Some(options) => start::run(options),
        None => changeover_server::cli::run_args(args),
    }
}
