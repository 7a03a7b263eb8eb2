-- KEYS: delivery. ARGV: event, token, ms from now. Releases a claim without an attempt. The
-- delivery keeps its position in the queue, and its receiver is not ready until then.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver', 'dueAtMs')
if found[1] ~= ARGV[2] then
  return 'lost'
end
redis.call('SET', throttled_of(found[2]), text(now_ms() + tonumber(ARGV[3])), 'PX', ARGV[3])
release(ARGV[1], found[2])
enqueue(ARGV[1], found[2], tonumber(found[3]))
return 'released'
