-- KEYS: delivery. ARGV: event, token, state, due at or '', pace (quick or slow), paced ms, kept ms,
-- the attempt as JSON. An attempt whose lease went to somebody else counts for nothing.
local event, state = ARGV[1], ARGV[3]
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= ARGV[2] then
  return 'lost'
end
local receiver = found[2]
local tenant = let_go(event, receiver)
local attempts = redis.call('HINCRBY', KEYS[1], 'attempts', 1)
redis.call('HSET', ATTEMPTS, event .. ':' .. attempts, ARGV[8])
redis.call('SET', pace_of(receiver), ARGV[5], 'PX', ARGV[6])
if state == 'waiting' then
  enqueue(event, receiver, tonumber(ARGV[4]))
else
  redis.call('HSET', KEYS[1], 'state', state, 'dueAtMs', '', 'lease', '', 'once', '')
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
  refresh(receiver, tenant)
end
return 'noted'
