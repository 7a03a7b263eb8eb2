-- Joined behind common.lua: see cache.ts.
-- KEYS: the prefix of entry names. ARGV: the TTL in milliseconds; the number of the text of each
-- entry; tokens of 16 bytes each, with which entry names end; then the texts.
local prefix, ttl, numbers, tokens = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
for row = 1, #numbers / 2 do
  local text = ARGV[3 + number_at(numbers, row)]
  redis.call('SET', name_at(prefix, tokens, row), text, 'PX', ttl)
end
