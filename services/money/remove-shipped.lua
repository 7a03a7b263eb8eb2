-- KEYS: wallet. ARGV: field and text of each entry.
-- Removes entries that are in the journal topic. A field with another text has a newer entry: Redis
-- lost the one that was shipped, and assigned its seq again.
for at = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
