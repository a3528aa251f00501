-- GPUs that get no new job. By the card, whose number may change at the next boot.
CREATE TABLE paused_gpus (
    machine TEXT NOT NULL,
    uuid    TEXT NOT NULL,
    PRIMARY KEY (machine, uuid)
) STRICT, WITHOUT ROWID;
