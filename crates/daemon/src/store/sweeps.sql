-- Environments and secrets by a number: a row of a job has no room for their hashes. No number is given twice, since
-- what was read is remembered by it.
CREATE TABLE numbered_envs (
    n    INTEGER PRIMARY KEY AUTOINCREMENT,
    hash TEXT NOT NULL UNIQUE,
    data TEXT NOT NULL
) STRICT;
INSERT INTO numbered_envs (hash, data) SELECT hash, data FROM envs;
CREATE TABLE numbered_secrets (
    n    INTEGER PRIMARY KEY AUTOINCREMENT,
    hash TEXT NOT NULL UNIQUE,
    data TEXT NOT NULL
) STRICT;
INSERT INTO numbered_secrets (hash, data) SELECT hash, data FROM secrets;
DROP INDEX jobs_by_env;
DROP INDEX jobs_by_secrets;
ALTER TABLE jobs ADD COLUMN env_n INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN secrets_n INTEGER;
UPDATE jobs SET env_n = coalesce((SELECT n FROM numbered_envs WHERE hash = env), 0),
                secrets_n = (SELECT n FROM numbered_secrets WHERE hash = secrets);
ALTER TABLE jobs DROP COLUMN env;
ALTER TABLE jobs DROP COLUMN secrets;
ALTER TABLE jobs RENAME COLUMN env_n TO env;
ALTER TABLE jobs RENAME COLUMN secrets_n TO secrets;
DROP TABLE envs;
DROP TABLE secrets;
ALTER TABLE numbered_envs RENAME TO envs;
ALTER TABLE numbered_secrets RENAME TO secrets;
CREATE INDEX jobs_by_secrets ON jobs (secrets) WHERE secrets IS NOT NULL;

-- What the specs of many jobs have in common, once per content. The rest is in `spec`, or all of it where `shared` is NULL.
CREATE TABLE specs (
    n    INTEGER PRIMARY KEY AUTOINCREMENT,
    hash INTEGER NOT NULL UNIQUE,                -- crate::digest of the rest
    data TEXT    NOT NULL,                       -- as `spec`, without what is a job's own
    env  INTEGER NOT NULL                        -- the environment of all of them
) STRICT;
CREATE INDEX specs_by_env ON specs (env);
ALTER TABLE jobs ADD COLUMN shared INTEGER;
CREATE INDEX jobs_by_shared ON jobs (shared) WHERE shared IS NOT NULL;
CREATE INDEX jobs_by_env ON jobs (env) WHERE shared IS NULL;

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
    killed       INTEGER NOT NULL DEFAULT 0,
    completed_ms INTEGER NOT NULL DEFAULT 0      -- run times of the completed, together
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
