-- KEYS: wallet, job. ARGV: job. Everything of the job is produced: whoever waits for it may be
-- answered.
local found = redis.call('HMGET', KEYS[2], 'status', 'announced', 'claimedIn')
local status, announced, claimed_in = unpack(found)
local shut = shut_for({ status = status, claimedIn = claimed_in }, KEYS[1])
if shut then
  return shut
end
if not status then
  return { 'unknown' }
end
if status == 'queued' then
  redis.call('HSET', KEYS[2], 'announced', '1', 'status', 'preparing',
    'updatedAtMs', text(now_ms()))
elseif announced ~= '1' then
  redis.call('HSET', KEYS[2], 'announced', '1')
end
redis.call('PUBLISH', OUTCOMES, ARGV[1])
return { 'announced' }
