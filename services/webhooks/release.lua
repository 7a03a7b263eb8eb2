-- KEYS: delivery. Arguments: event, token, afterMs. Releases a claim without an attempt.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= args.token then
  return 'lost'
end
release(args.event, found[2])
enqueue(args.event, found[2], now_ms() + tonumber(args.afterMs))
return 'released'
