-- KEYS: buckets. ARGV: capacity and seconds of each. A request that was let in and came to nothing
-- by no fault of its own: what it took is put back.
local buckets = buckets_from(1)
local now = now_micros()
local at = fill(KEYS[1], now, buckets)
for _, bucket in ipairs(buckets) do
  bucket.level = math.min(bucket.level + 1, bucket.capacity)
end
write(KEYS[1], { at = at, now = now }, buckets)
return answer('given back', buckets)
