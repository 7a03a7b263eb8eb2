-- KEYS: what the names of entries begin with. ARGV: tokens of 16 bytes, one behind the other, each
-- of which ends the name of an entry; the owner's lease. Ends those that are still the owner's.
for at = 1, #ARGV[1], 16 do
  local name = KEYS[1] .. string.sub(ARGV[1], at, at + 15)
  if redis.call('GET', name) == ARGV[2] then
    redis.call('UNLINK', name)
  end
end
