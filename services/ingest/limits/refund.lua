-- Joined behind clock.lua and buckets.lua: see limiter.ts.
-- KEYS: buckets. ARGV: capacity and seconds of each. Returns the tokens of an admitted request that
-- failed through no fault of its own.
local buckets = buckets_from(1)
local now = now_micros()
local at = fill(KEYS[1], now, buckets)
for _, bucket in ipairs(buckets) do
  bucket.level = math.min(bucket.level + 1, bucket.capacity)
end
write(KEYS[1], { at = at, now = now }, buckets)
return answer('refunded', buckets)
