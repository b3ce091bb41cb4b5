BEGIN TRANSACTION;
CREATE TABLE approval (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    thread INTEGER NOT NULL,
    turn BLOB NOT NULL,
    open INTEGER NOT NULL,
    record TEXT NOT NULL                     -- JSON
);
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
INSERT INTO "block" VALUES(1,1,0,0,27,27,NULL,2,0);
INSERT INTO "block" VALUES(1,1,0,1,37,NULL,13500,1,1);
INSERT INTO "block" VALUES(1,2,0,0,27,27,NULL,2,0);
INSERT INTO "block" VALUES(1,2,0,1,37,NULL,13500,1,1);
CREATE TABLE chunk (
    part INTEGER NOT NULL,
    n INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (part, n)
) WITHOUT ROWID;
INSERT INTO "chunk" VALUES(2097152,1,'streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed ');
INSERT INTO "chunk" VALUES(2097152,2,'streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed ');
INSERT INTO "chunk" VALUES(2097152,3,'streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed streamed ');
CREATE TABLE handover (
    message INTEGER PRIMARY KEY,
    text TEXT NOT NULL
);
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
INSERT INTO "message" VALUES(1,X'00000000000000000000000010000001','user','done',NULL,NULL,0,1001,NULL,NULL);
INSERT INTO "message" VALUES(2,X'00000000000000000000000010000002','assistant','done','claude',NULL,1,1002,5000,NULL);
INSERT INTO "message" VALUES(3,X'00000000000000000000000010000003','user','done',NULL,NULL,0,1003,NULL,NULL);
CREATE TABLE part (
    key INTEGER PRIMARY KEY,                 -- message << 20 | ordinal: a message's parts lie side by side, in order
    message INTEGER NOT NULL,
    item TEXT NOT NULL,                      -- the runtime's item id (S2)
    superseded INTEGER NOT NULL DEFAULT 0,
    chunked INTEGER NOT NULL DEFAULT 0,      -- whether there are chunks
    body TEXT NOT NULL,                      -- JSON, its text left out
    text TEXT NOT NULL DEFAULT ''
);
INSERT INTO "part" VALUES(1048576,1,'t',0,0,'{"type":"text","text":""}','a question 👩‍🚀   ');
INSERT INTO "part" VALUES(2097152,2,'t',0,1,'{"type":"text","text":""}','');
INSERT INTO "part" VALUES(2097153,2,'c',0,0,'{"type":"command","command":"ls","status":"completed","exitCode":0,"output":""}','a
b
');
INSERT INTO "part" VALUES(3145728,3,'t',0,0,'{"type":"text","text":""}','kept back');
CREATE TABLE project (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    path TEXT NOT NULL UNIQUE,               -- the real path, links resolved
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
INSERT INTO "project" VALUES(1,X'00000000000000000000000000000001','/work/p','p',1);
CREATE TABLE prompt (
    id BLOB PRIMARY KEY,
    turn INTEGER NOT NULL
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
CREATE TABLE queue (
    thread INTEGER NOT NULL,
    position INTEGER NOT NULL,
    record TEXT NOT NULL,                    -- JSON
    PRIMARY KEY (thread, position)
) WITHOUT ROWID;
CREATE TABLE rule (
    thread INTEGER NOT NULL,
    rule TEXT NOT NULL,
    PRIMARY KEY (thread, rule)
) WITHOUT ROWID;
INSERT INTO "rule" VALUES(1,'edit');
CREATE TABLE search_pending (
    message INTEGER PRIMARY KEY
);
CREATE TABLE session_stamp (
    key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    UNIQUE (session_id, incarnation)
);
INSERT INTO "session_stamp" VALUES(1,'s',0);
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL                      -- JSON
) WITHOUT ROWID;
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
INSERT INTO "thread" VALUES(1,X'00000000000000000000000000000007',1,'',0,'{"provider":"claude","model":"m","effort":null,"mode":"ask"}',NULL,NULL,NULL,NULL,2,5000,NULL,NULL,NULL,3,3,0,'preparing','');
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
INSERT INTO "thread_message" VALUES(1,1,1,0,0,0,0,0,0,27,X'00000000001B000000');
INSERT INTO "thread_message" VALUES(1,2,2,1,1,0,0,0,1,37,X'0000000001BC340000010000000225000000');
INSERT INTO "thread_message" VALUES(1,3,3,0,0,0,1,0,0,9,X'000000000009000000');
CREATE TABLE turn (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    thread INTEGER NOT NULL,
    client_id TEXT NOT NULL,
    open INTEGER NOT NULL,
    record TEXT NOT NULL,                    -- JSON, its handover left out
    UNIQUE (thread, client_id)
);
INSERT INTO "turn" VALUES(1,X'00000000000000000000000020000001',1,'client 1',1,'{"id":"00000000-0000-0000-0000-000020000001","client_id":"client 1","message":"00000000-0000-0000-0000-000010000001","message_seq":1,"target":{"provider":"claude","model":"m","effort":null,"mode":"ask"},"phase":"preparing","attempt":1,"gone":false,"prompt":null,"session":null,"anchor_before":null,"known_before":0,"handover":null,"upto":1,"reply":null,"started_at":10,"ended_at":null,"failure":null}');
CREATE TABLE turn_handover (
    turn INTEGER PRIMARY KEY,
    handover TEXT NOT NULL,                  -- JSON
    text TEXT
);
CREATE INDEX thread_project ON thread (project);
CREATE INDEX thread_message_message ON thread_message (message);
CREATE INDEX thread_message_pinned ON thread_message (thread, seq) WHERE pinned = 1;
CREATE INDEX thread_message_excluded ON thread_message (thread, seq) WHERE excluded = 1;
CREATE INDEX thread_message_textless ON thread_message (thread, seq) WHERE textless = 1;
CREATE UNIQUE INDEX part_item ON part (message, item);
CREATE UNIQUE INDEX provider_session_id ON provider_session (provider, session_id) WHERE live = 1;
CREATE UNIQUE INDEX provider_session_live ON provider_session (thread, provider) WHERE live = 1;
CREATE INDEX provider_session_thread ON provider_session (thread);
CREATE UNIQUE INDEX turn_open ON turn (thread) WHERE open = 1;
CREATE INDEX prompt_turn ON prompt (turn);
CREATE INDEX approval_open ON approval (thread) WHERE open = 1;
CREATE INDEX approval_thread ON approval (thread);
CREATE INDEX approval_turn ON approval (turn);
COMMIT;
