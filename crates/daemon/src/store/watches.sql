-- Files whose new entries become jobs, until somebody ends it.
CREATE TABLE watches (
    file   TEXT PRIMARY KEY,          -- its absolute path
    format TEXT,                      -- a word of api::job_file::Format; NULL until it is known
    spec   TEXT    NOT NULL,          -- api::jobs::JobSpec with its environment: what entries do not say
    again  INTEGER NOT NULL,          -- 1: entries that are known are queued all the same
    since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Entries that stand in the file and were taken: by a number made from their bytes, and how often.
CREATE TABLE watched_entries (
    file  TEXT    NOT NULL,
    entry INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (file, entry)
) STRICT, WITHOUT ROWID;
