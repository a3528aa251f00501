-- What was queued under a key of its sender's, so that sending it again queues nothing.
CREATE TABLE submissions (
    key    TEXT PRIMARY KEY,
    digest INTEGER NOT NULL,           -- of what was asked for
    sweep  TEXT,                       -- its name, if it was one
    ids    TEXT    NOT NULL,           -- of the jobs, one in a line
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX submissions_by_time ON submissions (at);
