-- Jobs that came to their end. The manifest names the blocks that count and the rows each won.
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
    stored DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(stored)
PARTITION BY toYYYYMM(created)
ORDER BY (tenant, job);
