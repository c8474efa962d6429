"""The tables of the store, and how a file comes to have them.

An item is one row of `items`, stored items and beliefs alike, told apart by `layer`.  What ranks is
its pieces: the words of each are in `words`, an index without content, and its vectors beside it, one
for each embedder that has seen it; `owed` says which have not.  `topics` counts what is written about
one thread or document, so that a build knows what it owes without comparing times.
"""

import sqlite3

from tinymemory.errors import ConfigError

APPLICATION_ID = 0x546D656D  # "Tmem"

_VERSION_1 = """
CREATE TABLE items (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of listings; never used twice
    layer INTEGER NOT NULL,                    -- 0 stored, 1 belief
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    source_kind TEXT NOT NULL,
    source_id TEXT,
    workspace TEXT,
    folder TEXT,
    file_path TEXT,
    language TEXT,
    repo TEXT,
    git_commit TEXT,
    url TEXT,
    thread_id TEXT,
    first_turn INTEGER,
    last_turn INTEGER,
    agent_id TEXT,
    tool_call TEXT,
    observed_at INTEGER,                       -- microseconds since 1970
    topic INTEGER REFERENCES topics (number),
    meta TEXT NOT NULL,                        -- JSON
    content TEXT NOT NULL,                     -- JSON of the item without its meta
    UNIQUE (layer, id)
);
CREATE INDEX items_by_place ON items (layer, namespace, kind);
CREATE INDEX items_by_thread ON items (thread_id, namespace, first_turn) WHERE thread_id IS NOT NULL;
CREATE INDEX items_by_topic ON items (topic) WHERE topic IS NOT NULL;

CREATE TABLE tags (
    item INTEGER NOT NULL REFERENCES items (number) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (item, tag)
) WITHOUT ROWID;

CREATE TABLE pieces (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    item INTEGER NOT NULL REFERENCES items (number) ON DELETE CASCADE,
    whole INTEGER NOT NULL,                    -- 1 when the piece is the item
    page INTEGER,
    section TEXT,
    text TEXT NOT NULL,
    context TEXT NOT NULL                      -- title, section, file, speaker: searched, not shown
);
CREATE INDEX pieces_by_item ON pieces (item);

CREATE VIRTUAL TABLE words USING fts5 (
    text, context, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE embedders (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    UNIQUE (id, dimensions)
);
CREATE TABLE signatures (
    piece INTEGER NOT NULL REFERENCES pieces (number) ON DELETE CASCADE,
    embedder INTEGER NOT NULL,
    bits BLOB NOT NULL,
    PRIMARY KEY (piece, embedder)
) WITHOUT ROWID;
CREATE TABLE vectors (
    piece INTEGER NOT NULL REFERENCES pieces (number) ON DELETE CASCADE,
    embedder INTEGER NOT NULL,
    components BLOB NOT NULL,
    length REAL NOT NULL,
    PRIMARY KEY (piece, embedder)
) WITHOUT ROWID;
CREATE TABLE owed (
    embedder INTEGER NOT NULL REFERENCES embedders (number),
    piece INTEGER NOT NULL REFERENCES pieces (number) ON DELETE CASCADE,
    PRIMARY KEY (embedder, piece)
) WITHOUT ROWID;
CREATE INDEX owed_by_piece ON owed (piece);

CREATE TABLE topics (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,               -- goes up with each write and each forget
    built INTEGER NOT NULL DEFAULT 0,          -- the generation the last build read
    seen INTEGER NOT NULL DEFAULT 0,           -- the last item that build read
    UNIQUE (namespace, kind, name)
);
CREATE INDEX topics_unbuilt ON topics (namespace, kind) WHERE built < generation;

CREATE TABLE grounds (
    belief INTEGER NOT NULL REFERENCES items (number) ON DELETE CASCADE,
    source INTEGER NOT NULL REFERENCES items (number) ON DELETE CASCADE,
    topic INTEGER NOT NULL REFERENCES topics (number) ON DELETE CASCADE,
    PRIMARY KEY (belief, source)
) WITHOUT ROWID;
CREATE INDEX grounds_by_source ON grounds (source);
CREATE INDEX grounds_by_topic ON grounds (topic);
"""

MIGRATIONS = (_VERSION_1,)
"""What takes a file from each version to the next; a file's version is its `user_version`."""


def ensure_schema(connection: sqlite3.Connection, name: str) -> None:
    """Bring a file up to date; any number of processes may do so at once.

    Raises:
        ConfigError: The file is another program's, or a newer version of this one wrote it.
    """
    ensure_ours(connection, name)
    if _version(connection) == len(MIGRATIONS):
        return
    with connection:  # rolls back and commits; the transaction is begun here
        connection.execute("BEGIN IMMEDIATE")
        # Read again: somebody else may have been first.
        for version in range(_version(connection), len(MIGRATIONS)):
            for statement in _statements(MIGRATIONS[version]):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def ensure_ours(connection: sqlite3.Connection, name: str) -> None:
    """Raise `ConfigError` unless the file is empty or ours, and of no newer version."""
    # One statement sees one state of the file, which others may be making ours just now.
    version, application_id, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if application_id != APPLICATION_ID and (tables or version or application_id):
        raise ConfigError(f"`{name}` is a database of another program")
    if version > len(MIGRATIONS):
        raise ConfigError(f"`{name}` was written by a newer version of TinyMemory: update this one")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version


def _statements(script: str) -> list[str]:
    # Not `executescript()`: it commits the transaction it is in.
    statements: list[str] = []
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements
