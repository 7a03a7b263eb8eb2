-- KEYS: delivery. ARGV: event, token, ms from now. Gives a claim back: no attempt was made.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= ARGV[2] then
  return 'lost'
end
let_go(ARGV[1], found[2])
enqueue(ARGV[1], found[2], now_ms() + tonumber(ARGV[3]))
return 'released'
