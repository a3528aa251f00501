-- How jobs are submitted to a machine that is a cluster, in JSON; NULL for one that is none.
ALTER TABLE machines ADD COLUMN slurm TEXT;
