-- KEYS: wallet, job, data key. ARGV: job, number of its last entry or ''.
-- Closes a job that has ended, and whose entry is in the journal topic; what Redis has of it goes
-- soon afterwards, and its data key as well.
local found = redis.call('HMGET', KEYS[2], 'status', 'ended', 'closed', 'announced', 'claimedIn')
local status, ended, closed, announced, claimed_in = unpack(found)
local shut = shut_for({ status = status, claimedIn = claimed_in }, KEYS[1])
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
redis.call('PEXPIRE', KEYS[2], text(CLOSED_KEPT_MS))
redis.call('PEXPIRE', KEYS[3], text(CLOSED_KEPT_MS))
if announced ~= '1' then
  redis.call('PUBLISH', OUTCOMES, ARGV[1])
end
return { 'closed' }
