-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job. ARGV: job, seq of its reserve entry or ''.
-- Marks the job as produced completely, its reserve entry included, and notifies the request that
-- waits for it.
local fields = record_of(KEYS[2])
local locked = locked_for(fields)
if locked then
  return locked
end
-- If Redis lost the entry since, its seq may belong to another job; the record says so.
if fields.reserveSeq == ARGV[2] then
  redis.call('HDEL', WALLET, ENTRY .. ARGV[2])
end
if not fields.status then
  return { 'unknown' }
end
if fields.status == 'queued' then
  buffer(fields, { 'status', 'preparing', 'updatedAtMs', text(now_ms()) })
end
change(KEYS[2], fields, { 'announced', '1' })
notify(ARGV[1], fields)
return { 'announced' }
