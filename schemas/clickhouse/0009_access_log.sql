-- The copy of the topic access.log: a set of entries that are signed one by one with their numbers,
-- each stored when it comes. The tenant is the organization, or "installation". Customers read the
-- entries of one organization; an audit reads all of them by number.
CREATE TABLE IF NOT EXISTS access_log
(
    tenant LowCardinality(String),
    seq UInt64,
    entry_id String,
    at DateTime64(3, 'UTC'),
    actor_kind LowCardinality(String),
    actor String,
    action LowCardinality(String),
    target String,
    address String,
    outcome LowCardinality(String),
    details String,
    mac String,
    INDEX seqs seq TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (tenant, seq)
SETTINGS merge_selector_base = 30;
