-- No row replaces another in any table, as a forged one could then remove the true one: readers
-- choose among those that are authentic. Rows of before have digests of another kind, so none are
-- kept.
DROP TABLE IF EXISTS jobs;
CREATE TABLE jobs
(
    tenant LowCardinality(String),
    job String,
    service LowCardinality(String),
    status LowCardinality(String),
    total_rows UInt32,
    charged_micros Int64,
    released_micros Int64,
    created DateTime64(3, 'UTC'),
    ended DateTime64(3, 'UTC'),
    record String COMMENT 'the job as JSON, without its header' CODEC(ZSTD(3)),
    header_base64 String EPHEMERAL,
    header String DEFAULT base64Decode(header_base64) COMMENT 'sealed' CODEC(NONE),
    manifest_base64 String EPHEMERAL,
    manifest String DEFAULT base64Decode(manifest_base64) COMMENT 'zstd of JSON' CODEC(NONE),
    mac String COMMENT 'of tenant, job, record and header; the record names the manifest',
    stored DateTime64(3, 'UTC') DEFAULT now64(3),
    CONSTRAINT fits_in_memory CHECK byteSize(job, record, header, manifest, mac) < 16000000
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(created)
ORDER BY (tenant, job)
SETTINGS non_replicated_deduplication_window = 1000;
DROP TABLE IF EXISTS result_blocks;
CREATE TABLE result_blocks
(
    tenant LowCardinality(String),
    job String,
    chunk UInt32,
    digest FixedString(64) COMMENT 'hex SHA-256 of all that makes up a block; checked by readers',
    part Int32 COMMENT '-1 for a block of lookup; only binds the seal',
    chunks UInt32,
    rows_schema UInt32 COMMENT 'registry id of the schema of the sealed rows',
    bound FixedString(64) COMMENT 'hex SHA-256 of what is counted, which the seal is bound to',
    originals Array(UInt32) COMMENT 'indexes, in the chunk, of originals that have duplicates',
    rows UInt32,
    succeeded UInt32,
    failed UInt32,
    cached UInt32,
    sealed_base64 String EPHEMERAL,
    sealed String DEFAULT base64Decode(sealed_base64) CODEC(NONE),
    created DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(created)
ORDER BY (tenant, job, chunk, digest)
TTL toDateTime(created) + INTERVAL 97 DAY
SETTINGS non_replicated_deduplication_window = 1000;
