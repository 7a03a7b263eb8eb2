-- The end of jobs: result blocks, and the final records of jobs that end with them, in one insert.
-- It keeps nothing: the views write each row to its table. A row is a block if it has a digest, and
-- a final record if it has a record.
CREATE TABLE IF NOT EXISTS settled
(
    tenant String,
    job String,
    chunk UInt32,
    digest String,
    batch Int32,
    chunks UInt32,
    rows_schema UInt32,
    bound String,
    originals Array(UInt32),
    rows UInt32,
    sealed_base64 String,
    service String,
    status String,
    total_rows UInt32,
    charged_micros Int64,
    released_micros Int64,
    created DateTime64(3, 'UTC'),
    ended DateTime64(3, 'UTC'),
    record String,
    header_base64 String,
    manifest_base64 String,
    mac String
)
ENGINE = Null;
CREATE MATERIALIZED VIEW IF NOT EXISTS settled_blocks TO result_blocks AS
SELECT tenant, job, chunk, digest, batch, chunks, rows_schema, bound, originals, rows,
    base64Decode(sealed_base64) AS sealed
FROM settled
WHERE digest != '';
CREATE MATERIALIZED VIEW IF NOT EXISTS settled_jobs TO jobs AS
SELECT tenant, job, service, status, total_rows, charged_micros, released_micros, created, ended,
    record, base64Decode(header_base64) AS header, base64Decode(manifest_base64) AS manifest, mac
FROM settled
WHERE record != '';
