-- KEYS: delivery. ARGV: event, token, state, due at or '', priority (quick or slow), ms that the
-- priority lasts, ms that an ended delivery is kept, the attempt as JSON. Records an attempt and
-- the new state of the delivery. Ignores the attempt if another process holds the lease.
local event, state = ARGV[1], ARGV[3]
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= ARGV[2] then
  return 'lost'
end
local receiver = found[2]
local tenant = release(event, receiver)
local attempts = redis.call('HINCRBY', KEYS[1], 'attempts', 1)
redis.call('HSET', ATTEMPTS, event .. ':' .. attempts, ARGV[8])
redis.call('SET', priority_of(receiver), ARGV[5], 'PX', ARGV[6])
if state == 'waiting' then
  enqueue(event, receiver, tonumber(ARGV[4]))
else
  redis.call('HSET', KEYS[1], 'state', state, 'dueAtMs', '', 'lease', '', 'once', '')
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
  refresh(receiver, tenant)
end
return 'recorded'
