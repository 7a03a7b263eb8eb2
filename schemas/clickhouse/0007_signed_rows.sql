-- Rows of the journal and of the history of deliveries carry proof that a service stored them. No
-- row replaces another, as a forged one could then remove the true one: whoever reads chooses
-- among those that are authentic. Rows of before carry no proof, so none are kept.
DROP TABLE IF EXISTS journal;
CREATE TABLE journal
(
    tenant LowCardinality(String),
    seq UInt64,
    entry_id String,
    type LowCardinality(String),
    job String,
    amount_micros Int64,
    charge_micros Int64,
    available_micros Int64,
    reserved_micros Int64,
    charged_micros Int64,
    funded_micros Int64,
    at DateTime64(3, 'UTC'),
    reason String,
    header_base64 String EPHEMERAL,
    header String DEFAULT base64Decode(header_base64) COMMENT 'sealed' CODEC(NONE),
    prev FixedString(64),
    hash FixedString(64),
    mac String
)
ENGINE = MergeTree
ORDER BY (tenant, seq)
SETTINGS non_replicated_deduplication_window = 1000;
DROP TABLE IF EXISTS deliveries;
CREATE TABLE deliveries
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
