-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job, data key, what waits of it. ARGV: job, seq of its last journal entry or ''.
-- Closes an ended job whose entry is in the journal topic, and notifies the requests that wait for
-- it. Its record and data key expire soon after.
local fields = record_of(KEYS[2])
local locked = locked_for(fields)
if locked then
  return locked
end
if fields.ended ~= '1' then
  return { 'open' }
end
local removed = { OPEN .. ARGV[1] }
-- If Redis lost the entry since, its seq may belong to another job; the record says so.
if fields.settleSeq == ARGV[2] then
  removed[2] = ENTRY .. ARGV[2]
end
redis.call('HDEL', WALLET, unpack(removed))
redis.call('UNLINK', KEYS[4])
if fields.closed == '1' then
  return { 'closed' }
end
buffer({}, { INLINE_RESULTS, '' })
change(KEYS[2], fields, { 'closed', '1', 'announced', '1' })
redis.call('PEXPIRE', KEYS[2], text(CLOSED_JOB_TTL_MS))
redis.call('PEXPIRE', KEYS[3], text(CLOSED_JOB_TTL_MS))
notify(ARGV[1], fields)
return { 'closed' }
