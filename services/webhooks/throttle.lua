-- Joined behind common.lua: see deliveries.ts.
-- KEYS: delivery. Arguments: delivery, token, forMs. Releases a claim without an attempt. The
-- delivery keeps its position in the queue, and its receiver is not ready until then.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver', 'dueAtMs')
if found[1] ~= args.token then
  return 'lost'
end
redis.call('SET', throttled_of(found[2]), text(now_ms() + tonumber(args.forMs)), 'PX', args.forMs)
release(args.delivery, found[2])
enqueue(args.delivery, found[2], tonumber(found[3]))
return 'released'
