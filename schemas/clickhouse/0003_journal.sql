-- The audit copy of the money journal, one chain of hashes a tenant. It never decides anything.
CREATE TABLE IF NOT EXISTS journal
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
    hash FixedString(64)
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, seq)
SETTINGS non_replicated_deduplication_window = 1000;
