-- Format 1. Times are milliseconds since 1970, UTC.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    n              INTEGER PRIMARY KEY,          -- order of submission
    id             TEXT    NOT NULL UNIQUE,
    state          TEXT    NOT NULL,             -- the words of api::jobs::State
    reason         TEXT,
    exit_code      INTEGER,
    signal         INTEGER,
    command        TEXT    NOT NULL,             -- as shown
    spec           TEXT    NOT NULL,             -- api::jobs::JobSpec without its environment
    name           TEXT,
    project        TEXT,
    place_priority INTEGER NOT NULL,             -- core::job::Place
    turn           INTEGER NOT NULL,
    retries_used   INTEGER NOT NULL DEFAULT 0,
    start_failures INTEGER NOT NULL DEFAULT 0,
    runs           INTEGER NOT NULL DEFAULT 0,   -- number of the newest run
    not_before     INTEGER,
    env            TEXT    NOT NULL,             -- hash into envs
    secrets        TEXT,                         -- hash into secrets, until the job has ended
    submitted_at   INTEGER NOT NULL,
    started_at     INTEGER,                      -- of the newest run
    ended_at       INTEGER
) STRICT;
CREATE INDEX jobs_live ON jobs (place_priority, turn, state) WHERE ended_at IS NULL;
CREATE INDEX jobs_active ON jobs (state) WHERE ended_at IS NULL AND state IN ('starting', 'running');
CREATE INDEX jobs_ended ON jobs (ended_at, n) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_ended_by_state ON jobs (state, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_by_name ON jobs (name) WHERE name IS NOT NULL;
CREATE INDEX jobs_by_project ON jobs (project) WHERE project IS NOT NULL;
CREATE INDEX jobs_by_env ON jobs (env);
CREATE INDEX jobs_by_secrets ON jobs (secrets) WHERE secrets IS NOT NULL;

CREATE TABLE runs (
    n          INTEGER NOT NULL,                 -- of the job
    number     INTEGER NOT NULL,
    machine    TEXT    NOT NULL,
    gpus       TEXT    NOT NULL,                 -- indices, comma separated
    cpus       INTEGER NOT NULL,
    simulated  INTEGER NOT NULL,                 -- 1: the GPUs were made up
    dir        TEXT    NOT NULL,                 -- its run directory
    planned_at INTEGER NOT NULL,
    pid        INTEGER,
    started_at INTEGER,
    stop       TEXT,                             -- who asked for its end: user, stopped
    ended_at   INTEGER,
    outcome    TEXT,                             -- api::jobs::RunOutcome
    tidied     INTEGER NOT NULL DEFAULT 0,       -- 1: its run directory was cleared
    PRIMARY KEY (n, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_untidy ON runs (n, number) WHERE ended_at IS NOT NULL AND tidied = 0;

CREATE TABLE tags (
    tag TEXT    NOT NULL,
    n   INTEGER NOT NULL,
    PRIMARY KEY (tag, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_of_job ON tags (n);

-- Environments, once per content. Those that look like secrets lie apart: they do not outlive their jobs.
CREATE TABLE envs (
    hash TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE secrets (
    hash TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How many jobs ended in each way: nothing counts rows to show a number.
CREATE TABLE totals (
    state TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO totals VALUES ('completed', 0), ('failed', 0), ('killed', 0);
