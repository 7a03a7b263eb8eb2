-- KEYS: what the names of entries begin with. ARGV: tokens of 16 bytes, one behind the other, each
-- of which ends the name of an entry; the owner's lease. Ends those that are still the owner's.
local start, tokens = KEYS[1], ARGV[1]
for row = 1, #tokens / 16 do
  local name = name_at(start, tokens, row)
  if redis.call('GET', name) == ARGV[2] then
    redis.call('UNLINK', name)
  end
end
