-- KEYS: what the names of entries begin with. ARGV: tokens of 16 bytes, one behind the other; each
-- ends the name of an entry. Gives what each entry holds.
local answer = {}
for at = 1, #ARGV[1], 16 do
  answer[#answer + 1] = redis.call('GET', KEYS[1] .. string.sub(ARGV[1], at, at + 15))
end
return answer
