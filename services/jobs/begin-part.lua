-- KEYS: job, gate. Whether the rows of a part are to be checked.
local gate = gate_of(KEYS[2])
if gate.shut then
  return gate.shut
end
local found = redis.call('HMGET', KEYS[1], 'status', 'ended')
local status = found[1]
if not status or found[2] == '1' then
  return { 'skip' }
end
if status == 'cancelling' then
  return { 'cancelling' }
end
if status ~= 'verifying' then
  redis.call('HSET', KEYS[1], 'status', 'verifying', 'updatedAtMs', text(now_ms()))
end
return { 'run' }
