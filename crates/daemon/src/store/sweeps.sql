-- Sweeps: many jobs that are one thing. How many of them wait or run is known without a look here.
CREATE TABLE sweeps (
    n            INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE,
    project      TEXT,
    command      TEXT    NOT NULL,               -- with its {names}
    params       TEXT    NOT NULL,               -- their names in order, a JSON list
    extract      TEXT    NOT NULL,               -- names of values taken from output, a JSON list
    plan         TEXT    NOT NULL,               -- api::sweeps::Plan
    copies       INTEGER NOT NULL,
    max_running  INTEGER,
    stop_after   INTEGER NOT NULL,
    stopped      TEXT,                           -- why the rest of it was held
    submitted_at INTEGER NOT NULL,
    jobs         INTEGER NOT NULL,               -- those that were repeated since do not count, here and below
    completed    INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    killed       INTEGER NOT NULL DEFAULT 0
) STRICT;
ALTER TABLE jobs ADD COLUMN sweep INTEGER;
ALTER TABLE jobs ADD COLUMN replaced_by TEXT;                     -- the job of the same sweep that repeats it
CREATE INDEX jobs_by_sweep ON jobs (sweep, n) WHERE sweep IS NOT NULL;

-- Values that commands name. One that was taken back stays until the last job that needs it has ended.
CREATE TABLE variables (
    name   TEXT PRIMARY KEY,
    value  TEXT    NOT NULL,
    is_set INTEGER NOT NULL,
    set_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which jobs that have not ended need which.
CREATE TABLE variables_needed (
    name TEXT    NOT NULL,
    n    INTEGER NOT NULL,                       -- of the job
    PRIMARY KEY (name, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX variables_of_job ON variables_needed (n);

-- What a job left behind.
CREATE INDEX jobs_copying ON jobs (n) WHERE ended_at IS NULL AND state = 'copying';
ALTER TABLE jobs ADD COLUMN found TEXT;                           -- api::results::Found
ALTER TABLE jobs ADD COLUMN results TEXT;                         -- the folder that has a copy, or is to have it
ALTER TABLE jobs ADD COLUMN results_state TEXT;                   -- a word of api::results::ResultsState; NULL = none
ALTER TABLE jobs ADD COLUMN results_error TEXT;                   -- why the last copy failed
CREATE INDEX jobs_uncopied ON jobs (ended_at) WHERE results_state = 'failed';
