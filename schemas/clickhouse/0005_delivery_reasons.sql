-- Why an attempt came to nothing, as a code; empty for what was delivered.
ALTER TABLE deliveries
    ADD COLUMN IF NOT EXISTS reason LowCardinality(String) AFTER outcome;
