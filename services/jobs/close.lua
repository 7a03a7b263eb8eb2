-- KEYS: wallet, job, data key. ARGV: job, seq of its last journal entry or '',
-- text for the requests that wait for the job or ''.
-- Closes an ended job whose entry is in the journal topic, and notifies the requests that wait for
-- it. Its record and data key expire soon after.
local shut, _, ended, closed = guarded_fields(KEYS[1], KEYS[2], 'ended', 'closed')
if shut then
  return shut
end
if ended ~= '1' then
  return { 'open' }
end
redis.call('HDEL', KEYS[1], OPEN .. ARGV[1], ENTRY .. ARGV[2])
if closed == '1' then
  return { 'closed' }
end
redis.call('HSET', KEYS[2], 'closed', '1', 'announced', '1')
redis.call('PEXPIRE', KEYS[2], text(CLOSED_JOB_TTL_MS))
redis.call('PEXPIRE', KEYS[3], text(CLOSED_JOB_TTL_MS))
redis.call('PUBLISH', OUTCOMES, ARGV[1] .. ' ' .. ARGV[3])
return { 'closed' }
