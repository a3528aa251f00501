-- Ids of forgotten jobs. No other job is called so: what is left of one somewhere would be taken for the other's.
CREATE TABLE retired (
    id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
