//! Git: what a folder is and which repositories a project holds.
