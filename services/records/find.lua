-- KEYS: what the names of buckets begin with. ARGV: tokens of 16 bytes, one behind the other. Gives
-- what each entry holds.
local start, tokens = KEYS[1], ARGV[1]
return packed(#tokens / 16, function(row)
  return text_of(start, redis.call('HGET', place_at(start, tokens, row)))
end)
