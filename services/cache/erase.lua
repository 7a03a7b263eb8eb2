-- Joined behind common.lua: see cache.ts.
-- KEYS: the prefix of entry names. ARGV: tokens of 16 bytes each, with which entry names end; the
-- beginning of a lease. Deletes the records; leases of running jobs stay.
local prefix, tokens = KEYS[1], ARGV[1]
for row = 1, #tokens / 16 do
  local name = name_at(prefix, tokens, row)
  local value = redis.call('GET', name)
  if value and value:sub(1, #ARGV[2]) ~= ARGV[2] then
    redis.call('UNLINK', name)
  end
end
