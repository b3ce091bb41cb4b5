//! From the program's start to its end, when it shows a window.

use std::{
    ffi::OsString,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    process::ExitCode,
};

use changeover_server::launch::{self, Options};
use tauri::{AppHandle, Manager as _, RunEvent};
use tauri_plugin_dialog::{DialogExt as _, MessageDialogKind};

use crate::{
    rpc::{self, Line},
    window,
};

/// How to open the window, if that is what these words ask for: none at all, or only a data folder. Anything else is for the
/// command line.
pub fn window_options(words: &[OsString]) -> Option<Options> {
    let data = match words {
        [] => None,
        [flag, folder] if flag == "--data" => Some(PathBuf::from(folder)),
        [word] => Some(PathBuf::from(word.to_str()?.strip_prefix("--data=")?)),
        _ => return None,
    };
    Some(Options { data, window: true, look: true, ..Options::default() })
}

/// One window per data folder: a second start finds the first by this name on the session bus.
fn instance_name(options: &Options) -> String {
    let identifier = "dev.changeover.desktop";
    let unicode = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let env = std::env::vars_os().filter_map(unicode).collect();
    let Ok(folder) = launch::data_folder(options.data.as_deref(), &env) else { return identifier.to_owned() };
    let mut hash = DefaultHasher::new();
    folder.hash(&mut hash);
    format!("{identifier}.data{:016x}", hash.finish())
}

/// Opens the window and stays until it is closed.
pub fn run(options: Options) -> ExitCode {
    changeover_server::cli::start_log();
    let single = tauri_plugin_single_instance::Builder::new()
        .dbus_id(instance_name(&options))
        .callback(|app, _, _| window::focus(app))
        .build();
    let built = tauri::Builder::default()
        .plugin(single)
        .plugin(tauri_plugin_window_state::Builder::default().build())
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_opener::init())
        .manage(Line::new(options))
        .invoke_handler(tauri::generate_handler![rpc::rpc])
        .setup(|app| {
            // The engine starts while the webview does; the page's first request waits for it.
            let handle = app.handle().clone();
            tauri::async_runtime::spawn(async move {
                if let Err(error) = handle.state::<Line>().reach().await {
                    give_up(&handle, &error);
                }
            });
            window::open(app)?;
            Ok(())
        })
        .build(tauri::generate_context!());
    let app = match built {
        Ok(app) => app,
        Err(error) => {
            eprintln!("changeover: the window could not be opened: {error}");
            eprintln!("Without a display, `changeover serve` gives the same interface to a browser.");
            return ExitCode::FAILURE;
        }
    };
    let code = app.run_return(|app, event| {
        if matches!(event, RunEvent::Exit) {
            tauri::async_runtime::block_on(app.state::<Line>().close());
        }
    });
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Says why no engine could be started, and ends.
fn give_up(app: &AppHandle, error: &anyhow::Error) {
    eprintln!("changeover: {error:#}");
    let done = app.clone();
    app.dialog()
        .message(format!("{error:#}"))
        .title("Changeover could not start")
        .kind(MessageDialogKind::Error)
        .show(move |_| done.exit(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Option<Option<PathBuf>> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        window_options(&words).map(|options| options.data)
    }

    #[test]
    fn a_window_unless_something_else_is_asked_for() {
        assert_eq!(words(&[]), Some(None));
        assert_eq!(words(&["--data", "/a b"]), Some(Some("/a b".into())));
        assert_eq!(words(&["--data=/a"]), Some(Some("/a".into())));
        for line in [
            &["serve"][..],
            &["--version"],
            &["--help"],
            &["--data"],
            &["thread", "list"],
            &["--data", "/a", "serve"],
            &["guard"],
        ] {
            assert_eq!(words(line), None, "{line:?}");
        }
    }

    #[test]
    fn each_data_folder_has_an_instance_name_of_its_own() {
        let name = |folder: &str| instance_name(&Options { data: Some(folder.into()), ..Options::default() });
        assert_eq!(name("/a"), name("/a"));
        assert_ne!(name("/a"), name("/b"));
        assert!(name("/a").starts_with("dev.changeover.desktop.data"));
    }
}
