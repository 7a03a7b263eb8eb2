-- Joined behind clock.lua and buckets.lua: see limiter.ts.
-- KEYS: buckets. ARGV: capacity and seconds of each. Takes one token from every bucket.
local buckets = buckets_from(1)
local taken = take_one(KEYS[1], now_micros(), buckets)
return answer(taken and 'admitted' or 'throttled', buckets)
