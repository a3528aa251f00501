-- How long runs of a command took that completed.
ALTER TABLE learned ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE learned ADD COLUMN total_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE learned ADD COLUMN longest_ms INTEGER NOT NULL DEFAULT 0;
INSERT INTO learned (same, peak_mib, runs, total_ms, longest_ms)
SELECT same, 0, count(*), sum(max(ended_at - started_at, 0)), max(max(ended_at - started_at, 0))
FROM jobs WHERE state = 'completed' AND started_at IS NOT NULL AND ended_at IS NOT NULL GROUP BY same
ON CONFLICT (same) DO UPDATE SET runs = excluded.runs, total_ms = excluded.total_ms, longest_ms = excluded.longest_ms;
