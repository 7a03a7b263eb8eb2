-- KEYS: delivery. ARGV: event, token. Removes a claimed delivery without an attempt.
local found = redis.call('HMGET', KEYS[1], 'lease', 'receiver')
if found[1] ~= ARGV[2] then
  return 'lost'
end
local tenant = release(ARGV[1], found[2])
redis.call('DEL', KEYS[1])
refresh(found[2], tenant)
return 'dropped'
