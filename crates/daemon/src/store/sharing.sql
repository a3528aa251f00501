-- What is learned of commands, what a job asks for after it ran out of memory, which job failed it.
ALTER TABLE jobs ADD COLUMN same INTEGER NOT NULL DEFAULT 0;      -- jobs with the same command have the same
ALTER TABLE jobs ADD COLUMN raised TEXT;                          -- MiB of each GPU, or: alone
ALTER TABLE jobs ADD COLUMN failed_by TEXT;                       -- the job that it was to come after

-- Identical jobs have the same; NULL where a spec of long ago cannot be read. Filled by store/fill.rs.
ALTER TABLE jobs ADD COLUMN identity INTEGER;
CREATE INDEX jobs_by_identity ON jobs (identity);

-- Runs that share GPUs hold a part of each (thousandths), an amount of memory, or both; NULL = all of it.
ALTER TABLE runs ADD COLUMN milli INTEGER;
ALTER TABLE runs ADD COLUMN vram_mib INTEGER;
ALTER TABLE runs ADD COLUMN ram_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN peak_mib INTEGER;                     -- the most that it had on one GPU

CREATE TABLE learned (
    same     INTEGER PRIMARY KEY,
    peak_mib INTEGER NOT NULL
) STRICT;
