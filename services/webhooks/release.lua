-- Joined behind common.lua: see deliveries.ts.
-- KEYS: delivery. Arguments: delivery, token, afterMs. Releases a claim without an attempt.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= args.token then
  return 'lost'
end
release(args.delivery, found[2])
enqueue(args.delivery, found[2], now_ms() + tonumber(args.afterMs))
return 'released'
