-- Jobs that came to their end. The manifest names the blocks that count and the rows each won. No
-- row replaces another, as a forged one could then remove the true one.
CREATE TABLE IF NOT EXISTS jobs
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
