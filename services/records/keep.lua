-- KEYS: what the names of buckets begin with. ARGV: milliseconds the entries are kept; for each the
-- number of its text; tokens of 16 bytes, one behind the other; then the texts.
local start, lasts, numbers, tokens = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
for row = 1, #numbers / 2 do
  local bucket, field = place_at(start, tokens, row)
  local text = ARGV[3 + number_at(numbers, row)]
  redis.call('HSET', bucket, field, keep_text(start, text, lasts))
  outlive(start, bucket, lasts)
end
