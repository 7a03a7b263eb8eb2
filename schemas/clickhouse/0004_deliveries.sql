-- Every attempt to deliver an event to a receiver. Its address is sealed in the job's header.
CREATE TABLE IF NOT EXISTS deliveries
(
    tenant LowCardinality(String),
    job String,
    event String,
    attempt UInt32,
    type LowCardinality(String),
    at DateTime64(3, 'UTC'),
    outcome LowCardinality(String),
    reason LowCardinality(String) COMMENT 'empty for what was delivered',
    http_status UInt16 COMMENT '0 when there was no answer',
    duration_ms UInt32,
    next_at Nullable(DateTime64(3, 'UTC')),
    stored DateTime64(3, 'UTC') DEFAULT now64(3),
    mac String
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (tenant, job, event, attempt)
TTL toDateTime(at) + INTERVAL 90 DAY;
