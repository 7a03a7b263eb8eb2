-- Joined behind common.lua: see deliveries.ts.
-- KEYS: delivery. Arguments: delivery, token, state, dueAtMs (of `waiting`), priority (quick or
-- slow), priorityMs (how long it lasts), rememberedMs (how long an ended delivery is kept), attempt
-- (as JSON). Records an attempt and the new state of the delivery. Ignores the attempt if
-- another process holds the lease.
local delivery, state = args.delivery, args.state
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= args.token then
  return 'lost'
end
local receiver = found[2]
local tenant = release(delivery, receiver)
local attempts = redis.call('HINCRBY', KEYS[1], 'attempts', 1)
redis.call('HSET', ATTEMPTS, delivery .. ':' .. attempts, args.attempt)
redis.call('SET', priority_of(receiver), args.priority, 'PX', args.priorityMs)
if state == 'waiting' then
  enqueue(delivery, receiver, tonumber(args.dueAtMs))
else
  redis.call('HSET', KEYS[1], 'state', state, 'dueAtMs', '', 'lease', '', 'once', '')
  redis.call('PEXPIRE', KEYS[1], args.rememberedMs)
  refresh(receiver, tenant)
end
return 'recorded'
