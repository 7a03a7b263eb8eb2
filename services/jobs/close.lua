-- KEYS: job, seen, manifest, open, data key, gate. ARGV: job.
-- Cuts a job that has ended to its header, which goes soon afterwards along with its data key.
local gate = gate_of(KEYS[6])
if gate.shut then
  return gate.shut
end
local found = redis.call('HMGET', KEYS[1], 'ended', 'closed')
if found[2] == '1' then
  return { 'closed' }
end
if found[1] ~= '1' then
  return { 'open' }
end
redis.call('HSET', KEYS[1], 'closed', '1', 'announced', '1')
redis.call('PEXPIRE', KEYS[1], text(CLOSED_KEPT_MS))
redis.call('PEXPIRE', KEYS[5], text(CLOSED_KEPT_MS))
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('PUBLISH', OUTCOMES, ARGV[1])
return { 'closed' }
