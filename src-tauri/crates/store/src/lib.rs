//! The transcript on disk: SQLite, one writer, a pool of readers, migrations.
