-- What each new job cost most: two indices that few jobs are ever looked for by. How many jobs have a spec in common is
-- counted; identities of jobs that have not ended are in the service's memory (store/twins.rs).
ALTER TABLE specs ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
UPDATE specs SET uses = (SELECT count(*) FROM jobs WHERE shared = specs.n);
DELETE FROM specs WHERE uses = 0;
DROP INDEX jobs_by_shared;
DROP INDEX jobs_by_identity;
CREATE INDEX jobs_by_identity ON jobs (identity) WHERE ended_at IS NOT NULL;
