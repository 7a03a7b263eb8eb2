-- Proof that a service stored the record; its record names the digest of the manifest.
ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS mac String AFTER manifest;
