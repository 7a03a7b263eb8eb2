-- The wrapped data keys of jobs, as the topic job.keys has them, for readers of closed jobs. A job
-- may have several rows, each of which opens it; those that are erased or rewrapped are deleted,
-- and their bytes are to leave the disk soon.
CREATE TABLE IF NOT EXISTS job_keys
(
    tenant LowCardinality(String),
    job String,
    wrapped_base64 String EPHEMERAL,
    wrapped String DEFAULT base64Decode(wrapped_base64) CODEC(NONE),
    created DateTime64(3, 'UTC'),
    mac String
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(created)
ORDER BY (tenant, job)
TTL toDateTime(created) + INTERVAL 91 DAY
SETTINGS non_replicated_deduplication_window = 1000, old_parts_lifetime = 1,
    cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 5;
