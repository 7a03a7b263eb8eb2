-- KEYS: what the names of buckets begin with. ARGV: tokens of 16 bytes, one behind the other; the
-- owner's lease. Ends those that are still the owner's.
local start, tokens, lease = KEYS[1], ARGV[1], digest_of(ARGV[2])
for row = 1, #tokens / 16 do
  local bucket, field = place_at(start, tokens, row)
  if redis.call('HGET', bucket, field) == lease then
    redis.call('HDEL', bucket, field)
  end
end
