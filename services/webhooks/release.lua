-- KEYS: delivery. ARGV: event, token, ms from now. Releases a claim without an
-- attempt.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= ARGV[2] then
  return 'lost'
end
release(ARGV[1], found[2])
enqueue(ARGV[1], found[2], now_ms() + tonumber(ARGV[3]))
return 'released'
