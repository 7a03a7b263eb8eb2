-- KEYS: what the names of entries begin with. ARGV: tokens of 16 bytes, one behind the other; each
-- ends the name of an entry. Gives what each entry holds.
local start, tokens = KEYS[1], ARGV[1]
return packed(#tokens / 16, function(row)
  return redis.call('GET', name_at(start, tokens, row))
end)
