-- Sealed results, as they came from the pipeline. A block may be stored several times, and a forged
-- one beside it: no row replaces another. The digest distinguishes copies from other blocks, and the
-- manifest of the job, not this table, says which blocks count. Bytes travel as base64 through the
-- ephemeral column, because formats of text are all the client offers.
CREATE TABLE IF NOT EXISTS result_blocks
(
    tenant LowCardinality(String),
    job String,
    chunk UInt32,
    digest FixedString(64) COMMENT 'hex SHA-256 of all that makes up a block; checked by readers',
    batch Int32 COMMENT 'batch of verify, -1 for a block of lookup; only binds the seal',
    chunks UInt32,
    rows_schema UInt32 COMMENT 'registry id of the schema of the sealed rows',
    bound FixedString(64) COMMENT 'hex SHA-256 of what is counted, which the seal is bound to',
    originals Array(UInt32) COMMENT 'indexes, in the chunk, of originals that have duplicates',
    rows UInt32,
    sealed_base64 String EPHEMERAL,
    sealed String DEFAULT base64Decode(sealed_base64) CODEC(NONE),
    created DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(created)
ORDER BY (tenant, job, chunk, digest)
TTL toDateTime(created) + INTERVAL 97 DAY
SETTINGS non_replicated_deduplication_window = 1000;
