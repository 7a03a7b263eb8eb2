-- Joined behind common.lua: see cache.ts.
-- KEYS: the prefix of entry names. ARGV: tokens of 16 bytes each, with which entry names end; the
-- lease of the owner. Deletes the leases that still belong to the owner.
local prefix, tokens = KEYS[1], ARGV[1]
for row = 1, #tokens / 16 do
  local name = name_at(prefix, tokens, row)
  if redis.call('GET', name) == ARGV[2] then
    redis.call('UNLINK', name)
  end
end
