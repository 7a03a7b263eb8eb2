-- Joined behind clock.lua and buckets.lua: see limiter.ts.
-- KEYS: buckets. ARGV: capacity and seconds of each. Takes no token.
local buckets = buckets_from(1)
fill(KEYS[1], now_micros(), buckets)
return answer('read', buckets)
