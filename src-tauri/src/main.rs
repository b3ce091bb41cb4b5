//! The window. With a sub-command this program is the same command line as `changeover`.

#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod window;

fn main() -> anyhow::Result<()> {
    tauri::Builder::default()
        .plugin(tauri_plugin_single_instance::init(|app, _, _| {
            window::focus(app);
        }))
        .plugin(tauri_plugin_window_state::Builder::default().build())
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_opener::init())
        .setup(|app| {
            window::open(app)?;
            Ok(())
        })
        .run(tauri::generate_context!())?;
    Ok(())
}
