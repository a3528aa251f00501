-- Machines that jobs run on, and the classes that they are of. Neither number is ever given twice: jobs name them.
CREATE TABLE classes (
    n    INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO classes VALUES (0, 'default');

CREATE TABLE machines (
    n          INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    address    TEXT,                             -- as it was given; NULL: the service's own host
    home       TEXT,                             -- the folder there, if one was chosen
    simulated  INTEGER NOT NULL DEFAULT 0,       -- so many GPUs that do not exist stand in for its own
    class      INTEGER,                          -- NULL while it is being set up
    paused     INTEGER NOT NULL DEFAULT 0,
    quarantine TEXT,                             -- since when, how many failed, which last: 1700000000000 3 abc
    leaving    INTEGER NOT NULL DEFAULT 0,
    setup      TEXT,                             -- the class that it joins, and the job whose completion ends its set-up: 2 abc
    added_at   INTEGER NOT NULL,
    removed_at INTEGER                           -- added again under its name it has its number again
) STRICT;
INSERT INTO machines (n, name, class, added_at) VALUES (0, 'local', 0, 0);

-- The command ran on the service's host, for a machine that was held for it.
ALTER TABLE runs ADD COLUMN driver INTEGER NOT NULL DEFAULT 0;
