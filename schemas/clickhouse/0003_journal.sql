-- The audit copy of the money journal: a set of entries that are signed one by one, each stored when
-- it comes. It never decides anything.
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
    mac String
)
ENGINE = MergeTree
ORDER BY (tenant, seq)
SETTINGS non_replicated_deduplication_window = 1000;
