-- Joined behind common.lua: see deliveries.ts.
-- KEYS: delivery. Arguments: delivery, token. Removes a claimed delivery without an attempt.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= args.token then
  return 'lost'
end
local tenant = release(args.delivery, found[2])
redis.call('DEL', KEYS[1])
refresh(found[2], tenant)
return 'dropped'
