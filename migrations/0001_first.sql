-- The first schema. Never edited once landed: a change is a new file.
-- Ids are UUIDs as 16-byte blobs; inside, rows refer to each other by their integer `key`. Times are milliseconds since
-- the Unix epoch. JSON columns hold what only Rust reads. There are no foreign keys: a thread's end never reaches another (S4).

CREATE TABLE project (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    path TEXT NOT NULL UNIQUE,               -- the real path, links resolved
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE TABLE thread (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    project INTEGER NOT NULL,
    title TEXT NOT NULL,
    titled_by_user INTEGER NOT NULL DEFAULT 0,
    target TEXT,                             -- JSON: provider and model of the next turn (T7)
    parent BLOB,                             -- lineage (F1) by id, so that it outlives the parent
    root BLOB,
    forked_at INTEGER,
    merged_upto INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    pinned_at INTEGER,
    deleted_at INTEGER,
    last_seq INTEGER NOT NULL DEFAULT 0,
    last_content_seq INTEGER NOT NULL DEFAULT 0,
    seen_seq INTEGER NOT NULL DEFAULT 0,
    phase TEXT,                              -- of the newest turn, for the sidebar
    draft TEXT NOT NULL DEFAULT ''
);
CREATE INDEX thread_project ON thread (project);

-- A message exists once, whatever number of threads hold it.
CREATE TABLE message (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    provider TEXT,
    model TEXT,
    stamp INTEGER NOT NULL DEFAULT 0,        -- session_stamp.key of the session that gave this reply (B8); 0: none
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    notice TEXT                              -- JSON, of system rows only
);

-- The exact text of a handover (T4), beside its notice and read on its own.
CREATE TABLE handover (
    message INTEGER PRIMARY KEY,
    text TEXT NOT NULL
);

-- A session in one incarnation, as replies name it.
CREATE TABLE session_stamp (
    key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    UNIQUE (session_id, incarnation)
);

-- Where a message stands in a thread, and the sizes of its items (H3): this table alone answers a handoff's selection.
CREATE TABLE thread_message (
    thread INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    message INTEGER NOT NULL,
    role INTEGER NOT NULL,                   -- 0 user, 1 assistant, 2 system
    stamp INTEGER NOT NULL DEFAULT 0,
    pinned INTEGER NOT NULL DEFAULT 0,
    excluded INTEGER NOT NULL DEFAULT 0,
    textless INTEGER NOT NULL DEFAULT 0,     -- a content message without a text item
    commands INTEGER NOT NULL DEFAULT 0,
    least INTEGER,                           -- bytes of its smallest item; NULL: it has none
    items BLOB,                              -- 9 bytes each: place (u32 LE), kind (0 user, 1 assistant, 2 command), bytes (u32 LE)
    PRIMARY KEY (thread, seq)
) WITHOUT ROWID;
CREATE INDEX thread_message_message ON thread_message (message);
CREATE INDEX thread_message_pinned ON thread_message (thread, seq) WHERE pinned = 1;
CREATE INDEX thread_message_excluded ON thread_message (thread, seq) WHERE excluded = 1;
CREATE INDEX thread_message_textless ON thread_message (thread, seq) WHERE textless = 1;

-- What lies in 256 (level 1) or 65,536 (level 2) numbers of a thread, by session stamp: the smallest item of each kind
-- that may be handed over, and how much there is. A search passes over blocks in which nothing fits; "less its own" (B8)
-- is one comparison.
CREATE TABLE block (
    thread INTEGER NOT NULL,
    level INTEGER NOT NULL,
    block INTEGER NOT NULL,                  -- seq / 256, seq / 65536
    stamp INTEGER NOT NULL,
    least INTEGER,                           -- of all kinds
    least_user INTEGER,
    least_assistant INTEGER,
    messages INTEGER NOT NULL,               -- content messages, excluded ones included
    commands INTEGER NOT NULL,
    PRIMARY KEY (thread, level, block, stamp)
) WITHOUT ROWID;

-- A part. Its text (of a text or reasoning, or a command's output) is `text` followed by its chunks in order.
CREATE TABLE part (
    key INTEGER PRIMARY KEY,                 -- message << 20 | ordinal: a message's parts lie side by side, in order
    message INTEGER NOT NULL,
    item TEXT NOT NULL,                      -- the runtime's item id (S2)
    superseded INTEGER NOT NULL DEFAULT 0,
    chunked INTEGER NOT NULL DEFAULT 0,      -- whether there are chunks
    body TEXT NOT NULL,                      -- JSON, its text left out
    text TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX part_item ON part (message, item);

CREATE TABLE chunk (
    part INTEGER NOT NULL,
    n INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (part, n)
) WITHOUT ROWID;

CREATE TABLE provider_session (
    key INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    provider TEXT NOT NULL,
    session_id TEXT NOT NULL,
    live INTEGER NOT NULL,
    retired_at INTEGER,
    record TEXT NOT NULL                     -- JSON
);
CREATE UNIQUE INDEX provider_session_id ON provider_session (provider, session_id) WHERE live = 1; -- T11
CREATE UNIQUE INDEX provider_session_live ON provider_session (thread, provider) WHERE live = 1;
CREATE INDEX provider_session_thread ON provider_session (thread);

CREATE TABLE turn (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    thread INTEGER NOT NULL,
    client_id TEXT NOT NULL,
    open INTEGER NOT NULL,
    record TEXT NOT NULL,                    -- JSON, its handover left out
    UNIQUE (thread, client_id)
);
CREATE UNIQUE INDEX turn_open ON turn (thread) WHERE open = 1; -- one open turn per thread

-- What an open turn's prompt tells, until it is a notice. Apart, so that a change of phase does not write it again.
CREATE TABLE turn_handover (
    turn INTEGER PRIMARY KEY,
    handover TEXT NOT NULL,                  -- JSON
    text TEXT
);

-- Every prompt that was ever written to a runtime: a second time is refused.
CREATE TABLE prompt (
    id BLOB PRIMARY KEY,
    turn INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX prompt_turn ON prompt (turn);

CREATE TABLE queue (
    thread INTEGER NOT NULL,
    position INTEGER NOT NULL,
    record TEXT NOT NULL,                    -- JSON
    PRIMARY KEY (thread, position)
) WITHOUT ROWID;

CREATE TABLE approval (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    thread INTEGER NOT NULL,
    turn BLOB NOT NULL,
    open INTEGER NOT NULL,
    record TEXT NOT NULL                     -- JSON
);
CREATE INDEX approval_open ON approval (thread) WHERE open = 1;
CREATE INDEX approval_thread ON approval (thread);
CREATE INDEX approval_turn ON approval (turn);

-- "This command in this thread" (R4).
CREATE TABLE rule (
    thread INTEGER NOT NULL,
    rule TEXT NOT NULL,
    PRIMARY KEY (thread, rule)
) WITHOUT ROWID;

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL                      -- JSON
) WITHOUT ROWID;

-- Messages whose text the search index does not hold yet.
CREATE TABLE search_pending (
    message INTEGER PRIMARY KEY
);
