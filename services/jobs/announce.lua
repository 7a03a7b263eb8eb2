-- KEYS: job, gate. ARGV: job. Everything of the job is produced: whoever waits for it may be
-- answered.
local gate = gate_of(KEYS[2])
if gate.shut then
  return gate.shut
end
local found = redis.call('HMGET', KEYS[1], 'status', 'announced')
if not found[1] then
  return { 'unknown' }
end
if found[1] == 'queued' then
  redis.call('HSET', KEYS[1], 'announced', '1', 'status', 'preparing',
    'updatedAtMs', text(now_ms()))
elseif found[2] ~= '1' then
  redis.call('HSET', KEYS[1], 'announced', '1')
end
redis.call('PUBLISH', OUTCOMES, ARGV[1])
return { 'announced' }
