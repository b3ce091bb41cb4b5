//! One engine per data folder (U9): an OS lock says who it is, and a file that only the user can read says where. The lock
//! goes with its process, so a stale one is taken over by itself.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Where the running engine can be reached.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    /// Bearer token of this run.
    pub token: String,
    /// Process id, for messages only: never used to signal.
    pub pid: u32,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("url", &self.url).field("token", &"…").field("pid", &self.pid).finish()
    }
}

/// The data folder is ours for as long as this lives.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
    address: PathBuf,
}

/// Who has the data folder.
#[derive(Debug)]
pub enum Claim {
    /// We do.
    Ours(FolderLock),
    /// Another engine does, and can be reached there.
    Theirs(Address),
    /// Another engine does, and has not yet said where (it is starting or ending).
    Silent,
}

fn address_file(folder: &Path) -> PathBuf {
    folder.join("engine.json")
}

/// Claims the data folder, making it if it is not there.
///
/// # Errors
/// The folder or the lock file cannot be made or opened.
pub fn claim(folder: &Path) -> io::Result<Claim> {
    std::fs::create_dir_all(folder)?;
    private_folder(folder)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("engine.lock"))?;
    match file.try_lock() {
        Ok(()) => {
            // Whoever wrote it is gone: nobody may go to a port that is somebody else's by now.
            match std::fs::remove_file(address_file(folder)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            Ok(Claim::Ours(FolderLock { _file: file, address: address_file(folder) }))
        }
        Err(std::fs::TryLockError::WouldBlock) => Ok(read_address(folder).map_or(Claim::Silent, Claim::Theirs)),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

fn read_address(folder: &Path) -> Option<Address> {
    let mut text = String::new();
    File::open(address_file(folder)).ok()?.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

impl FolderLock {
    /// Says where this engine can be reached; the file appears whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&self, address: &Address) -> io::Result<()> {
        let new = self.address.with_extension("json.new");
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        serde_json::to_writer(&mut file, address)?;
        file.flush()?;
        drop(file);
        // Not synced: after a power cut there is no engine to be found, and the next one removes the file.
        std::fs::rename(&new, &self.address)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Best effort: a file left behind is harmless, the next claim removes it.
        let _ = std::fs::remove_file(&self.address);
    }
}

#[cfg(unix)]
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn private_folder(_folder: &Path) -> io::Result<()> {
    // The user's profile folder is private to the user on Windows.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u9_the_second_finds_the_first_and_a_stale_claim_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let Claim::Ours(first) = claim(folder.path()).unwrap() else { panic!("not ours") };
        assert!(matches!(claim(folder.path()).unwrap(), Claim::Silent));
        let address = Address { url: "http://127.0.0.1:1".into(), token: "t".into(), pid: 7 };
        first.publish(&address).unwrap();
        match claim(folder.path()).unwrap() {
            Claim::Theirs(found) => assert_eq!(found, address),
            other => panic!("{other:?}"),
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join("engine.json")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(first);
        std::fs::write(folder.path().join("engine.json"), "left behind").unwrap();
        assert!(matches!(claim(folder.path()).unwrap(), Claim::Ours(_)));
        assert!(!folder.path().join("engine.json").exists());
    }
}
