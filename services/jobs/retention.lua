-- How long Redis keeps the state of a job.

-- A closed job is in ClickHouse, and so is its data key once ledger has copied it. Record and key
-- stay in Redis for services that still process messages of the job.
local CLOSED_JOB_TTL_MS = 600000
local DATA_KEY_TTL_MS = 7862400000
-- Of the data key of a claim, which outlives a job with the longest deadline, 48 h; one that runs
-- for longer has its key restored from the topic job.keys.
local CLAIMED_KEY_TTL_MS = 259200000
-- Of what waits of a job. Every retry of a batch renews it, and the close of the job deletes it.
local WAITING_TTL_MS = 259200000
